/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/file.h"
#include "common/regular.h"
#include "common/text.h"
#include "common/cleanup.h"
#include "common/error.h"

static int read_file(const char *path, int flags, char **ret_text, struct cdi_file_owner *owner,
                     struct apir_error *err)
{
    struct stat st;
    size_t size = 0;
    cleanup_free char *text = NULL;
    cleanup_fd int fd = apir_regular_open(AT_FDCWD, path, flags);

    *ret_text = NULL;
    if (fd == -ENOENT)
        return 0;
    if (fd == -ELOOP && flags != 0)
        return apir_error_set(err, ELOOP, "%s is a symbolic link; name its target with --config",
                              path);
    if (fd == -EINVAL)
        return apir_error_set(err, EINVAL, "%s is no regular file", path);
    if (fd < 0)
        return apir_error_sys(err, -fd, "%s", path);
    if (fstat(fd, &st) < 0)
        return apir_error_sys(err, errno, "%s", path);
    int rc = apir_file_read(fd, CDI_FILE_SIZE_MAX, &text, &size, err);
    if (rc < 0) {
        apir_error_wrap(err, "%s", path);
        return rc;
    }
    if (strlen(text) != size)
        return apir_error_set(err, EBADMSG, "%s: a NUL byte in it", path);
    if (owner)
        *owner = (struct cdi_file_owner){st.st_mode & 07777, st.st_uid, st.st_gid};
    *ret_text = steal_pointer(&text);
    return 0;
}

int cdi_file_read(const char *path, char **ret_text, struct cdi_file_owner *owner,
                  struct apir_error *err)
{
    return read_file(path, O_NOFOLLOW, ret_text, owner, err);
}

int cdi_file_load(const char *path, char **ret_text, struct apir_error *err)
{
    return read_file(path, 0, ret_text, NULL, err);
}

int cdi_file_make_parents(const char *path, mode_t mode, struct apir_error *err)
{
    cleanup_free char *dir = strdup(path);
    int rc = dir ? 0 : apir_error_sys(err, ENOMEM, "%s", path);
    mode_t old = umask(0022);

    for (char *p = rc < 0 ? NULL : strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(dir, strchr(p + 1, '/') ? 0755 : mode) < 0 && errno != EEXIST) {
            rc = apir_error_sys(err, errno, "make folder %s", dir);
            break;
        }
        *p = '/';
    }
    umask(old);
    return rc;
}

/* What says something of the old bytes is not the new ones'. */
static bool is_of_content(const char *name)
{
    return strcmp(name, "security.ima") == 0 || strcmp(name, "security.evm") == 0;
}

/* Access lists, labels and all else that a file has beside its mode; to has none but the kernel's.
 */
static int copy_attributes(int from, int to)
{
    char names[4096], value[4096], there[sizeof(value)];
    ssize_t n = flistxattr(from, names, sizeof(names));

    if (n < 0)
        return errno == ENOTSUP ? 0 : -errno;
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        if (is_of_content(name))
            continue;
        ssize_t size = fgetxattr(from, name, value, sizeof(value));
        if (size < 0)
            return -errno;
        /* The label that the folder gives by itself may be right, and not ours to set. */
        if (fgetxattr(to, name, there, sizeof(there)) == size &&
            memcmp(value, there, (size_t)size) == 0)
            continue;
        if (fsetxattr(to, name, value, (size_t)size, 0) < 0)
            return -errno;
    }
    return 0;
}

/* old: the file that is replaced, or -1. */
static int fill(int fd, const char *text, const struct cdi_file_owner *owner, int old)
{
    int rc = apir_file_write(fd, text, strlen(text));

    /* The owner first: changing it takes bits away from the mode. */
    if (rc == 0 && owner->uid != (uid_t)-1 &&
        (owner->uid != geteuid() || owner->gid != getegid()) &&
        fchown(fd, owner->uid, owner->gid) < 0)
        rc = -errno;
    if (rc == 0 && fchmod(fd, owner->mode) < 0)
        rc = -errno;
    /* Last: changing the mode changes an access list. */
    if (rc == 0 && old >= 0)
        rc = copy_attributes(old, fd);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    return rc;
}

