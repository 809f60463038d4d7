/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/root.h"

#define LINKS_MAX 40
#define PART_SIZE (NAME_MAX + 2) /* one that is cut to this is too long for the kernel still */
#define NOBODY    65534 /* in a user namespace: whom it does not know, the machine's root too */
#define NO_ONE    ((uid_t) - 1)

static bool is_trusted(uid_t uid)
{
    return uid == 0 || uid == geteuid() || (uid == NOBODY && !apir_is_root());
}

/* ---- the way to a file ------------------------------------------------------------ */

struct walk {
    int fd;           /* the folder reached */
    uid_t leader;     /* who owns the link that is being followed, if that is not to be trusted */
    size_t led_until; /* of the rest: what that link has said ends there */
    int links;
    char rest[2 * PATH_MAX]; /* of the way, with a slash before each part */
    bool check;              /* whether anybody else could change a part of it: its owner, */
    mode_t writers;          /* and who has these bits of its mode */
    struct apir_error *err;  /* of that check */
};

/* The next part of the way, taken out of the rest; false: there is none. */
static bool next_part(struct walk *w, char part[PART_SIZE])
{
    size_t from = strspn(w->rest, "/"), n = strcspn(w->rest + from, "/");

    snprintf(part, PART_SIZE, "%.*s", (int)n, w->rest + from);
    memmove(w->rest, w->rest + from + n, strlen(w->rest + from + n) + 1);
    return n > 0;
}

/* fd is taken over. */
static int enter(struct walk *w, int fd)
{
    close(w->fd);
    w->fd = fd;
    return 0;
}

/* What the link says comes before the rest of the way. */
static int follow(struct walk *w, int link, uid_t owner)
{
    char target[PATH_MAX], all[sizeof(w->rest)];
    ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    while (n > 0 && target[n - 1] == '/')
        n--;
    target[n] = '\0';
    if (++w->links > LINKS_MAX)
        return -ELOOP;
    if (w->leader != NO_ONE && owner != w->leader && !is_trusted(owner))
        return -EPERM;
    if (w->leader == NO_ONE && !is_trusted(owner)) {
        w->leader = owner;
        w->led_until = strlen(w->rest);
    }
    if ((size_t)snprintf(all, sizeof(all), "%s%s%s", n > 0 ? "/" : "", target, w->rest) >=
        sizeof(all))
        return -ENAMETOOLONG;
    memcpy(w->rest, all, sizeof(all));
    if (n > 0 && target[0] != '/')
        return 0;
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -errno : enter(w, root);
}

/* One part of a way: neither it nor what is in it is anybody else's to replace. */
static int check_part(const struct walk *w, int fd, const struct stat *st)
{
    char link[32], part[PATH_MAX];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, part, sizeof(part) - 1);
    part[n > 0 ? n : 0] = '\0';
    if (!is_trusted(st->st_uid))
        return apir_error_set(w->err, EPERM,
                              "%s belongs to another user (%u), who could put something else "
                              "in its place",
                              part, st->st_uid);
    if (!S_ISLNK(st->st_mode) && (st->st_mode & w->writers) != 0 && (st->st_mode & S_ISVTX) == 0)
        return apir_error_set(w->err, EPERM,
                              "others may write to %s (mode %04o), and so put something of "
                              "theirs in its place",
                              part, st->st_mode & 07777u);
    return 0;
}

/* Into the folder of this name, made where mode is not 0 and it is missing. Returns 0 or -errno. */
static int step(struct walk *w, const char *part, mode_t mode)
{
    struct stat st;
    const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    /* As a folder, it is mounted first where that waits for somebody to come. */
    cleanup_fd int fd = openat(w->fd, part, flags | O_DIRECTORY);

    if (fd < 0 && errno == ENOENT && mode != 0) {
        if (mkdirat(w->fd, part, w->rest[0] == '\0' ? mode : 0755) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(w->fd, part, flags | O_DIRECTORY);
    }
    if (fd < 0 && errno == ENOTDIR)
        fd = openat(w->fd, part, flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (w->check && check_part(w, fd, &st) < 0)
        return -EPERM;
    if (S_ISLNK(st.st_mode))
        return follow(w, fd, st.st_uid);
    if (S_ISDIR(st.st_mode))
        return enter(w, steal_fd(&fd));
    return w->check && w->rest[0] == '\0' ? 0 : -ENOTDIR;
}

/* Where the link's own words end, it must have led to what is its owner's. */
static int check_leader(struct walk *w)
{
    struct stat st;

    if (w->leader == NO_ONE || strlen(w->rest) > w->led_until)
        return 0;
    if (fstat(w->fd, &st) < 0)
        return -errno;
    if (st.st_uid != w->leader)
        return -EPERM;
    w->leader = NO_ONE;
    return 0;
}

static int walk(struct walk *w, mode_t mode, char part[PART_SIZE])
{
    int rc = 0;

    while (rc == 0 && next_part(w, part)) {
        rc = step(w, part, mode);
        if (rc == 0)
            rc = check_leader(w);
    }
    return rc;
}

int cdi_folder_open(const char *path, mode_t mode, const char **ret_name, struct apir_error *err)
{
    struct walk w = {.leader = NO_ONE};
    char part[PART_SIZE] = "";
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;

    if (n >= PATH_MAX)
        return apir_error_sys(err, ENAMETOOLONG, "%.100s...", path);
    memcpy(w.rest, path, n);
    w.fd = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w.fd < 0)
        return apir_error_sys(err, errno, "%s", path);
    mode_t old = umask(0022);
    int rc = walk(&w, mode, part);
    umask(old);
    if (rc == 0) {
        *ret_name = slash ? slash + 1 : path;
        return w.fd;
    }
    close(w.fd);
    if (rc == -EPERM && w.leader != NO_ONE)
        return apir_error_set(err, EPERM,
                              "%s: a link on its way belongs to another user (%u), and leads to "
                              "what does not",
                              path, w.leader);
    return apir_error_sys(err, -rc, "%s: folder %s", path, part);
}

/* ---- who may change it -------------------------------------------------------------- */

int cdi_folder_check(const char *path, mode_t writers, struct apir_error *err)
{
    struct walk w = {.leader = NO_ONE, .check = true, .writers = writers, .err = err};
    char part[PART_SIZE] = "", here[PATH_MAX] = "";

    if (path[0] != '/' && !getcwd(here, sizeof(here)))
        return apir_error_sys(err, errno, "the folder that this runs in");
    if (snprintf(w.rest, sizeof(w.rest), "%s/%s", here, path) >= (int)sizeof(w.rest))
        return apir_error_sys(err, ENAMETOOLONG, "%.100s...", path);
    w.fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w.fd < 0)
        return apir_error_sys(err, errno, "/");
    int rc = step(&w, ".", 0);
    if (rc == 0)
        rc = walk(&w, 0, part);
    close(w.fd);
    return rc == 0 || rc == -EPERM ? rc : apir_error_sys(err, -rc, "%s: %s", path, part);
}
