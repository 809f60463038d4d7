/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/unix/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/server/closer.h"
#include "backend/server/unix/unix.h"
#include "common/cleanup.h"
#include "common/fdsock.h"
#include "common/peer.h"
#include "common/log.h"

#define LISTEN_BACKLOG       128
#define LISTEN_FRESH         ".new" /* behind a path, until its socket is ready */
#define LISTEN_RESUME_MS     100    /* without a free descriptor */
#define LISTEN_LOG_LIMIT     20u    /* lines per period that a client can cause */
#define LISTEN_LOG_PERIOD_MS 60000

/* ---- the socket ------------------------------------------------------------ */

static int listen_address(const char *path, struct sockaddr_un *addr, struct apir_error *err)
{
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (path[0] != '/')
        return apir_error_set(err, EINVAL, "the socket's path must be absolute: %s", path);
    if (strlen(path) >= sizeof(addr->sun_path))
        return apir_error_set(err, ENAMETOOLONG, "the socket's path has more than %zu bytes: %s",
                              sizeof(addr->sun_path) - 1, path);
    memcpy(addr->sun_path, path, strlen(path));
    return 0;
}

/* Whether a server takes connections at addr. */
static bool listen_is_served(const struct sockaddr_un *addr)
{
    cleanup_fd int fd = apir_fdsock_open(SOCK_SEQPACKET);
    if (fd < 0 || connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
        return fd >= 0;
    return errno == EAGAIN || errno == EACCES || errno == EPROTOTYPE;
}

static int listen_set_group(const char *path, const char *group, struct apir_error *err)
{
    if (!group)
        return 0;
    const struct group *entry = getgrnam(group);
    if (!entry)
        return apir_error_set(err, ENOENT, "there is no group %s", group);
    /* Where the folder is another's, a link may be there by now. */
    if (lchown(path, (uid_t)-1, entry->gr_gid) < 0)
        return apir_error_sys(err, errno, "cannot give %s to group %s", path, group);
    return 0;
}

/* Binds under a name of its own, gives it its owner, and only then the name that clients know. */
static int listen_bind(int fd, const char *path, const char *group, struct stat *ret_made,
                       struct apir_error *err)
{
    struct sockaddr_un addr;
    char fresh[sizeof(addr.sun_path) + 8];
    snprintf(fresh, sizeof(fresh), "%s" LISTEN_FRESH, path);
    int rc = listen_address(fresh, &addr, err);
    if (rc < 0)
        return rc;
    if (unlink(fresh) < 0 && errno != ENOENT)
        return apir_error_sys(err, errno, "cannot remove %s", fresh);
    mode_t old = umask(0117);
    rc = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
    umask(old);
    if (rc < 0)
        return apir_error_sys(err, -rc, "cannot make the socket %s", fresh);
    rc = listen_set_group(fresh, group, err);
    if (rc == 0 && listen(fd, LISTEN_BACKLOG) < 0)
        rc = apir_error_sys(err, errno, "cannot listen on %s", fresh);
    if (rc == 0 && lstat(fresh, ret_made) < 0)
        rc = apir_error_sys(err, errno, "%s", fresh);
    if (rc == 0 && rename(fresh, path) < 0)
        rc = apir_error_sys(err, errno, "cannot rename %s to %s", fresh, path);
    if (rc < 0)
        unlink(fresh);
    return rc;
}

int server_listen_make(const char *path, const char *group, struct stat *ret_made,
                       struct apir_error *err)
{
    struct sockaddr_un addr;
    struct stat st;
    int rc = listen_address(path, &addr, err);
    if (rc < 0)
        return rc;
    if (lstat(path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode))
            return apir_error_set(err, EEXIST, "%s is there, and is no socket", path);
        if (listen_is_served(&addr))
            return apir_error_set(err, EADDRINUSE, "another server listens on %s already", path);
    }
    cleanup_fd int fd = apir_fdsock_open(SOCK_SEQPACKET);
    if (fd < 0)
        return apir_error_sys(err, errno, "cannot make a socket");
    (void)apir_fdsock_refuse(fd); /* before anybody can connect */
    rc = listen_bind(fd, path, group, ret_made, err);
    return rc < 0 ? rc : steal_fd(&fd);
}

