/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/host/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <xf86drm.h>

#include <drm/virtgpu_drm.h>

#include "cdi/spec/nodes.h"
#include "protocol/atomic.h"
#include "common/cleanup.h"

static int context_init(int fd, bool with_name)
{
    struct drm_virtgpu_context_set_param params[] = {
        {.param = VIRTGPU_CONTEXT_PARAM_CAPSET_ID, .value = CDI_CAPSET_VENUS},
        {.param = VIRTGPU_CONTEXT_PARAM_NUM_RINGS, .value = 2},
        {.param = VIRTGPU_CONTEXT_PARAM_DEBUG_NAME,
         .value = (uint64_t)(uintptr_t)APIR_CONTEXT_NAME},
    };
    struct drm_virtgpu_context_init init = {
        .num_params = with_name ? 3 : 2,
        .ctx_set_params = (uint64_t)(uintptr_t)params,
    };

    return drmIoctl(fd, DRM_IOCTL_VIRTGPU_CONTEXT_INIT, &init) < 0 ? -errno : 0;
}

static int open_context(int fd)
{
    struct cdi_node_caps caps = {0};
    char name[16] = "";
    int r = cdi_node_caps_read(fd, &caps);

    if (r < 0)
        return r;
    /* Asked first, not tried: a refused parameter leaves the capset set behind it. */
    if (caps.debug_name)
        return context_init(fd, true);
    /* An older kernel names the context after the task that makes it. */
    if (prctl(PR_GET_NAME, name) < 0 || prctl(PR_SET_NAME, APIR_CONTEXT_NAME) < 0)
        return -errno;
    r = context_init(fd, false);
    prctl(PR_SET_NAME, name);
    return r;
}

static int map_ring(int fd, void **ret_map)
{
    struct drm_virtgpu_resource_create_blob blob = {
        .blob_mem = VIRTGPU_BLOB_MEM_HOST3D,
        .blob_flags = VIRTGPU_BLOB_FLAG_USE_MAPPABLE,
        .size = APIR_RING_SIZE,
        .blob_id = APIR_RING_BLOB_ID,
    };

    if (drmIoctl(fd, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE_BLOB, &blob) < 0)
        return -errno;
    struct drm_virtgpu_map map = {.handle = blob.bo_handle};
    if (drmIoctl(fd, DRM_IOCTL_VIRTGPU_MAP, &map) < 0)
        return -errno;
    void *p = mmap(NULL, APIR_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)map.offset);
    if (p == MAP_FAILED)
        return -errno;
    *ret_map = p;
    return 0;
}

