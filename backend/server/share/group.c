/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/share/group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/config/settings.h"
#include "common/cleanup.h"
#include "common/fdsock.h"

#define GROUP_OWN   "apir-mps-" /* and six letters */
#define GROUP_NAMED "apir-group-"
/* With the longest name behind it. */
#define BASE_MAX     (SERVER_GROUP_FOLDER_MAX - sizeof("/" GROUP_NAMED) - APIR_CONFIG_GROUP_MAX)
#define GROUP_LOCK   "apir.lock"
#define GROUP_SOCKET "apir.sock"

/* ---- folders ------------------------------------------------------------------- */

/* What is in the folder goes; `ours`: our own two files, too. A daemon makes no folders. */
static void folder_empty(int folder_fd, bool ours)
{
    cleanup_dir DIR *dir = apir_dir_open(folder_fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const bool is_ours =
            strcmp(e->d_name, GROUP_LOCK) == 0 || strcmp(e->d_name, GROUP_SOCKET) == 0;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && (ours || !is_ours))
            (void)unlinkat(folder_fd, e->d_name, 0);
    }
}

/* A folder of this user's that is closed to all others; -errno. In /tmp anybody may have made it.
 */
static int folder_open(int base_fd, const char *name)
{
    cleanup_fd int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return -EPERM;
    return steal_fd(&fd);
}

/* That of a server which was killed: its lock is free. */
static void folder_remove_left(int base_fd, const char *name)
{
    cleanup_fd int fd = folder_open(base_fd, name);
    if (fd < 0)
        return;
    cleanup_fd int lock_fd = openat(fd, GROUP_LOCK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        return;
    folder_empty(fd, true);
    (void)unlinkat(base_fd, name, AT_REMOVEDIR);
}

static void folders_remove_left(const char *base)
{
    cleanup_dir DIR *dir = opendir(base);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, GROUP_OWN, strlen(GROUP_OWN)) == 0)
            folder_remove_left(dirfd(dir), e->d_name);
    }
}

/* A service's (RuntimeDirectory=), a session's, or /tmp, which a service has for itself. */
static const char *folder_base(void)
{
    static const char *const variables[] = {"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *path = getenv(variables[i]);
        struct stat st;
        if (path && path[0] == '/' && strlen(path) <= BASE_MAX && stat(path, &st) == 0 &&
            st.st_uid == geteuid())
            return path;
    }
    return "/tmp";
}

static int folder_make(struct server_group *group, const char *name, struct apir_error *err)
{
    const char *base = folder_base();
    const size_t room = sizeof(group->folder);
    int n;
    if (name) {
        n = snprintf(group->folder, room, "%s/" GROUP_NAMED "%s", base, name);
        if (n < (int)room && mkdir(group->folder, 0700) < 0 && errno != EEXIST)
            n = -errno;
    } else {
        folders_remove_left(base);
        n = snprintf(group->folder, room, "%s/" GROUP_OWN "XXXXXX", base);
        if (n < (int)room && !mkdtemp(group->folder))
            n = -errno;
    }
    if (n < 0 || n >= (int)room) {
        group->folder[0] = '\0';
        return apir_error_sys(err, n < 0 ? -n : ENAMETOOLONG, "no folder in %s", base);
    }
    return 0;
}

void server_group_clear(const struct server_group *group)
{
    cleanup_fd int fd = folder_open(AT_FDCWD, group->folder);
    if (fd >= 0)
        folder_empty(fd, false);
}

/* ---- the owner ------------------------------------------------------------------ */

static void member_remove(struct server_group_member *member)
{
    server_loop_remove(member->group->loop, &member->source);
    apir_close_fd(&member->fd);
}

/* It sends nothing: it has ended. */
static void member_ready(void *user, uint32_t events)
{
    (void)events;
    member_remove(user);
}