void server_listen_remove(const char *path, const struct stat *made)
{
    struct stat st;
    if (lstat(path, &st) == 0 && st.st_dev == made->st_dev && st.st_ino == made->st_ino)
        unlink(path);
}

/* 1 to 10 digits and nothing else; -1: no such number. */
static long listen_number(const char *text)
{
    if (!text || !*text || strlen(text) > 10 || text[strspn(text, "0123456789")] != '\0')
        return -1;
    return strtol(text, NULL, 10);
}

int server_listen_inherit(struct apir_error *err)
{
    const long pid = listen_number(getenv("LISTEN_PID"));
    const long count = listen_number(getenv("LISTEN_FDS"));
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (pid < 0 || count < 0 || pid != getpid())
        return apir_error_set(err, EINVAL,
                              "no socket was passed to this process (LISTEN_PID, LISTEN_FDS): "
                              "--listen-fds is for a service that a socket unit starts");
    if (count != 1)
        return apir_error_set(err, EINVAL, "%ld sockets were passed; one is served", count);
    const int fd = 3;
    int type = 0;
    struct sockaddr_un address;
    socklen_t address_size = sizeof(address);
    int listening = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &address_size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0)
        return apir_error_sys(err, errno, "the descriptor that was passed is no socket");
    if (address.sun_family != AF_UNIX || type != SOCK_SEQPACKET || !listening)
        return apir_error_set(err, EPROTOTYPE,
                              "the socket that was passed must be one of "
                              "ListenSequentialPacket=, at a path, with Accept=no");
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return apir_error_sys(err, errno, "the socket that was passed");
    return fd;
}

/* ---- connections ----------------------------------------------------------- */

/* NULL: it becomes a context; else the text for its user. buf holds it. */
static const char *server_listen_refusal(struct server_listen *listen, bool may, uid_t uid,
                                         const struct server_user *user, char *buf, size_t size)
{
    const struct apir_config *config = listen->contexts.env.config;
    if (listen->contexts.env.refusal)
        return listen->contexts.env.refusal;
    if (!may)
        snprintf(buf, size,
                 "user %u may not use the host's GPU (allow_users and allow_groups in the host's "
                 "configuration)",
                 uid);
    else if (!user)
        return "the host has no memory for a context";
    else if (user->contexts >= config->max_contexts_per_user)
        snprintf(buf, size,
                 "the host serves %u contexts of user %u at most (max_contexts_per_user), all in "
                 "use",
                 config->max_contexts_per_user, uid);
    else if (listen->contexts.n_served >= config->max_contexts)
        snprintf(buf, size, "the host serves %u contexts at most (max_contexts), all in use",
                 config->max_contexts);
    else
        return NULL;
    return buf;
}

static void server_listen_log(struct server_listen *listen, uid_t uid, const char *what)
{
    if (server_quota_take(&listen->log_quota, LISTEN_LOG_LIMIT, LISTEN_LOG_PERIOD_MS,
                          server_now_ms()))
        apir_log(APIR_LOG_WARN, "connection of user %u refused: %s", uid, what);
}

