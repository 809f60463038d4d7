/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/compute.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protocol/cleanup.h"

/*
 * ggml's public functions, by name and with opaque objects only, so that this
 * program neither links against a ggml nor depends on the layout of one.
 */
struct ggml_init_arg {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};
#define GGML_TYPE_F32_NUMBER 0

struct ggml_api {
    void (*load_all)(void);
    void *(*dev_by_name)(const char *);
    const char *(*dev_description)(void *);
    void *(*dev_init)(void *, const char *);
    void *(*init)(struct ggml_init_arg);
    void *(*new_tensor_2d)(void *, int, int64_t, int64_t);
    void *(*mul_mat)(void *, void *, void *);
    void *(*new_graph)(void *);
    void (*build_forward_expand)(void *, void *);
    void *(*alloc_ctx_tensors)(void *, void *);
    void (*tensor_set)(void *, const void *, size_t, size_t);
    void (*tensor_get)(const void *, void *, size_t, size_t);
    int (*graph_compute)(void *, void *);
};

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"ggml_backend_load_all", offsetof(struct ggml_api, load_all)},
    {"ggml_backend_dev_by_name", offsetof(struct ggml_api, dev_by_name)},
    {"ggml_backend_dev_description", offsetof(struct ggml_api, dev_description)},
    {"ggml_backend_dev_init", offsetof(struct ggml_api, dev_init)},
    {"ggml_init", offsetof(struct ggml_api, init)},
    {"ggml_new_tensor_2d", offsetof(struct ggml_api, new_tensor_2d)},
    {"ggml_mul_mat", offsetof(struct ggml_api, mul_mat)},
    {"ggml_new_graph", offsetof(struct ggml_api, new_graph)},
    {"ggml_build_forward_expand", offsetof(struct ggml_api, build_forward_expand)},
    {"ggml_backend_alloc_ctx_tensors", offsetof(struct ggml_api, alloc_ctx_tensors)},
    {"ggml_backend_tensor_set", offsetof(struct ggml_api, tensor_set)},
    {"ggml_backend_tensor_get", offsetof(struct ggml_api, tensor_get)},
    {"ggml_backend_graph_compute", offsetof(struct ggml_api, graph_compute)},
};

enum { K = 64, ROWS = 8, COLUMNS = 4 };

static void *open_ggml(void)
{
    void *handle = dlopen("libggml.so.0", RTLD_NOW | RTLD_LOCAL);

    return handle != NULL ? handle : dlopen("libggml.so", RTLD_NOW | RTLD_LOCAL);
}

static bool load_api(void *handle, struct ggml_api *api, char *text, size_t size)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        /* dlsym also looks into libggml-base, which libggml needs. */
        void *p = dlsym(handle, symbols[i].name);
        if (p == NULL) {
            snprintf(text, size, "this machine's libggml has no %s", symbols[i].name);
            return false;
        }
        memcpy((char *)api + symbols[i].offset, &p, sizeof(p));
    }
    return true;
}

/* Small integers: every product and sum is exact in any float format and order. */
static float element(int i)
{
    return (float)(i % 5 - 2);
}

static bool compute(const struct ggml_api *api, void *device, char *text, size_t size)
{
    float a[ROWS * K], b[COLUMNS * K], got[COLUMNS * ROWS];
    void *backend = api->dev_init(device, NULL);
    void *ctx = api->init((struct ggml_init_arg){1u << 20, NULL, true});

    if (backend == NULL || ctx == NULL) {
        snprintf(text, size, "APIR0 is listed but does not open");
        return false;
    }
    void *ta = api->new_tensor_2d(ctx, GGML_TYPE_F32_NUMBER, K, ROWS);
    void *tb = api->new_tensor_2d(ctx, GGML_TYPE_F32_NUMBER, K, COLUMNS);
    void *product = api->mul_mat(ctx, ta, tb);
    void *graph = api->new_graph(ctx);
    api->build_forward_expand(graph, product);
    if (api->alloc_ctx_tensors(ctx, backend) == NULL) {
        snprintf(text, size, "APIR0 gives no memory");
        return false;
    }
    for (int i = 0; i < ROWS * K; i++)
        a[i] = element(i);
    for (int i = 0; i < COLUMNS * K; i++)
        b[i] = element(3 * i + 1);
    api->tensor_set(ta, a, 0, sizeof(a));
    api->tensor_set(tb, b, 0, sizeof(b));
    int status = api->graph_compute(backend, graph);
    if (status != 0) {
        snprintf(text, size, "graph_compute on APIR0 returned %d", status);
        return false;
    }
    memset(got, 0xff, sizeof(got));
    api->tensor_get(product, got, 0, sizeof(got));
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < ROWS; r++) {
            float want = 0.0f;
            for (int k = 0; k < K; k++)
                want += a[r * K + k] * b[c * K + k];
            if (!(got[c * ROWS + r] == want)) {
                snprintf(text, size, "wrong result: %g instead of %g at %d,%d",
                         (double)got[c * ROWS + r], (double)want, r, c);
                return false;
            }
        }
    const char *description = api->dev_description(device);
    snprintf(text, size, "APIR0: %.150s", description == NULL ? "(no description)" : description);
    return true;
}