static void member_tell(struct server_group_member *member, enum server_mps_news news)
{
    const unsigned char byte = (unsigned char)news;
    /* One that does not read is not waited for: it will see our end, and join anew. */
    if (send(member->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
        member_remove(member);
}

void server_group_tell(struct server_group *group, enum server_mps_news news)
{
    group->used = news == SERVER_MPS_USED;
    for (unsigned i = 0; group->owner && i < SERVER_GROUP_MEMBERS; i++) {
        if (group->members[i].source.added)
            member_tell(&group->members[i], news);
    }
}

static void owner_resume(void *user)
{
    struct server_group *group = user;
    server_loop_modify(group->loop, &group->source, SERVER_LOOP_IN);
}

static void owner_accept(void *user, uint32_t events)
{
    (void)events;
    struct server_group *group = user;
    cleanup_fd int fd = apir_fdsock_accept(group->socket_fd);
    if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
        /* No descriptor, no memory: looking again at once would only burn the core. */
        server_loop_modify(group->loop, &group->source, 0);
        server_timer_arm(group->loop, &group->again, server_now_ms() + SERVER_GROUP_AGAIN_MS,
                         owner_resume, group);
    }
    struct server_group_member *free = NULL;
    for (unsigned i = 0; i < SERVER_GROUP_MEMBERS && !free; i++) {
        if (!group->members[i].source.added)
            free = &group->members[i];
    }
    if (fd < 0 || !free)
        return;
    *free = (struct server_group_member){.group = group, .fd = fd};
    if (server_loop_add(group->loop, &free->source, fd, SERVER_LOOP_IN, member_ready, free) < 0)
        return;
    (void)steal_fd(&fd);
    if (group->used)
        member_tell(free, SERVER_MPS_USED);
}

/* ---- joining -------------------------------------------------------------------- */

static void group_look_again(void *user)
{
    server_group_join(user);
}

static void group_look_later(struct server_group *group)
{
    server_timer_arm(group->loop, &group->again, server_now_ms() + SERVER_GROUP_AGAIN_MS,
                     group_look_again, group);
}

static void owner_ended(struct server_group *group)
{
    server_loop_remove(group->loop, &group->source);
    apir_close_fd(&group->socket_fd);
    group->events->told(group->user, SERVER_MPS_ENDED);
    /* Not at once: an owner that has no room for us lives on, and would end this one again. */
    group_look_later(group);
}

static void member_read(void *user, uint32_t events)
{
    (void)events;
    struct server_group *group = user;
    unsigned char byte;
    ssize_t n = recv(group->socket_fd, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        owner_ended(group);
    else if (byte <= SERVER_MPS_ENDED)
        group->events->told(group->user, (enum server_mps_news)byte);
}

/* The socket, bound and listening or connected; -errno. */
static int group_socket(const struct server_group *group, bool listens)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/" GROUP_SOCKET, group->folder);
    cleanup_fd int fd = apir_fdsock_open(SOCK_SEQPACKET);
    if (fd < 0)
        return -errno;
    const struct sockaddr *a = (const struct sockaddr *)(const void *)&address;
    if (listens)
        (void)unlink(address.sun_path); /* another owner's, which has ended: the lock is ours */
    if (listens ? bind(fd, a, sizeof(address)) < 0 || listen(fd, SERVER_GROUP_MEMBERS) < 0
                : connect(fd, a, sizeof(address)) < 0)
        return -errno;
    return steal_fd(&fd);
}

/* Returns 0 or -errno. */
static int group_begin(struct server_group *group)
{
    group->owner = flock(group->lock_fd, LOCK_EX | LOCK_NB) == 0;
    if (group->owner)
        server_group_clear(group);
    if (!group->named)
        return group->owner ? 0 : -EBUSY;
    group->socket_fd = group_socket(group, group->owner);
    if (group->socket_fd < 0)
        return group->socket_fd;
    int rc = server_loop_add(group->loop, &group->source, group->socket_fd, SERVER_LOOP_IN,
                             group->owner ? owner_accept : member_read, group);
    if (rc < 0)
        apir_close_fd(&group->socket_fd);
    return rc;
}

void server_group_join(struct server_group *group)
{
    int rc = group_begin(group);
    if (rc == 0) {
        if (group->owner)
            group->events->own(group->user);
        return;
    }
    /* An owner that is just starting, or just ending. */
    if (group->owner)
        (void)flock(group->lock_fd, LOCK_UN);
    group->owner = false;
    group_look_later(group);
}

/* ---- life ------------------------------------------------------------------------ */

int server_group_init(struct server_group *group, struct server_loop *loop, const char *name,
                      const struct server_group_events *events, void *user, struct apir_error *err)
{
    *group = (struct server_group){.loop = loop,
                                   .named = name,
                                   .lock_fd = -1,
                                   .socket_fd = -1,
                                   .events = events,
                                   .user = user};
    int rc = folder_make(group, name, err);
    if (rc < 0)
        return rc;
    cleanup_fd int fd = folder_open(AT_FDCWD, group->folder);
    if (fd < 0) {
        rc = fd == -EPERM ? apir_error_set(err, EPERM, "%s is not this user's alone", group->folder)
                          : apir_error_sys(err, -fd, "%s", group->folder);
        group->folder[0] = '\0';
        return rc;
    }
    group->lock_fd = openat(fd, GROUP_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return group->lock_fd < 0 ? apir_error_sys(err, errno, "%s/" GROUP_LOCK, group->folder) : 0;
}

void server_group_fini(struct server_group *group)
{
    if (!group->loop)
        return;
    server_timer_disarm(group->loop, &group->again);
    for (unsigned i = 0; i < SERVER_GROUP_MEMBERS; i++) {
        if (group->members[i].source.added)
            member_remove(&group->members[i]);
    }
    server_loop_remove(group->loop, &group->source);
    apir_close_fd(&group->socket_fd);
    cleanup_fd int fd = group->folder[0] ? folder_open(AT_FDCWD, group->folder) : -1;
    if (fd >= 0 && group->owner)
        folder_empty(fd, !group->named);
    if (fd >= 0 && !group->named)
        (void)rmdir(group->folder);
    apir_close_fd(&group->lock_fd);
    *group = (struct server_group){0};
}