static void server_listen_take(struct server_listen *listen, int fd)
{
    char text[APIR_REASON_MAX];
    struct apir_fdsock_peer who;
    const bool may = server_access_check(&listen->access, fd, &who);
    struct server_user *user = may ? server_users_get(&listen->contexts.users, who.uid) : NULL;
    const char *refusal = server_listen_refusal(listen, may, who.uid, user, text, sizeof(text));
    if (!refusal) {
        const uint32_t id = ++listen->last_id;
        int rc = server_unix_create(&listen->contexts, id, user, who.pid, fd);
        if (rc == 0)
            apir_log(APIR_LOG_INFO, "context %u of user %u created (%u in use)", id, who.uid,
                     listen->contexts.n_served);
        else
            server_listen_log(listen, who.uid, strerror(-rc));
        return;
    }
    server_listen_log(listen, who.uid, refusal);
    server_events_add(&listen->contexts.events, SERVER_EVENT_REFUSED, 0, who.uid, who.pid, refusal);
    server_unix_refuse(fd, refusal);
    if (listen->contexts.strangers_send)
        server_close_later(&fd, 1);
    else
        close(fd);
}

static void server_listen_resume(void *user)
{
    struct server_listen *listen = user;
    server_loop_modify(listen->contexts.env.loop, &listen->source, SERVER_LOOP_IN);
}

/* One connection each time: who it is may take a while to tell (a user can have 65,536 groups), and
 * contexts get their turn in between. */
static void server_listen_ready(void *user, uint32_t events)
{
    (void)events;
    struct server_listen *listen = user;
    int fd = apir_fdsock_accept(listen->fd);
    if (fd >= 0) {
        /* Of those that came before the service that a socket unit has started, too. */
        (void)apir_fdsock_refuse(fd);
        server_listen_take(listen, fd);
    } else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
        /* No descriptor, no memory: looking again at once would only burn the core. */
        server_listen_log(listen, (uid_t)-1, strerror(errno));
        server_loop_modify(listen->contexts.env.loop, &listen->source, 0);
        server_timer_arm(listen->contexts.env.loop, &listen->resume,
                         server_now_ms() + LISTEN_RESUME_MS, server_listen_resume, listen);
    }
}

/* ---- life ------------------------------------------------------------------ */

/* What the socket was bound to, and then renamed to. */
static void listen_path(int fd, char *path, size_t size)
{
    struct sockaddr_un addr = {0};
    socklen_t length = sizeof(addr);
    const size_t fresh = strlen(LISTEN_FRESH);
    if (getsockname(fd, (struct sockaddr *)&addr, &length) < 0)
        return;
    snprintf(path, size, "%.*s", (int)sizeof(addr.sun_path), addr.sun_path);
    const size_t n = strlen(path);
    if (n > fresh && strcmp(path + n - fresh, LISTEN_FRESH) == 0)
        path[n - fresh] = '\0';
}

int server_listen_init(struct server_listen *listen, const struct server_env *env,
                       const struct server_access *access, int fd)
{
    /*
     * Nobody has a descriptor to give to us, and whoever closes the last one of a stranger's file
     * may wait for it as long as the stranger likes: the one thread that serves all. So the kernel
     * is asked to refuse them where they are sent, and where it cannot others do the closing.
     */
    const bool refused = apir_fdsock_refuse(fd);
    *listen = (struct server_listen){
        .access = *access,
        .fd = fd,
        .contexts = {.env = *env,
                     .max_per_user = env->config->max_contexts_per_user,
                     .strangers_send = !refused},
    };
    int rc = server_contexts_init(&listen->contexts);
    if (rc == 0)
        rc = server_loop_add(env->loop, &listen->source, fd, SERVER_LOOP_IN, server_listen_ready,
                             listen);
    if (rc < 0) {
        server_listen_fini(listen);
        return rc;
    }
    listen_path(fd, listen->path, sizeof(listen->path));
    server_seen_init(&listen->seen, &listen->contexts, listen->path);
    return 0;
}

void server_listen_fini(struct server_listen *listen)
{
    server_seen_fini(&listen->seen);
    server_contexts_fini(&listen->contexts);
    server_timer_disarm(listen->contexts.env.loop, &listen->resume);
    server_loop_remove(listen->contexts.env.loop, &listen->source);
    apir_close_fd(&listen->fd);
}
