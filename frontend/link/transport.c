/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/link/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "frontend/link/os.h"
#include "common/fdsock.h"
#include "protocol/unix.h"

/* A host may be that busy; below 5 s a machine's own hiccups would end programs. */
#define SILENCE_SECONDS     15u
#define SILENCE_SECONDS_MIN 5u
#define SILENCE_SECONDS_MAX 86400u
/* Whom a user namespace shows for owners and groups that it does not know. */
#define NOBODY 65534u

static const struct kind {
    const char *name;
    transport_opener *open;
    bool searches; /* its path may be left out */
} kinds[] = {
    {"virtgpu", transport_virtgpu_open, true},
    {"unix", transport_unix_open, false},
    {"vtest", transport_vtest_open, false},
};

/* The VM's render node; where there is none, the socket of a host without a VM. */
static int auto_open(struct transport *t, struct apir_error *err)
{
    int rc = transport_virtgpu_open(t, NULL, err);
    /* A node that may not be opened may be of another driver. */
    if ((rc != -ENODEV && rc != -EACCES) || access(APIR_UNIX_PATH, F_OK) < 0)
        return rc;
    return transport_unix_open(t, APIR_UNIX_PATH, err);
}

static int unknown_kind(const char *choice, struct apir_error *err)
{
    char known[128] = "auto";
    size_t n = strlen(known);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && n < sizeof(known); i++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, ", %s%s", kinds[i].name,
                              kinds[i].searches ? "[:PATH]" : ":PATH");
    return apir_error_set(err, EINVAL, "APIR_TRANSPORT=%s is not one of %s", choice, known);
}

int transport_open(struct transport *t, const char *choice, struct apir_error *err)
{
    memset(t, 0, sizeof(*t));
    t->fd = -1;
    if (!choice || !*choice || strcmp(choice, "auto") == 0)
        return auto_open(t, err);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct kind *k = &kinds[i];
        const size_t n = strlen(k->name);
        if (strncmp(choice, k->name, n) != 0)
            continue;
        if (choice[n] == ':')
            return k->open(t, choice + n + 1, err);
        if (choice[n] || !k->searches)
            continue;
        /* Asked for, other than with auto. */
        int rc = k->open(t, NULL, err);
        return rc == -ENODEV ? apir_error_set(err, ENODEV, "there is no virtio-gpu render node")
                             : rc;
    }
    return unknown_kind(choice, err);
}

void transport_close(struct transport *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

uint64_t transport_silence(void)
{
    const char *text = getenv("APIR_SILENCE_SECONDS");
    char *end = NULL;
    /* strtoull() would take a sign, too. */
    uint64_t seconds = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (seconds == 0 || *end)
        seconds = SILENCE_SECONDS;
    if (seconds < SILENCE_SECONDS_MIN)
        seconds = SILENCE_SECONDS_MIN;
    return (seconds < SILENCE_SECONDS_MAX ? seconds : SILENCE_SECONDS_MAX) * 1000000000u;
}

const char *transport_permission_advice(const char *path)
{
    struct statx st;
    if (syscall(SYS_statx, AT_FDCWD, path, 0, STATX_UID | STATX_GID, &st) == 0 &&
        st.stx_uid == NOBODY && st.stx_gid == NOBODY)
        return "its owner and group are nobody here, where users are mapped: give it mode 0666 on "
               "the host (nspawn), or a group that is known here (podman: --group-add "
               "keep-groups; Incus: gid= of the device)";
    return "its group may (podman: --group-add keep-groups; docker: --group-add with the group's "
           "number; SELinux: --security-opt label=disable)";
}

bool transport_await(const struct transport *t, short events, struct silence *s)
{
    struct pollfd p = {.fd = t->fd, .events = events};
    const bool ready = poll(&p, 1, SILENCE_STEP_NS / 1000000) > 0;
    return silence_look(s, os_now_ns(), ready, t->silence_ns) != SILENCE_OVER;
}

int transport_connect(struct transport *t, int type, const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    t->silence_ns = transport_silence();
    const struct timeval limit = {.tv_sec = (time_t)(t->silence_ns / 1000000000u)};
    if (strlen(path) >= sizeof(addr.sun_path))
        return -ENAMETOOLONG;
    memcpy(addr.sun_path, path, strlen(path));
    t->fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    /* What can only block: connect(). */
    if (t->fd < 0 || setsockopt(t->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
        connect(t->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -errno;
    return 0;
}

int transport_receive(const struct transport *t, void *data, size_t size, int *ret_fd)
{
    struct silence s;
    size_t n, n_fds;
    int got = -1, rc;
    silence_begin(&s, os_now_ns());
    do {
        rc = apir_fdsock_recv(t->fd, data, size, &n, &got, 1, &n_fds, MSG_DONTWAIT);
    } while (rc == -EAGAIN && transport_await(t, POLLIN, &s));
    if (rc)
        return rc;
    if (n != size) {
        if (n_fds)
            close(got);
        return n == 0 ? -EPIPE : -EPROTO;
    }
    *ret_fd = got;
    return 0;
}

/*
 * Whether fd is memory that nobody can take away again. Behind the end of a file there is no
 * memory, but a signal; so there is where a file system, or huge pages, cannot fill a hole. Only
 * memfds and what lies in a tmpfs have seals, so nobody but the kernel is asked about the rest.
 */
static bool memory_stays(int fd, uint64_t size)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct statfs fs;
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return false;
    const off_t end = lseek(fd, 0, SEEK_END);
    return end >= 0 && (uint64_t)end >= size;
}

int transport_map(int fd, uint64_t size, uint32_t handle, struct transport_blob *ret_blob)
{
    void *p = MAP_FAILED;
    int rc = memory_stays(fd, size) ? 0 : -EPROTO;
    if (!rc) {
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        rc = p == MAP_FAILED ? -errno : 0;
    }
    close(fd);
    if (!rc)
        *ret_blob = (struct transport_blob){.map = p, .size = size, .handle = handle};
    return rc;
}