/* Message to the parent: the result in the first byte, then the text. */
static _Noreturn void child(const char *plugin_path, int out)
{
    char message[320] = "";
    char *text = message + 1;
    size_t size = sizeof(message) - 1;
    struct ggml_api api;
    enum cdi_compute_result result = CDI_COMPUTE_FAILED;

    /* A library that prints must not end up in our table or our JSON. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    setenv("GGML_BACKEND_PATH", plugin_path, 1);
    setenv("GGML_VK_VISIBLE_DEVICES", "", 1);
    void *handle = open_ggml();
    if (handle == NULL) {
        result = CDI_COMPUTE_NO_GGML;
        snprintf(text, size, "no libggml on this machine");
    } else if (load_api(handle, &api, text, size)) {
        api.load_all();
        void *device = api.dev_by_name("APIR0");
        if (device == NULL)
            snprintf(text, size, "ggml loaded %.150s but lists no APIR0", plugin_path);
        else if (compute(&api, device, text, size))
            result = CDI_COMPUTE_OK;
    }
    message[0] = (char)result;
    ssize_t n = write(out, message, 1 + strlen(text));
    /* Without exit handlers: those of a GPU stack are none of doctor's business. */
    _exit(n > 0 ? 0 : 1);
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

/* The message is one write below PIPE_BUF, so one read takes all of it. */
static ssize_t read_message(int fd, unsigned timeout_ms, char *message, size_t size)
{
    uint64_t deadline = now_ms() + timeout_ms;

    for (;;) {
        uint64_t now = now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r = poll(&p, 1, now >= deadline ? 0 : (int)(deadline - now));

        if (r == 0)
            return -ETIMEDOUT;
        if (r > 0)
            return read(fd, message, size);
        if (errno != EINTR)
            return -errno;
    }
}

enum cdi_compute_result cdi_compute_run(const char *plugin_path, unsigned timeout_ms, char *text,
                                        size_t size)
{
    int pipe_fds[2];
    char message[320];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        snprintf(text, size, "pipe: %s", strerror(errno));
        return CDI_COMPUTE_FAILED;
    }
    cleanup_fd int in = pipe_fds[0];
    cleanup_fd int out = pipe_fds[1];
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        snprintf(text, size, "fork: %s", strerror(errno));
        return CDI_COMPUTE_FAILED;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        child(plugin_path, out);
    }
    apir_close_fd(&out);
    ssize_t n = read_message(in, timeout_ms, message, sizeof(message) - 1);
    int status = 0;

    if (n == -ETIMEDOUT)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (n == -ETIMEDOUT) {
        snprintf(text, size, "no result within %u s", timeout_ms / 1000);
        return CDI_COMPUTE_FAILED;
    }
    if (n < 1) {
        if (WIFSIGNALED(status))
            snprintf(text, size, "the computation died: %s", strsignal(WTERMSIG(status)));
        else
            snprintf(text, size, "the computation ended without a result");
        return CDI_COMPUTE_FAILED;
    }
    message[n] = '\0';
    snprintf(text, size, "%s", message + 1);
    return message[0] == CDI_COMPUTE_OK        ? CDI_COMPUTE_OK
           : message[0] == CDI_COMPUTE_NO_GGML ? CDI_COMPUTE_NO_GGML
                                               : CDI_COMPUTE_FAILED;
}
