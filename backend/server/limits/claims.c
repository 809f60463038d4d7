/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/limits/claims.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "protocol/messages.h"

#define FILE_SIZE_MAX                                                                              \
    (sizeof(struct server_claims_head) + SERVER_CLAIMS_ROWS_MAX * sizeof(struct server_claim))
/* A file that changes at every look is taken as it was at the last one. */
#define LOOKS_MAX 8

_Static_assert(sizeof(struct server_claims_head) == 16 && sizeof(struct server_claim) == 80,
               "no padding");

int server_claims_id_ok(const char id[APIR_ID_SIZE])
{
    size_t n = strnlen(id, APIR_ID_SIZE);
    if (n == 0 || n == APIR_ID_SIZE || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789.:@_-") != n)
        return 0;
    while (n < APIR_ID_SIZE && id[n] == '\0')
        n++;
    return n == APIR_ID_SIZE;
}

/* ---- our own ------------------------------------------------------------------ */

static int dir_open(const char *folder, struct apir_error *err)
{
    cleanup_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return apir_error_sys(err, errno, "%s", folder);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return apir_error_set(err, EPERM, "%s belongs to another user", folder);
    /* Others' files are theirs only where the folder keeps them so. */
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
        return apir_error_set(err, EPERM, "%s: others may remove our file (no sticky bit)", folder);
    return steal_fd(&fd);
}

static int lock(int fd, short type)
{
    struct flock all = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &all) < 0 ? -errno : 0;
}

/* Whether somebody holds the file's write lock. It takes no right to write, so none but the
 * owner and root can pretend. */
static bool is_held(int fd)
{
    struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &all) == 0 && all.l_type == F_WRLCK;
}

/* Removes a file whose owner is dead: who lives holds its lock for as long as it has this name. */
static void remove_dead(int dir_fd, const char *name)
{
    cleanup_fd int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && lock(fd, F_WRLCK) == 0)
        (void)unlinkat(dir_fd, name, 0);
}

/*
 * Under a name that nobody looks at, until it is locked and has its head: one who removes what dead
 * servers have left must not find it before. Returns 0, -EAGAIN where another name is to be tried,
 * or -errno.
 */
