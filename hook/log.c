/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FACILITY_DAEMON (3 << 3)
#define FILE_MAX        (1 << 20)

static int syslog_fd = -1;
static int kmsg_fd = -1;
static int file_fd = -1;
static char container[13];

/* Only root writes in /run, so the name is no trap. What is full stays as it is. */
static int open_file(void)
{
    struct stat st;
    int fd =
        open("/run/apir-hook.log",
             O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0600);

    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)) {
        close(fd);
        return -1;
    }
    return fd;
}

void hook_log_open(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};

    /* Before the pivot: these are the host's paths, not the image's. */
    syslog_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (syslog_fd >= 0 &&
        connect(syslog_fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        close(syslog_fd);
        syslog_fd = -1;
    }
    if (syslog_fd < 0)
        kmsg_fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (syslog_fd < 0 && kmsg_fd < 0)
        file_fd = open_file();
}

void hook_log_set_id(const char *id)
{
    snprintf(container, sizeof(container), "%s", id == NULL ? "" : id);
}

void hook_log(enum hook_level level, const char *fmt, ...)
{
    char text[700], line[800];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    /* Names out of the image are in here: they must not forge a second line. */
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    const char *start = container[0] != '\0' ? " [" : "", *end = container[0] != '\0' ? "]" : "";

    /*
     * The kernel holds a record back until its newline; syslog wants none. A log
     * that cannot be written to changes nothing for the container.
     */
    int n = snprintf(line, sizeof(line), "<%d>apir-hook%s%s%s: %s\n", FACILITY_DAEMON | (int)level,
                     start, container, end, text);
    if (n > 0 && syslog_fd >= 0)
        (void)send(syslog_fd, line, strlen(line) - 1, MSG_NOSIGNAL);
    else if (n > 0 && kmsg_fd >= 0 && write(kmsg_fd, line, strlen(line)) < 0)
        kmsg_fd = -1;
    if (file_fd >= 0)
        dprintf(file_fd, "apir-hook%s%s%s: %s\n", start, container, end, text);
    dprintf(STDERR_FILENO, "apir-hook%s%s%s: %s\n", start, container, end, text);
}
