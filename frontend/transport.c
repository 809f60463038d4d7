/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/transport.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/fdsock.h"
#include "protocol/unix.h"

/* The VM's render node; where there is none, the socket of a host without a VM. */
static int transport_auto_open(struct transport *t, struct apir_error *err)
{
    int rc = transport_virtgpu_open(t, NULL, err);
    /* A node that may not be opened may be of another driver. */
    if ((rc != -ENODEV && rc != -EACCES) || !transport_unix_is_there(APIR_UNIX_PATH))
        return rc;
    return transport_unix_open(t, APIR_UNIX_PATH, err);
}

int transport_open(struct transport *t, const char *choice, struct apir_error *err)
{
    memset(t, 0, sizeof(*t));
    t->fd = -1;
    if (!choice || !*choice || strcmp(choice, "auto") == 0)
        return transport_auto_open(t, err);
    if (strcmp(choice, "virtgpu") == 0)
        return transport_virtgpu_open(t, NULL, err);
    if (strncmp(choice, "virtgpu:", 8) == 0)
        return transport_virtgpu_open(t, choice + 8, err);
    if (strncmp(choice, "vtest:", 6) == 0)
        return transport_vtest_open(t, choice + 6, err);
    if (strncmp(choice, "unix:", 5) == 0)
        return transport_unix_open(t, choice + 5, err);
    return apir_error_set(err, EINVAL,
                          "APIR_TRANSPORT=%s is not one of auto, virtgpu, virtgpu:PATH, "
                          "unix:PATH, vtest:PATH",
                          choice);
}

void transport_close(struct transport *t)
{
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}

int transport_receive(int fd, void *data, size_t size, int *ret_fd)
{
    size_t n, n_fds;
    int got = -1;
    int rc = apir_fdsock_recv(fd, data, size, &n, &got, 1, &n_fds, 0);
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

int transport_map(int fd, uint64_t size, uint32_t handle, struct transport_blob *ret_blob)
{
    /* Behind the end of a file there is no memory, but a signal. */
    off_t end = lseek(fd, 0, SEEK_END);
    void *p = MAP_FAILED;
    int rc = end < 0 ? -errno : (uint64_t)end < size ? -EPROTO : 0;
    if (!rc) {
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        rc = p == MAP_FAILED ? -errno : 0;
    }
    close(fd);
    if (!rc)
        *ret_blob = (struct transport_blob){.map = p, .size = size, .handle = handle};
    return rc;
}
