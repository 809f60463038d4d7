/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a render node says of itself and of its window, by a kernel of the test's own: of what VMMs
 * may ask no stock one asks for all.
 */
#include "frontend/link/ask.h"
#include "frontend/link/transport.h"

#include <drm/drm.h>
#include <drm/virtgpu_drm.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "tests/lib/unit.h"

#define NODE             "/dev/null"
#define PARAM_BLOB_ALIGN 9u
#define VENUS            (1 << 4)

/* bytes; 0: a kernel that does not know the question */
static uint32_t align;
static bool has_context;
/* Why there is no blob. */
static int refusal;

int __wrap_ioctl(int fd, unsigned long request, ...);

static int param(struct drm_virtgpu_getparam *get)
{
    uint32_t *value = (uint32_t *)(uintptr_t)get->value;
    if (get->param == PARAM_BLOB_ALIGN && !align) {
        errno = EINVAL;
        return -1;
    }
    *value = get->param == PARAM_BLOB_ALIGN ? align : VENUS;
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    assert_true(fd >= 0);
    if (request == DRM_IOCTL_VERSION) {
        const struct drm_version *version = arg;
        memcpy(version->name, "virtio_gpu", sizeof("virtio_gpu"));
        return 0;
    }
    if (request == DRM_IOCTL_VIRTGPU_GETPARAM)
        return param(arg);
    if (request == DRM_IOCTL_VIRTGPU_RESOURCE_CREATE_BLOB) {
        errno = refusal;
        return -1;
    }
    has_context = request == DRM_IOCTL_VIRTGPU_CONTEXT_INIT;
    assert_true(has_context);
    return 0;
}

static int open_with(uint32_t bytes, struct apir_error *err)
{
    struct transport t = {.fd = -1};
    align = bytes;
    has_context = false;
    const int rc = transport_virtgpu_open(&t, NODE, err);
    assert_int_equal(rc == 0, has_context);
    if (rc == 0)
        transport_close(&t);
    return rc;
}

TEST(a_vmm_may_ask_for_what_divides_our_blobs)
{
    const uint32_t fit[] = {0, 1, 4096, 16384, 65536};
    struct apir_error err = {0};
    for (size_t i = 0; i < sizeof(fit) / sizeof(*fit); i++)
        assert_int_equal(open_with(fit[i], &err), 0);
}

TEST(one_that_asks_for_more_is_told_of)
{
    const uint32_t more[] = {131072, 2u << 20, 12288, UINT32_MAX};
    for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
        struct apir_error err = {0};
        assert_int_equal(open_with(more[i], &err), -ENOTSUP);
        assert_non_null(strstr(err.msg, "multiples of 64 KiB"));
    }
    struct apir_error err = {0};
    assert_int_equal(open_with(2u << 20, &err), -ENOTSUP);
    assert_non_null(strstr(err.msg, NODE " shares memory in multiples of 2048 KiB"));
}

static void refused(int code, const char *text)
{
    struct client c;
    struct apir_error err = {0};
    align = 0;
    refusal = code;
    assert_int_equal(client_open(&c, "virtgpu:" NODE, &err), -code);
    assert_non_null(strstr(err.msg, text));
}

/* Who is told to look at the server would look in vain. */
TEST(a_full_window_is_called_that)
{
    refused(ENOSPC, "no room for 1 MiB in the host-visible window: the VM needs a larger one "
                    "(QEMU: hostmem=), or fewer programs at once");
}

/* What the kernel says once the server has ended, and where another one answers. */
TEST(a_vmm_that_gives_no_memory_is_asked_for_its_server)
{
    refused(EINVAL, "is its RENDER_SERVER_EXEC_PATH apir-render-server, and does that still run?");
}

TEST(a_silence_that_is_no_number_is_the_usual_one)
{
    static const char *const texts[] = {"", "-1", "+20", " 20", "20s", "x", "0"};

    assert_int_equal(setenv("APIR_SILENCE_SECONDS", "20", 1), 0);
    assert_true(transport_silence() == UINT64_C(20000000000));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(setenv("APIR_SILENCE_SECONDS", texts[i], 1), 0);
        assert_true(transport_silence() == UINT64_C(15000000000));
    }
    assert_int_equal(unsetenv("APIR_SILENCE_SECONDS"), 0);
}
