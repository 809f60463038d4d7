/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cdi/folder.h"
#include "common/file.h"
#include "common/regular.h"
#include "common/text.h"
#include "common/cleanup.h"
#include "common/error.h"

/* What is at hand as fd, or the -errno that it is; path is for what is said. */
static int read_file(int fd, const char *path, char **ret_text, struct cdi_file_owner *owner,
                     struct apir_error *err)
{
    struct stat st;
    size_t size = 0;
    cleanup_free char *text = NULL;

    *ret_text = NULL;
    if (fd == -ENOENT)
        return 0;
    if (fd == -EINVAL)
        return apir_error_set(err, EINVAL, "%s is no regular file", path);
    if (fd < 0)
        return apir_error_sys(err, -fd, "%s", path);
    if (fstat(fd, &st) < 0)
        return apir_error_sys(err, errno, "%s", path);
    int rc = apir_file_read(fd, CDI_FILE_SIZE_MAX, &text, &size, err);
    if (rc < 0)
        return apir_error_wrap(err, rc, "%s", path);
    if (strlen(text) != size)
        return apir_error_set(err, EBADMSG, "%s: a NUL byte in it", path);
    if (owner)
        *owner = (struct cdi_file_owner){st.st_mode & 07777, st.st_uid, st.st_gid};
    *ret_text = steal_pointer(&text);
    return 0;
}

/* The folder that the file of this path is in; where there is none nothing is wrong: *err stays. */
static int open_folder(const char *path, const char **ret_name, struct apir_error *err)
{
    struct apir_error why = {0};
    int dir = cdi_folder_open(path, 0, ret_name, &why);

    if (dir < 0 && dir != -ENOENT && err)
        *err = why;
    return dir;
}

/* Opens what is there to be read, or to be replaced. An fd or -errno; at -ENOENT *err stays. */
static int open_there(int dir, const char *name, const char *path, struct apir_error *err)
{
    int fd = apir_regular_open(dir, name, O_NOFOLLOW);

    if (fd == -ELOOP)
        apir_error_set(err, ELOOP, "%s is a symbolic link; name its target with --config", path);
    else if (fd == -EINVAL)
        apir_error_set(err, EINVAL, "%s is no regular file", path);
    else if (fd < 0 && fd != -ENOENT)
        apir_error_sys(err, -fd, "%s", path);
    return fd;
}

int cdi_file_read(const char *path, char **ret_text, struct cdi_file_owner *owner,
                  struct apir_error *err)
{
    const char *name = NULL;
    cleanup_fd int dir = open_folder(path, &name, err);

    *ret_text = NULL;
    if (dir < 0)
        return dir == -ENOENT ? 0 : dir;
    cleanup_fd int fd = open_there(dir, name, path, err);
    return fd < 0 ? (fd == -ENOENT ? 0 : fd) : read_file(fd, path, ret_text, owner, err);
}

int cdi_file_load(const char *path, char **ret_text, struct apir_error *err)
{
    cleanup_fd int fd = apir_regular_open(AT_FDCWD, path, 0);

    return read_file(fd, path, ret_text, NULL, err);
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

/* A new file beside the one of that name; its own name into temp. Returns an fd or -errno. */
static int open_temporary(int dir, const char *name, char temp[NAME_MAX + 1])
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return -EIO;
    /* Hidden, and with another ending: engines read all *.conf or *.json of a folder. */
    if (snprintf(temp, NAME_MAX + 1, ".%s.%016" PRIx64, name, number) > NAME_MAX)
        return -ENAMETOOLONG;
    int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

/* Replaces the file at once; dir: its folder. */
static int replace(int dir, const char *name, const char *path, const char *text,
                   const struct cdi_file_owner *owner, int old, struct apir_error *err)
{
    char temp[NAME_MAX + 1];
    cleanup_fd int fd = open_temporary(dir, name, temp);

    if (fd < 0)
        return apir_error_sys(err, -fd, "temporary file beside %s", path);
    int rc = fill(fd, text, owner, old);
    if (rc == 0 && renameat(dir, temp, dir, name) < 0)
        rc = -errno;
    if (rc < 0) {
        unlinkat(dir, temp, 0);
        return apir_error_sys(err, -rc, "write %s", path);
    }
    cleanup_fd int dir_fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0)
        (void)fsync(dir_fd);
    return 0;
}

int cdi_file_write(const char *path, const char *text, struct apir_error *err)
{
    struct cdi_file_owner owner = {0644, (uid_t)-1, (gid_t)-1};
    const char *name = NULL;
    struct stat st;

    if (path[0] != '/')
        return apir_error_set(err, EINVAL, "%s is no absolute path", path);
    cleanup_fd int dir = cdi_folder_open(path, 0755, &name, err);
    if (dir < 0)
        return dir;
    cleanup_fd int old = open_there(dir, name, path, err);
    if (old < 0 && old != -ENOENT)
        return old;
    if (old >= 0 && fstat(old, &st) < 0)
        return apir_error_sys(err, errno, "%s", path);
    if (old >= 0)
        owner = (struct cdi_file_owner){st.st_mode & 07777, st.st_uid, st.st_gid};
    return replace(dir, name, path, text, &owner, old, err);
}

int cdi_file_replace(const char *path, const char *text, mode_t mode, mode_t folder,
                     struct apir_error *err)
{
    const struct cdi_file_owner owner = {mode, (uid_t)-1, (gid_t)-1};
    const char *name = NULL;
    cleanup_fd int dir = cdi_folder_open(path, folder, &name, err);

    return dir < 0 ? dir : replace(dir, name, path, text, &owner, -1, err);
}

bool cdi_file_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n > m && strcmp(name + n - m, end) == 0;
}

/* Of the folder that is read: none of a user's takes more memory than this many names do. */
static size_t entries_seen;

static int is_within_limit(const struct dirent *entry)
{
    (void)entry;
    return entries_seen++ < CDI_FILE_ENTRIES_MAX;
}

int cdi_file_each(const char *dir, const char *suffix, int (*fn)(const char *path, void *user),
                  void *user)
{
    struct dirent **entries = NULL;

    entries_seen = 0;
    int n = scandir(dir, &entries, is_within_limit, alphasort);
    if (n < 0)
        return -errno;
    int rc = entries_seen > CDI_FILE_ENTRIES_MAX ? -E2BIG : 0;
    for (int i = 0; i < n; i++) {
        if (rc == 0 && cdi_file_ends_with(entries[i]->d_name, suffix)) {
            cleanup_free char *path = apir_text_format("%s/%s", dir, entries[i]->d_name);
            rc = path ? fn(path, user) : -ENOMEM;
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int cdi_file_remove(const char *path, struct apir_error *err)
{
    const char *name = NULL;
    cleanup_fd int dir = open_folder(path, &name, err);

    if (dir < 0)
        return dir == -ENOENT ? 0 : dir;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
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
