/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/seen/seen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/server/seen/report.h"
#include "backend/server/session.h"
#include "common/cleanup.h"
#include "common/fdsock.h"
#include "common/peer.h"
#include "common/log.h"

#define NAME_BEGIN "server-"
/* Servers in other namespaces of processes may have our number. */
#define NAMES 16u
/* Of a folder that others can write in. */
#define LEFT_LOOKED_AT 1024u

/* ---- readers ------------------------------------------------------------------- */

static void seen_update(struct server_seen *seen)
{
    bool room = false;
    for (unsigned i = 0; i < SERVER_SEEN_READERS; i++)
        room = room || !seen->readers[i].source.added;
    server_loop_modify(seen->loop, &seen->source, room && !seen->again.armed ? SERVER_LOOP_IN : 0);
}

static void reader_end(struct server_seen_reader *reader)
{
    server_loop_remove(reader->seen->loop, &reader->source);
    server_timer_disarm(reader->seen->loop, &reader->late);
    apir_close_fd(&reader->fd);
    free(reader->text);
    reader->text = NULL;
    seen_update(reader->seen);
}

static void reader_late(void *user)
{
    reader_end(user);
}

static void reader_ready(void *user, uint32_t events)
{
    struct server_seen_reader *reader = user;
    const size_t left = reader->size - reader->sent;
    ssize_t n =
        events & (SERVER_LOOP_HUP | SERVER_LOOP_ERR)
            ? 0
            : send(reader->fd, reader->text + reader->sent, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    reader->sent += n > 0 ? (size_t)n : 0;
    if (n <= 0 || reader->sent == reader->size)
        reader_end(reader);
}

static bool peer_may(int fd)
{
    struct apir_fdsock_peer who;
    return apir_fdsock_peer(fd, &who) && (who.uid == geteuid() || who.uid == 0);
}

static void seen_again(void *user)
{
    seen_update(user);
}

static void seen_accept(void *user, uint32_t events)
{
    (void)events;
    struct server_seen *seen = user;
    struct server_seen_reader *reader = seen->readers;
    cleanup_fd int fd = apir_fdsock_accept(seen->fd);
    if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
        /* No descriptor, no memory: looking again at once would only burn the core. */
        server_timer_arm(seen->loop, &seen->again, server_now_ms() + SERVER_SEEN_AGAIN_MS,
                         seen_again, seen);
    while (reader < &seen->readers[SERVER_SEEN_READERS] && reader->source.added)
        reader++;
    if (fd >= 0 && reader < &seen->readers[SERVER_SEEN_READERS] && peer_may(fd)) {
        *reader = (struct server_seen_reader){.seen = seen, .fd = -1};
        reader->text = server_report_make(seen->contexts, seen->served, &reader->size);
        if (reader->text && server_loop_add(seen->loop, &reader->source, fd, SERVER_LOOP_OUT,
                                            reader_ready, reader) == 0) {
            reader->fd = steal_fd(&fd);
            server_timer_arm(seen->loop, &reader->late, server_now_ms() + SERVER_SEEN_READ_MS,
                             reader_late, reader);
        } else {
            free(reader->text);
        }
    }
    seen_update(seen);
}

/* ---- the socket ----------------------------------------------------------------- */

/* What servers that were killed have left: nobody listens there. Of others it is theirs to remove.
 */
static void folder_clean(const char *folder)
{
    cleanup_dir DIR *dir = opendir(folder);
    struct dirent *e;
    for (unsigned n = 0; dir && n < LEFT_LOOKED_AT && (e = readdir(dir)); n++) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        struct stat st;
        if (strncmp(e->d_name, NAME_BEGIN, strlen(NAME_BEGIN)) != 0 ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode) ||
            st.st_uid != geteuid() ||
            snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", folder, e->d_name) >=
                (int)sizeof(a.sun_path))
            continue;
        cleanup_fd int fd = apir_fdsock_open(SOCK_STREAM);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)(const void *)&a, sizeof(a)) < 0 &&
            errno == ECONNREFUSED)
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
}

/* The folder, made where it is a user's own. Returns 0 or -errno. */
static int folder_find(char *folder, size_t size)
{
    if (access(SERVER_SEEN_FOLDER, W_OK | X_OK) == 0)
        return snprintf(folder, size, "%s", SERVER_SEEN_FOLDER) >= (int)size ? -ENAMETOOLONG : 0;
    return server_session_folder("top", folder, size);
}

static int seen_bind(struct server_seen *seen, const char *folder)
{
    const struct sockaddr *a = (const struct sockaddr *)(const void *)&seen->address;
    int rc = -EADDRINUSE;
    for (unsigned i = 0; i < NAMES && rc == -EADDRINUSE; i++) {
        seen->address = (struct sockaddr_un){.sun_family = AF_UNIX};
        if (snprintf(seen->address.sun_path, sizeof(seen->address.sun_path),
                     "%s/" NAME_BEGIN "%d-%u", folder, (int)getpid(),
                     i) >= (int)sizeof(seen->address.sun_path))
            return -ENAMETOOLONG;
        const mode_t old = umask(0177);
        rc = bind(seen->fd, a, sizeof(seen->address)) < 0 ? -errno : 0;
        umask(old);
    }
    if (rc == 0 && listen(seen->fd, 16) < 0) {
        rc = -errno;
        (void)unlink(seen->address.sun_path);
    }
    return rc;
}

static int seen_open(struct server_seen *seen, struct server_loop *loop)
{
    char folder[PATH_MAX];
    int rc = folder_find(folder, sizeof(folder));
    if (rc < 0)
        return rc;
    folder_clean(folder);
    seen->fd = apir_fdsock_open(SOCK_STREAM);
    if (seen->fd < 0)
        return -errno;
    (void)apir_fdsock_refuse(seen->fd); /* before anybody can connect */
    rc = seen_bind(seen, folder);
    if (rc < 0)
        return rc;
    rc = server_loop_add(loop, &seen->source, seen->fd, SERVER_LOOP_IN, seen_accept, seen);
    if (rc < 0)
        (void)unlink(seen->address.sun_path);
    return rc;
}

void server_seen_init(struct server_seen *seen, struct server_contexts *contexts,
                      const char *served)
{
    *seen = (struct server_seen){.contexts = contexts, .served = served, .fd = -1};
    int rc = seen_open(seen, contexts->env.loop);
    if (rc < 0) {
        apir_close_fd(&seen->fd);
        apir_log(APIR_LOG_INFO,
                 "apir top cannot look at this server: no socket for it in %s, nor "
                 "below XDG_RUNTIME_DIR: %s",
                 SERVER_SEEN_FOLDER, strerror(-rc));
        return;
    }
    seen->loop = contexts->env.loop;
}

void server_seen_fini(struct server_seen *seen)
{
    if (!seen->loop)
        return;
    for (unsigned i = 0; i < SERVER_SEEN_READERS; i++) {
        if (seen->readers[i].source.added)
            reader_end(&seen->readers[i]);
    }
    server_timer_disarm(seen->loop, &seen->again);
    server_loop_remove(seen->loop, &seen->source);
    apir_close_fd(&seen->fd);
    (void)unlink(seen->address.sun_path);
    seen->loop = NULL;
}