static int file_make(struct server_claims *claims)
{
    char unseen[sizeof(claims->name)];
    uint64_t number;
    if (getentropy(&number, sizeof(number)) < 0)
        return -EIO;
    snprintf(claims->name, sizeof(claims->name), SERVER_CLAIMS_PREFIX "%016llx",
             (unsigned long long)number);
    snprintf(unseen, sizeof(unseen), "new-%016llx", (unsigned long long)number);
    /* Not to be opened by others before it is locked. */
    claims->fd =
        openat(claims->dir_fd, unseen, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (claims->fd < 0)
        return errno == EEXIST ? -EAGAIN : -errno;
    const struct server_claims_head head = {.magic = SERVER_CLAIMS_MAGIC};
    int rc = lock(claims->fd, F_WRLCK);
    if (rc == 0 && pwrite(claims->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        rc = -EIO;
    if (rc == 0 && (fchmod(claims->fd, 0644) < 0 ||
                    renameat(claims->dir_fd, unseen, claims->dir_fd, claims->name) < 0))
        rc = -errno;
    if (rc < 0) {
        (void)unlinkat(claims->dir_fd, unseen, 0);
        apir_close_fd(&claims->fd);
    }
    return rc;
}

int server_claims_open(struct server_claims *claims, const char *folder, struct apir_error *err)
{
    *claims = (struct server_claims){.dir_fd = -1, .fd = -1};
    int dir_fd = dir_open(folder, err);
    if (dir_fd < 0)
        return dir_fd;
    claims->dir_fd = dir_fd;
    int rc = -EAGAIN;
    for (int i = 0; i < LOOKS_MAX && rc == -EAGAIN; i++)
        rc = file_make(claims);
    if (rc < 0) {
        apir_close_fd(&claims->dir_fd);
        return apir_error_sys(err, -rc, "cannot make a file in %s", folder);
    }
    /* What killed servers have left; of no device. */
    struct server_usage nothing = {0};
    (void)server_claims_add_others(claims, "", &nothing);
    return 0;
}

void server_claims_close(struct server_claims *claims)
{
    if (claims->dir_fd < 0)
        return;
    (void)unlinkat(claims->dir_fd, claims->name, 0);
    apir_close_fd(&claims->fd);
    apir_close_fd(&claims->dir_fd);
}

static int put(int fd, const void *data, size_t size, size_t at)
{
    const ssize_t n = pwrite(fd, data, size, (off_t)at);
    if (n < 0)
        return -errno;
    return n == (ssize_t)size ? 0 : -ENOSPC;
}

int server_claims_write(struct server_claims *claims, uint32_t index, uint32_t n_rows,
                        const struct server_claim *row)
{
    const struct server_claims_head head = {.magic = SERVER_CLAIMS_MAGIC, .n_rows = n_rows};
    /* The row first: what the head counts is there. */
    int rc = put(claims->fd, row, sizeof(*row), sizeof(head) + index * sizeof(*row));
    return rc < 0 ? rc : put(claims->fd, &head, sizeof(head), 0);
}

/* ---- others' ------------------------------------------------------------------ */

/* Sums that others can choose the terms of. */
static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static bool row_ok(const struct server_claim *row)
{
    return server_claims_id_ok(row->device) && row->bytes <= APIR_SIZE_MAX &&
           row->contexts <= SERVER_CLAIMS_CONTEXTS && row->zero == 0;
}

/* What the file holds at one look; false: it makes no sense. Takes its rows from *io_rows. */
static bool file_look(int fd, const char *device, struct server_usage *ret_usage, uint32_t *io_rows)
{
    struct server_claims_head head;
    *ret_usage = (struct server_usage){0};
    if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
        head.magic != SERVER_CLAIMS_MAGIC || head.n_rows > SERVER_CLAIMS_ROWS_MAX || head.zero)
        return false;
    if (head.n_rows > *io_rows) {
        *io_rows = 0;
        return false;
    }
    *io_rows -= head.n_rows;
    struct server_claim rows[64];
    for (uint32_t i = 0, n; i < head.n_rows; i += n) {
        n = head.n_rows - i < 64 ? head.n_rows - i : 64;
        const ssize_t size = (ssize_t)(n * sizeof(rows[0]));
        if (pread(fd, rows, (size_t)size, (off_t)(sizeof(head) + i * sizeof(rows[0]))) != size)
            return false;
        for (uint32_t k = 0; k < n; k++) {
            if (!row_ok(&rows[k]))
                return false;
            if (strcmp(rows[k].device, device) != 0)
                continue;
            ret_usage->bytes = add(ret_usage->bytes, rows[k].bytes);
            ret_usage->contexts = add(ret_usage->contexts, rows[k].contexts);
        }
    }
    return true;
}

/* Its owner may write meanwhile, and the kernel does not keep both apart: what two looks agree
 * on has been there. */
static void file_add(int fd, const char *device, struct server_usage *usage, uint32_t *io_rows)
{
    struct server_usage last = {0}, now = {0};
    bool was_ok = file_look(fd, device, &last, io_rows);
    for (int i = 0; i < LOOKS_MAX; i++) {
        bool ok = file_look(fd, device, &now, io_rows);
        bool same = ok && was_ok && now.bytes == last.bytes && now.contexts == last.contexts;
        last = now;
        was_ok = ok;
        if (same)
            break;
    }
    if (!was_ok)
        return;
    usage->bytes = add(usage->bytes, last.bytes);
    usage->contexts = add(usage->contexts, last.contexts);
}

int server_claims_add_others(const struct server_claims *claims, const char *device,
                             struct server_usage *usage)
{
    cleanup_dir DIR *dir = apir_dir_open(claims->dir_fd);
    if (!dir)
        return -errno;
    /* How much there is to read is the choice of who may write in the folder: no guest. */
    unsigned n = 0;
    uint32_t rows = SERVER_CLAIMS_LOOKED_AT;
    for (struct dirent *entry; n <= SERVER_CLAIMS_FILES && rows && (entry = readdir(dir));) {
        n++;
        /* Ours is not another's. */
        if (strcmp(entry->d_name, claims->name) == 0 ||
            strncmp(entry->d_name, SERVER_CLAIMS_PREFIX, strlen(SERVER_CLAIMS_PREFIX)) != 0)
            continue;
        cleanup_fd int fd = openat(claims->dir_fd, entry->d_name,
                                   O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
            st.st_size > (off_t)FILE_SIZE_MAX)
            continue;
        if (is_held(fd))
            file_add(fd, device, usage, &rows);
        else
            remove_dead(claims->dir_fd, entry->d_name);
    }
    return n > SERVER_CLAIMS_FILES || rows == 0 ? -EUSERS : 0;
}
