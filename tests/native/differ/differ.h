/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both differential fuzzers share: options, numbers, the report.
 *
 * A run is a row of sequences; sequence i of a run with seed S has the seed S + i, so each one is
 * repeated by `--seed (S + i) --sequences 1`. All that a sequence does follows from its seed.
 */
#ifndef APIR_DIFFER_H
#define APIR_DIFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ggml-backend.h>

/* The same work is done on both; the native one is right by definition. */
enum side { NATIVE, REMOTE, SIDES };
extern const char *const side_names[SIDES];

enum { DIFFER_THREADS_MAX = 6 };

struct differ_options {
    uint64_t seed;
    uint64_t sequences, steps, seconds; /* 0: no limit */
    uint64_t threads;                   /* 0: as the seed says */
    const char *native, *remote;        /* names of the devices */
    const char *only;                   /* kinds of steps, separated by commas; NULL: all */
    const char *without;                /* what steps may not contain, likewise */
    double tolerance;                   /* 0: bit for bit */
    bool verbose;
    char **files; /* what follows the options */
    int n_files;
};

extern struct differ_options differ_options;

/* Returns 0, or -1 after a message. */
int differ_parse(const char *program, int argc, char **argv);

/* ---- numbers ------------------------------------------------------------------ */

struct differ_random {
    uint64_t state;
};

/* Two seeds that differ by one give rows of numbers that have nothing in common. */
struct differ_random differ_random(uint64_t seed);
uint64_t differ_next(struct differ_random *r);
/* 0 to n - 1 */
uint32_t differ_below(struct differ_random *r, uint32_t n);
/* lowest to highest, both included */
int64_t differ_between(struct differ_random *r, int64_t lowest, int64_t highest);
bool differ_chance(struct differ_random *r, unsigned percent);
/* At least -1, below 1 */
float differ_float(struct differ_random *r);

/* ---- where each thread is ------------------------------------------------------ */

/*
 * Each thread names its steps, so that a difference, a crash or an assert of ggml can say where it
 * happened. Step 0 is the preparation.
 */
void differ_sequence(uint64_t seed, unsigned thread);
void differ_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* More about the step that is being done. */
void differ_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The sequence works on this one of differ_options.files: given alone, the seed repeats it. */
void differ_uses(const char *file);

/* A difference: prints it with the step and ends the process with 1. */
void differ_found(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/*
 * Compares what both sides computed: bytes, or numbers of this type where there is a tolerance. The
 * first that differs is printed with its place.
 */
void differ_compare(const char *what, enum ggml_type type, const void *native, const void *remote,
                    size_t size);

/* The same for what nobody has computed with: there is no tolerance. */
void differ_compare_bytes(const char *what, const void *native, const void *remote, size_t size);

/* ---- the run -------------------------------------------------------------------- */

/* Loads the backends and takes those away that would compute unasked. */
int differ_devices(ggml_backend_dev_t devices[SIDES]);

/* Does sequences until the options say that it is enough, prints the last line; the exit code. */
int differ_run(void (*sequence)(uint64_t seed));

/* One sequence in so many has several threads, most at most; or as many as --threads asks for. */
unsigned differ_n_threads(struct differ_random *r, unsigned one_in, unsigned most);
/* Calls work in n threads, this one among them as thread 0. Each is then at the sequence's start.
 */
void differ_threads(uint64_t seed, unsigned n, void (*work)(uint64_t seed, unsigned thread));

/* Whether this kind of steps was asked for. */
bool differ_wants(const char *kind);
/* Whether steps are to do without this. */
bool differ_left_out(const char *part);

void *differ_alloc(size_t size);

#endif
