/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/doctor/compute.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cdi/child.h"

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

#define SYMBOLS(S)                                                                                 \
    S(void *, ggml_backend_load, (const char *))                                                   \
    S(void *, ggml_backend_dev_by_name, (const char *))                                            \
    S(const char *, ggml_backend_dev_description, (void *))                                        \
    S(void *, ggml_backend_dev_init, (void *, const char *))                                       \
    S(void *, ggml_init, (struct ggml_init_arg))                                                   \
    S(void *, ggml_new_tensor_2d, (void *, int, int64_t, int64_t))                                 \
    S(void *, ggml_mul_mat, (void *, void *, void *))                                              \
    S(void *, ggml_new_graph, (void *))                                                            \
    S(void, ggml_build_forward_expand, (void *, void *))                                           \
    S(void *, ggml_backend_alloc_ctx_tensors, (void *, void *))                                    \
    S(void, ggml_backend_tensor_set, (void *, const void *, size_t, size_t))                       \
    S(void, ggml_backend_tensor_get, (const void *, void *, size_t, size_t))                       \
    S(int, ggml_backend_graph_compute, (void *, void *))

struct ggml_api {
#define S(ret, name, args) ret(*name) args;
    SYMBOLS(S)
#undef S
};

enum { K = 64, ROWS = 8, COLUMNS = 4 };

static void *open_ggml(void)
{
    void *handle = dlopen("libggml.so.0", RTLD_NOW | RTLD_LOCAL);

    return handle ? handle : dlopen("libggml.so", RTLD_NOW | RTLD_LOCAL);
}

static bool load_api(void *handle, struct ggml_api *api, char *text, size_t size)
{
    void *p;
    /* dlsym also looks into libggml-base, which libggml needs. */
#define S(ret, name, args)                                                                         \
    p = dlsym(handle, #name);                                                                      \
    if (!p) {                                                                                      \
        snprintf(text, size, "this machine's libggml has no %s", #name);                           \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&api->name, &p, sizeof(p));
    SYMBOLS(S)
#undef S
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
    void *backend = api->ggml_backend_dev_init(device, NULL);
    void *ctx = api->ggml_init((struct ggml_init_arg){1u << 20, NULL, true});

    if (!backend || !ctx) {
        snprintf(text, size, "APIR0 is listed but does not open");
        return false;
    }
    void *ta = api->ggml_new_tensor_2d(ctx, GGML_TYPE_F32_NUMBER, K, ROWS);
    void *tb = api->ggml_new_tensor_2d(ctx, GGML_TYPE_F32_NUMBER, K, COLUMNS);
    void *product = api->ggml_mul_mat(ctx, ta, tb);
    void *graph = api->ggml_new_graph(ctx);
    api->ggml_build_forward_expand(graph, product);
    if (!api->ggml_backend_alloc_ctx_tensors(ctx, backend)) {
        snprintf(text, size, "APIR0 gives no memory");
        return false;
    }
    for (int i = 0; i < ROWS * K; i++)
        a[i] = element(i);
    for (int i = 0; i < COLUMNS * K; i++)
        b[i] = element(3 * i + 1);
    api->ggml_backend_tensor_set(ta, a, 0, sizeof(a));
    api->ggml_backend_tensor_set(tb, b, 0, sizeof(b));
    int status = api->ggml_backend_graph_compute(backend, graph);
    if (status != 0) {
        snprintf(text, size, "graph_compute on APIR0 returned %d", status);
        return false;
    }
    memset(got, 0xff, sizeof(got));
    api->ggml_backend_tensor_get(product, got, 0, sizeof(got));
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
    const char *description = api->ggml_backend_dev_description(device);
    snprintf(text, size, "APIR0: %.150s", description ? description : "(no description)");
    return true;
}

struct answer {
    enum cdi_compute_result result;
    char text[320];
};

static void work(void *out, const void *arg)
{
    struct answer *answer = out;
    const struct cdi_compute_options *o = arg;
    char *text = answer->text;
    size_t size = sizeof(answer->text);
    struct ggml_api api;

    answer->result = CDI_COMPUTE_FAILED;
    /* ggml tells at length what it loads; who wants to hear it says so. */
    if (!getenv("APIR_LOG") && !freopen("/dev/null", "w", stderr))
        close(STDERR_FILENO);
    setenv("GGML_VK_VISIBLE_DEVICES", "", 1);
    if (o->transport)
        setenv("APIR_TRANSPORT", o->transport, 1);
    void *handle = open_ggml();
    if (!handle) {
        answer->result = CDI_COMPUTE_NO_GGML;
        snprintf(text, size, "no libggml on this machine");
        return;
    }
    if (!load_api(handle, &api, text, size))
        return;
    /* As ggml loads what GGML_BACKEND_PATH names, and nothing else: it looks for other backends in
     * the folder that it is run in, which may be anybody's. */
    (void)api.ggml_backend_load(o->plugin);
    void *device = api.ggml_backend_dev_by_name("APIR0");
    if (!device)
        snprintf(text, size, "ggml loaded %.150s but lists no APIR0", o->plugin);
    else if (compute(&api, device, text, size))
        answer->result = CDI_COMPUTE_OK;
}

enum cdi_compute_result cdi_compute_run(const struct cdi_compute_options *options,
                                        unsigned timeout_ms, char *text, size_t size)
{
    struct answer answer;

    if (cdi_child_run(work, options, timeout_ms, &answer, sizeof(answer), text, size) !=
        CDI_CHILD_ANSWERED)
        return CDI_COMPUTE_FAILED;
    answer.text[sizeof(answer.text) - 1] = '\0';
    snprintf(text, size, "%s", answer.text);
    return answer.result;
}
