/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-exercise drives one ggml device through ggml's public interface only, as any program
 * would, and checks every result. The device is named by the caller: what holds for APIR0 must
 * hold for CPU too, or the check is wrong.
 */
#ifndef APIR_TESTS_SYSTEM_EXERCISE_H
#define APIR_TESTS_SYSTEM_EXERCISE_H

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints what went wrong and ends the program at once: a later check would only say less. */
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            fail("%s:%d: %s", __FILE__, __LINE__, #what);                                          \
    } while (0)

double now_seconds(void);

/* The device of that name; ends the program where there is none. */
ggml_backend_dev_t device_named(const char *name);

/*
 * Two layers on whole numbers small enough that every order of additions gives the same float:
 * out = relu(w x + b), y = v out. The answer is known without any backend.
 */
struct problem {
    ggml_backend_t backend;
    ggml_backend_buffer_t buffer;
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *w, *b, *v, *x, *y;
    int64_t n;    /* width */
    int64_t cols; /* columns of x */
    float *wf, *bf, *vf, *xf, *want, *got;
};

enum outcome { RIGHT, WRONG, REFUSED };

void problem_init(struct problem *p, ggml_backend_dev_t dev, int64_t n, int64_t cols);
/* False: the device refuses some of it; what there is of *p by then is not freed. */
bool problem_try(struct problem *p, ggml_backend_dev_t dev, int64_t n, int64_t cols);
/* Other weights than those it begins with. */
void problem_weights(struct problem *p, unsigned seed);
/* One computation with an input made from the seed: what it must be, then what it is. */
enum outcome problem_run(struct problem *p, unsigned seed);
void problem_question(struct problem *p, unsigned seed);
enum outcome problem_ask(struct problem *p);
void problem_free(struct problem *p);

#define MIB ((size_t)1 << 20)

/* A buffer of bytes on the device, as one tensor of `rows` rows of `row` bytes, rows a multiple
 * of nothing in particular: I8, so that every offset is allowed. */
struct bytes {
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *t;
    size_t size;
    uint8_t *want; /* what the device must hold */
    uint8_t *got;
};

void bytes_init(struct bytes *b, ggml_backend_dev_t dev, size_t size);
void bytes_fini(struct bytes *b);
/* Reads all of it back, so that a write beside its target shows too. */
void bytes_check(struct bytes *b, const char *after);
void random_bytes(uint8_t *to, size_t n, uint32_t seed);

/* One computation after the other that takes some milliseconds, without a check of values. */
struct load {
    ggml_backend_t backend;
    ggml_backend_buffer_t buffer;
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *y;
    struct ggml_tensor *ids; /* integers, to see what they read as after a loss */
};
void load_init(struct load *l, ggml_backend_dev_t dev);
enum ggml_status load_run(struct load *l);
void load_free(struct load *l);

/* Sub-commands; each returns the exit status. */
int transfers_run(ggml_backend_dev_t dev);
int async_run(ggml_backend_dev_t dev);
int copies_run(ggml_backend_dev_t dev);
int buffers_run(ggml_backend_dev_t dev);
int threads_run(ggml_backend_dev_t dev);
int fork_run(ggml_backend_dev_t dev);
int fork_busy_run(ggml_backend_dev_t dev);
int exit_run(ggml_backend_dev_t dev);
int lost_run(ggml_backend_dev_t dev);
int hold_run(ggml_backend_dev_t dev);
int host_buffers_run(ggml_backend_dev_t dev);
int weights_run(ggml_backend_dev_t dev);
int weights_late_run(ggml_backend_dev_t dev);
int events_run(ggml_backend_dev_t dev);
int events_free_run(ggml_backend_dev_t dev);
int events_fork_run(ggml_backend_dev_t dev);
int devices_run(ggml_backend_dev_t dev);
int reads_run(ggml_backend_dev_t dev);
int host_sets_run(ggml_backend_dev_t dev);
int host_lost_run(ggml_backend_dev_t dev);
int host_lost_late_run(ggml_backend_dev_t dev);
int limits_run(ggml_backend_dev_t dev);
int slow_run(ggml_backend_dev_t dev);
int long_run(ggml_backend_dev_t dev);

#endif
