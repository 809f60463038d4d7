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
#include <sys/types.h>

/* Prints what went wrong and ends the program at once: a later check would only say less. */
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            fail("%s:%d: %s", __FILE__, __LINE__, #what);                                          \
    } while (0)

double now_seconds(void);

/* A thread for each of n elements of `size` bytes at `args`; returns once all have ended. */
void threads_run_each(size_t n, void *(*run)(void *arg), void *args, size_t size);
/* The child ended, by itself and with 0. */
void child_wait(pid_t pid);

/* The device of that name; ends the program where there is none. */
ggml_backend_dev_t device_named(const char *name);

/* Each of these is there, or the program ends. */
ggml_backend_t backend_new(ggml_backend_dev_t dev);
ggml_backend_event_t event_new(ggml_backend_dev_t dev);
static inline void backend_end(ggml_backend_t *backend)
{
    ggml_backend_free(*backend);
}
static inline void event_end(ggml_backend_event_t *event)
{
    ggml_backend_event_free(*event);
}
/* Whose scope frees them, the last one first. */
#define cleanup_backend __attribute__((cleanup(backend_end)))
#define cleanup_event   __attribute__((cleanup(event_end)))
#define cleanup_problem __attribute__((cleanup(problem_free)))
#define cleanup_bytes   __attribute__((cleanup(bytes_fini)))
#define cleanup_load    __attribute__((cleanup(load_free)))
/* For 64 tensors and a graph, whose memory comes from elsewhere. */
struct ggml_context *context_new(void);
/* Either is GGML_STATUS_SUCCESS. */
void graph_compute(ggml_backend_t backend, struct ggml_cgraph *graph);
void graph_compute_async(ggml_backend_t backend, struct ggml_cgraph *graph);

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

/* All zeros. */
void bytes_init(struct bytes *b, ggml_backend_dev_t dev, size_t size);
/* Not written yet; false: there is no such buffer, and all else is there. */
bool bytes_try(struct bytes *b, ggml_backend_dev_t dev, size_t size);
void bytes_fini(struct bytes *b);
/* Other bytes, wanted and set; the second as the next work of a backend. */
void bytes_set(struct bytes *b, uint32_t seed);
void bytes_set_async(struct bytes *b, ggml_backend_t backend, uint32_t seed);
/* Asks for the first `size` bytes, after what the backend has to do. */
void bytes_get_async(struct bytes *b, ggml_backend_t backend, size_t size);
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

/* E(function, name, what it does); each function returns the exit status. */
#define EXERCISES(E)                                                                               \
    E(compute_run, "compute", "a hundred checked computations")                                    \
    E(naps_run, "naps", "the same after naps of all lengths, in which the host falls asleep")      \
    E(transfers_run, "transfers", "set, get, 2d, memset, clear; sizes that take other roads")      \
    E(copies_run, "copies", "between ranges that overlap")                                         \
    E(buffers_run, "buffers", "many, too large, reset")                                            \
    E(host_buffers_run, "host-buffers", "many of the device's host buffers, and across borders")   \
    E(filled_run, "filled", "several threads that fill one buffer")                                \
    E(rows_refused_run, "rows-refused",                                                            \
      "rows set where the host cannot: said, and the graph fails")                                 \
    E(graph_fails_run, "graph-fails",                                                              \
      "rows looked up that are not there; the next graphs compute")                                \
    E(events_run, "events", "more events than there are, and unused ones")                         \
    E(events_free_run, "events-free", "the same, with either end freed first")                     \
    E(events_fork_run, "events-fork", "in a child of a busy process")                              \
    E(devices_run, "devices", "copies between the device and another one beside it")               \
    E(fork_run, "fork", "a child's attempts fail, the parent's go on")                             \
    E(fork_busy_run, "fork-busy", "the same, forked while another thread computes")                \
    E(exit_run, "exit", "main returns while a thread computes")                                    \
    E(lost_run, "lost", "computes until the host is lost, then checks what is promised")           \
    E(host_lost_run, "host-lost", "the same with transfers from and to host buffers")              \
    E(host_lost_late_run, "host-lost-late", "reads given up after the loss; waits for a line")     \
    E(hold_run, "hold", "one computation per line of stdin, until its end")                        \
    E(awake_run, "awake", "graph after graph, until many in a row have woken nobody")              \
    E(limits_run, "limits", "by line: MiB to allocate, free, memory, open, compute, graph N")      \
    E(slow_run, "slow", "one graph that takes long, in one operation; exit status 3: it failed")   \
    E(long_run, "long", "the same, in many")

#define E(function, name, what) int function(ggml_backend_dev_t dev);
EXERCISES(E)
#undef E

#endif