/* Replaces the file at once. */
static int replace(const char *path, const char *text, const struct cdi_file_owner *owner, int old,
                   mode_t folder, struct apir_error *err)
{
    cleanup_free char *dir = NULL, *temp = NULL;
    const char *slash = strrchr(path, '/');
    int rc = cdi_file_make_parents(path, folder, err);

    if (rc < 0)
        return rc;
    dir = !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    /* Hidden, and with another ending: engines read all *.conf or *.json of a folder. */
    if (!dir || asprintf(&temp, "%s/.%s.XXXXXX", dir, slash ? slash + 1 : path) < 0) {
        temp = NULL;
        return apir_error_sys(err, ENOMEM, "%s", path);
    }
    cleanup_fd int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return apir_error_sys(err, errno, "temporary file in %s", dir);
    rc = fill(fd, text, owner, old);
    if (rc == 0 && rename(temp, path) < 0)
        rc = -errno;
    if (rc < 0) {
        unlink(temp);
        return apir_error_sys(err, -rc, "write %s", path);
    }
    cleanup_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0)
        (void)fsync(dir_fd);
    return 0;
}

int cdi_file_write(const char *path, const char *text, struct apir_error *err)
{
    struct cdi_file_owner owner = {0644, (uid_t)-1, (gid_t)-1};
    cleanup_free char *before = NULL;

    if (path[0] != '/')
        return apir_error_set(err, EINVAL, "%s is no absolute path", path);
    int rc = cdi_file_read(path, &before, &owner, err);

    if (rc < 0)
        return rc;
    cleanup_fd int old =
        before ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY) : -1;
    if (before && old < 0)
        return apir_error_sys(err, errno, "%s", path);
    return replace(path, text, &owner, old, 0755, err);
}

int cdi_file_replace(const char *path, const char *text, mode_t mode, mode_t folder,
                     struct apir_error *err)
{
    const struct cdi_file_owner owner = {mode, (uid_t)-1, (gid_t)-1};

    return replace(path, text, &owner, -1, folder, err);
}

bool cdi_file_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n > m && strcmp(name + n - m, end) == 0;
}

int cdi_file_each(const char *dir, const char *suffix, int (*fn)(const char *path, void *user),
                  void *user)
{
    struct dirent **entries = NULL;
    int rc = 0, n = scandir(dir, &entries, NULL, alphasort);

    if (n < 0)
        return -errno;
    for (int i = 0; i < n; i++) {
        cleanup_free char *path = NULL;

        if (rc == 0 && cdi_file_ends_with(entries[i]->d_name, suffix)) {
            if (asprintf(&path, "%s/%s", dir, entries[i]->d_name) < 0)
                path = NULL;
            rc = path ? fn(path, user) : -ENOMEM;
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int cdi_file_remove(const char *path, struct apir_error *err)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return apir_error_sys(err, errno, "remove %s", path);
    return 0;
}

/* ---- what changes -------------------------------------------------------------- */

static const char *next_line(const char *p)
{
    const char *end = strchr(p, '\n');

    return end ? end + 1 : p + strlen(p);
}

static void print_lines(FILE *out, char mark, const char *from, const char *to)
{
    while (from < to) {
        const char *next = next_line(from);

        apir_text_print(out, next[-1] == '\n' ? "%c%.*s" : "%c%.*s\n", mark, (int)(next - from),
                        from);
        from = next;
    }
}

/* `count` lines back from p, but not before start. */
static const char *lines_back(const char *start, const char *p, int count)
{
    for (; count > 0 && p > start; count--) {
        p--;
        while (p > start && p[-1] != '\n')
            p--;
    }
    return p;
}

void cdi_file_print_change(FILE *out, const char *path, const char *before, const char *after)
{
    const char *a = before ? before : "", *b = after ? after : "";

    apir_text_print(out, "--- %s\n", before ? path : "/dev/null");
    apir_text_print(out, "+++ %s\n", after ? path : "/dev/null");
    /* One piece: what the two have in common at their start and their end is left out. */
    const char *p = a, *q = b;
    while (*p != '\0' && *q != '\0') {
        const char *p_next = next_line(p), *q_next = next_line(q);

        if (p_next - p != q_next - q || memcmp(p, q, (size_t)(p_next - p)) != 0)
            break;
        p = p_next;
        q = q_next;
    }
    const char *a_end = a + strlen(a), *b_end = b + strlen(b);
    while (a_end > p && b_end > q) {
        const char *p_last = lines_back(p, a_end, 1), *q_last = lines_back(q, b_end, 1);

        if (a_end - p_last != b_end - q_last ||
            memcmp(p_last, q_last, (size_t)(a_end - p_last)) != 0)
            break;
        a_end = p_last;
        b_end = q_last;
    }
    print_lines(out, ' ', lines_back(a, p, 3), p);
    print_lines(out, '-', p, a_end);
    print_lines(out, '+', q, b_end);
    const char *tail = a_end;
    for (int i = 0; i < 3 && *tail != '\0'; i++)
        tail = next_line(tail);
    print_lines(out, ' ', a_end, tail);
}
