/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/text.h"
#include "common/cleanup.h"

#define FACILITY_DAEMON (3 << 3)
#define FILE_NAME       "apir-hook.log"
#define FILE_MAX        (1 << 20)

static int syslog_fd = -1;
static int file_fd = -1;
static char container[13];

/* A full file makes room under another name; a link or a fifo of that name is no log. */
static int open_in(int dir)
{
    struct stat st;

    for (int i = 0; i < 2; i++) {
        cleanup_fd int fd = openat(
            dir, FILE_NAME,
            O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0600);

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
            return -1;
        if (st.st_size <= FILE_MAX)
            return steal_fd(&fd);
        if (renameat(dir, FILE_NAME, dir, FILE_NAME ".1") < 0)
            return -1;
    }
    return -1;
}

static int open_folder(int at, const char *path)
{
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The inode that every kernel gives to the first of all user namespaces. */
static bool in_user_namespace(void)
{
    struct stat st;

    return stat("/proc/self/ns/user", &st) < 0 || st.st_ino != 0xEFFFFFFDu;
}

/*
 * Rootless: XDG_RUNTIME_DIR is not to be had (the environment may be the image's),
 * but /run/user/UID is, and in a user namespace there is none but the engine's own
 * user's that lets us in, whatever our user is called inside.
 */
static int open_in_user_folder(void)
{
    cleanup_fd int run = open_folder(AT_FDCWD, "/run/user");
    bool any = in_user_namespace();
    struct stat st;
    int file = -1;

    DIR *list = run < 0 ? NULL : fdopendir(run);
    if (!list)
        return -1;
    int at = steal_fd(&run);
    for (struct dirent *e; file < 0 && (e = readdir(list));) {
        if (strspn(e->d_name, "0123456789") != strlen(e->d_name))
            continue;
        cleanup_fd int dir = open_folder(at, e->d_name);
        if (dir >= 0 && fstat(dir, &st) == 0 && (any || st.st_uid == geteuid()))
            file = open_in(dir);
    }
    closedir(list);
    return file;
}

void hook_log_open(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};

    /* Before the pivot: these are the host's paths, not the image's. */
    syslog_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (syslog_fd >= 0 &&
        connect(syslog_fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        apir_close_fd(&syslog_fd);
    if (syslog_fd >= 0)
        return;
    /* Only root writes in /run, so the name is no trap. */
    cleanup_fd int run = open_folder(AT_FDCWD, "/run");
    file_fd = run < 0 ? -1 : open_in(run);
    if (file_fd < 0)
        file_fd = open_in_user_folder();
}

void hook_log_set_container(const char *id, const char *bundle)
{
    snprintf(container, sizeof(container), "%s", id ? id : "");
    if (!bundle || syslog_fd >= 0 || file_fd >= 0)
        return;
    /* The runtime's own folder for this container: no image writes there. */
    cleanup_fd int dir = open_folder(AT_FDCWD, bundle);
    file_fd = dir < 0 ? -1 : open_in(dir);
}

void hook_log(enum hook_level level, const char *fmt, ...)
{
    char text[700], line[800];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    /* Names out of the image are in here: they must not forge a second line, or move a cursor. */
    apir_text_clean(text);
    const char *start = container[0] != '\0' ? " [" : "", *end = container[0] != '\0' ? "]" : "";

    /* The name with its colon first: that is how the journal and syslog find it. */
    char *tail = line + snprintf(line, 8, "<%d>", FACILITY_DAEMON | (int)level);
    int n = snprintf(tail, sizeof(line) - 8, "apir-hook:%s%s%s %s\n", start, container, end, text);
    if (n < 0)
        return;

    /* Without its newline. A log that cannot be written to changes nothing for the container. */
    if (syslog_fd >= 0)
        (void)send(syslog_fd, line, strlen(line) - 1, MSG_NOSIGNAL);
    if (file_fd >= 0)
        dprintf(file_fd, "%s", tail);
    dprintf(STDERR_FILENO, "%s", tail);
}
