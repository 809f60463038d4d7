/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/top/ask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/peer.h"
#include "common/json.h"

#define IN_RUN      "apir/top" /* of others, in a folder of USERS */
#define USERS       "/run/user"
#define NAME_BEGIN  "server-"
#define SERVERS_MAX 1024
#define FOLDER_MAX  4096 /* names that are looked at */
#define ANSWER_MAX  (4u << 20)
#define READS_MAX   (1u << 16)
#define PIECE_MS    50u

struct server {
    struct sockaddr_un address;
    struct apir_fdsock_peer peer;
    int fd; /* -1: it has come to an end */
    char *text;
    size_t size, room;
    const char *error; /* NULL: it has said all */
};

struct servers {
    int n;
    struct server list[SERVERS_MAX];
};

/* ---- finding -------------------------------------------------------------------- */

static void add(struct servers *servers, const char *folder, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (servers->n == SERVERS_MAX ||
        snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", folder, name) >= (int)sizeof(a.sun_path))
        return;
    for (int i = 0; i < servers->n; i++)
        if (strcmp(servers->list[i].address.sun_path, a.sun_path) == 0)
            return;
    servers->list[servers->n++] = (struct server){.address = a, .fd = -1};
}

static void add_folder(struct servers *servers, const char *folder)
{
    cleanup_dir DIR *dir = opendir(folder);
    struct dirent *e;

    for (int n = 0; dir && n < FOLDER_MAX && (e = readdir(dir)); n++) {
        struct stat st;
        if (strncmp(e->d_name, NAME_BEGIN, strlen(NAME_BEGIN)) == 0 &&
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode))
            add(servers, folder, e->d_name);
    }
}

static void add_run(struct servers *servers, const char *run)
{
    char folder[PATH_MAX];

    if (snprintf(folder, sizeof(folder), "%s/" IN_RUN, run) < (int)sizeof(folder))
        add_folder(servers, folder);
}

static void find(struct servers *servers)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    char own[sizeof(USERS) + 16];
    cleanup_dir DIR *dir = geteuid() == 0 ? opendir(USERS) : NULL;

    add_folder(servers, CDI_TOP_FOLDER);
    if (run && run[0] == '/')
        add_run(servers, run);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strlen(e->d_name) < 16 && e->d_name[strspn(e->d_name, "0123456789")] == '\0') {
            snprintf(own, sizeof(own), USERS "/%.16s", e->d_name);
            add_run(servers, own);
        }
    }
    snprintf(own, sizeof(own), USERS "/%u", (unsigned)geteuid());
    add_run(servers, own);
}

static int by_path(const void *a, const void *b)
{
    const struct server *x = a, *y = b;

    return strcmp(x->address.sun_path, y->address.sun_path);
}

/* ---- asking ---------------------------------------------------------------------- */

static void end(struct server *s, const char *error)
{
    apir_close_fd(&s->fd);
    s->error = error;
}

/* Those that nobody serves, or that are another user's, are taken out. */
static void connect_all(struct servers *servers)
{
    int n = 0;

    for (int i = 0; i < servers->n; i++) {
        struct server *s = &servers->list[i];
        s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const bool connected =
            s->fd >= 0 && connect(s->fd, (const struct sockaddr *)(const void *)&s->address,
                                  sizeof(s->address)) == 0;
        const int why = connected ? 0 : errno;
        if (connected)
            (void)apir_fdsock_peer(s->fd, &s->peer);
        else
            end(s, why == EAGAIN ? "does not answer" : "cannot be asked");
        if (why != ECONNREFUSED && why != ENOENT && why != EACCES)
            servers->list[n++] = *s;
    }
    servers->n = n;
}

static void read_some(struct server *s)
{
    if (s->size == s->room) {
        const size_t room = s->room ? 2 * s->room : 16384;
        char *text = room <= ANSWER_MAX ? realloc(s->text, room + 1) : NULL;
        if (!text) {
            end(s, "says too much");
            return;
        }
        s->text = text;
        s->room = room;
    }
    ssize_t n = recv(s->fd, s->text + s->size, s->room - s->size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        s->size += (size_t)n;
    else
        end(s, n < 0 || s->size == 0 ? "does not answer" : NULL);
}

static void read_all(struct servers *servers, unsigned timeout_ms)
{
    static struct pollfd fds[SERVERS_MAX];

    /* In pieces: what the machine was busy or asleep for is nobody's silence, and counts as one.
     * One that speaks all the time is bounded by ANSWER_MAX, or how often it is read. */
    for (unsigned waited = 0, reads = 0; waited < timeout_ms && reads < READS_MAX; reads++) {
        int open = 0;
        for (int i = 0; i < servers->n; i++) {
            fds[i] = (struct pollfd){.fd = servers->list[i].fd, .events = POLLIN};
            open += servers->list[i].fd >= 0;
        }
        if (open == 0)
            break;
        if (poll(fds, (nfds_t)servers->n, PIECE_MS) <= 0) {
            waited += PIECE_MS;
            continue;
        }
        for (int i = 0; i < servers->n; i++)
            if (fds[i].fd >= 0 && fds[i].revents)
                read_some(&servers->list[i]);
    }
    for (int i = 0; i < servers->n; i++)
        if (servers->list[i].fd >= 0)
            end(&servers->list[i], "does not answer");
}

/* ---- what was said ---------------------------------------------------------------- */

static struct json_object *object_of(struct server *s)
{
    struct json_object *object = NULL;

    if (!s->error) {
        s->text[s->size] = '\0';
        while (s->size > 0 && s->text[s->size - 1] == '\n')
            s->text[--s->size] = '\0';
        if (apir_json_parse(s->text, s->size, &object, NULL) < 0)
            s->error = "says what is not understood";
    }
    if (!object)
        object = json_object_new_object();
    json_object_object_del(object, "error"); /* ours */
    if (s->error)
        (void)apir_json_set(object, "error", json_object_new_string(s->error));
    (void)apir_json_set(object, "at", json_object_new_string(s->address.sun_path));
    /* By the kernel: what stands in the answer is what somebody says. */
    (void)apir_json_set(object, "pid", json_object_new_int64(s->peer.pid));
    (void)apir_json_set(object, "uid", json_object_new_int64(s->peer.uid));
    return object;
}

struct json_object *cdi_top_ask(unsigned timeout_ms, struct apir_error *err)
{
    cleanup_free struct servers *servers = calloc(1, sizeof(*servers));
    struct json_object *all = json_object_new_array();

    if (!servers || !all) {
        json_object_put(all);
        (void)apir_error_sys(err, ENOMEM, "the servers");
        return NULL;
    }
    find(servers);
    qsort(servers->list, (size_t)servers->n, sizeof(servers->list[0]), by_path);
    connect_all(servers);
    read_all(servers, timeout_ms);
    for (int i = 0; i < servers->n; i++) {
        (void)apir_json_append(all, object_of(&servers->list[i]));
        free(servers->list[i].text);
    }
    return all;
}