/* The host's text goes to a terminal: printable characters only. */
static void copy_reason(char *to, const volatile char *from)
{
    size_t i = 0;

    for (; i < APIR_REASON_MAX - 1; i++) {
        char c = from[i];
        if (c == '\0')
            break;
        to[i] = c >= 0x20 && c < 0x7f ? c : '?';
    }
    to[i] = '\0';
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

static int wait_ready(const struct apir_ring_header *header, unsigned timeout_ms,
                      struct cdi_handshake *h)
{
    uint64_t deadline = now_ms() + timeout_ms;
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};

    for (;;) {
        h->state = apir_load_acquire32(&header->state);
        if (h->state == APIR_STATE_READY)
            return 0;
        if (h->state == APIR_STATE_FATAL || h->state == APIR_STATE_LOST) {
            copy_reason(h->reason, header->reason);
            return -EPIPE;
        }
        if (now_ms() >= deadline)
            return -ETIMEDOUT;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
}

static int read_header(const struct apir_ring_header *header, struct cdi_handshake *h)
{
    if (apir_load_acquire64(&header->magic) != APIR_RING_MAGIC)
        return -ENODEV;
    h->major = apir_load_acquire32(&header->major);
    h->minor = apir_load_acquire32(&header->minor);
    return h->major == APIR_PROTOCOL_MAJOR ? 0 : -EPROTONOSUPPORT;
}

static int kick(void *user)
{
    struct apir_doorbell bell = {.magic = APIR_DOORBELL_MAGIC, .op = APIR_DOORBELL_KICK};
    struct drm_virtgpu_execbuffer exec = {
        .flags = VIRTGPU_EXECBUF_RING_IDX,
        .size = sizeof(bell),
        .command = (uint64_t)(uintptr_t)&bell,
        .fence_fd = -1,
    };

    return drmIoctl(*(int *)user, DRM_IOCTL_VIRTGPU_EXECBUFFER, &exec) < 0 ? -errno : 0;
}

static int ask_devices(int fd, void *map, unsigned timeout_ms, struct cdi_handshake *h)
{
    struct cdi_host_link link = {.kick = kick, .user = &fd};
    int r = apir_ring_guest_init(&link.ring, map, APIR_RING_SIZE);

    if (r == 0)
        r = cdi_host_ask(&link, timeout_ms, h->devices);
    if (r == -EPIPE)
        copy_reason(h->reason, link.ring.header->reason);
    if (r < 0)
        return r;
    h->n_devices = (uint32_t)r;
    return 0;
}

int cdi_handshake_run(const char *node_path, unsigned timeout_ms, struct cdi_handshake *h)
{
    void *map = NULL;

    memset(h, 0, sizeof(*h));
    cleanup_fd int fd = open(node_path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        h->code = errno;
        return -h->code;
    }
    h->passed = CDI_HANDSHAKE_OPENED;
    int r = open_context(fd);
    if (r == 0) {
        h->passed = CDI_HANDSHAKE_CONTEXT;
        r = map_ring(fd, &map);
    }
    if (r == 0) {
        h->passed = CDI_HANDSHAKE_BLOB;
        r = read_header(map, h);
    }
    if (r == 0) {
        h->passed = CDI_HANDSHAKE_MAGIC;
        r = wait_ready(map, timeout_ms, h);
    }
    if (r == 0) {
        h->passed = CDI_HANDSHAKE_READY;
        r = ask_devices(fd, map, timeout_ms, h);
    }
    if (r == 0)
        h->passed = CDI_HANDSHAKE_DEVICES;
    h->code = -r;
    if (map != NULL)
        munmap(map, APIR_RING_SIZE);
    return r;
}

void cdi_handshake_describe(const struct cdi_handshake *h, char *text, size_t size)
{
    switch (h->passed) {
    case CDI_HANDSHAKE_NONE:
        snprintf(text, size, "cannot open the node: %s", strerror(h->code));
        break;
    case CDI_HANDSHAKE_OPENED:
        snprintf(text, size, "no Venus context: %s", strerror(h->code));
        break;
    case CDI_HANDSHAKE_CONTEXT:
        snprintf(text, size, "no host-visible memory for the ring: %s", strerror(h->code));
        break;
    case CDI_HANDSHAKE_BLOB:
        if (h->code == EPROTONOSUPPORT)
            snprintf(text, size, "the host speaks protocol %u, we speak %u", h->major,
                     APIR_PROTOCOL_MAJOR);
        else
            snprintf(text, size, "the host does not run apir-render-server");
        break;
    case CDI_HANDSHAKE_MAGIC:
        if (h->code == ETIMEDOUT)
            snprintf(text, size, "the host's worker did not become ready in time");
        else
            snprintf(text, size, "the host's worker failed: %s",
                     h->reason[0] != '\0' ? h->reason : "it gives no reason");
        break;
    case CDI_HANDSHAKE_READY:
        if (h->code == EPIPE)
            snprintf(text, size, "the host's worker failed when it was asked for its devices: %s",
                     h->reason[0] != '\0' ? h->reason : "it gives no reason");
        else
            snprintf(text, size, "the host's worker does not tell its devices: %s",
                     strerror(h->code));
        break;
    case CDI_HANDSHAKE_DEVICES:
        snprintf(text, size, "host ready, protocol %u.%u, %u device(s)", h->major, h->minor,
                 h->n_devices);
        break;
    }
}
