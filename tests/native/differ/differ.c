/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/differ/differ.h"
#include "tests/lib/accelerators.h"
#include "tests/lib/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const side_names[SIDES] = {"native", "remote"};
struct differ_options differ_options = {.native = "CPU", .remote = "APIR0"};

static const char *program = "differ";
static const char *file; /* what differ_uses has said */
static atomic_uint_fast64_t operations;
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- options ------------------------------------------------------------------- */

static const char usage[] =
    "usage: %s [OPTION]... [FILE]...\n"
    "  --seed N         of the first sequence (default: from the clock)\n"
    "  --sequences N    end after so many\n"
    "  --steps N        end each sequence after so many steps\n"
    "  --seconds N      start no further sequence after so many\n"
    "  --threads N      threads of a sequence (default: as its seed says)\n"
    "  --native NAME    a ggml device (default CPU), --remote NAME (default APIR0)\n"
    "  --only KIND,...  these steps alone\n"
    "  --without PART,...  all but these\n"
    "  --tolerance X    numbers may differ by so much of the largest one (default 0)\n"
    "  --verbose        print each step\n";

/* Each is followed by its value, of the kind that is set here; --verbose has none. */
static const struct option {
    const char *name;
    uint64_t *number;
    const char **text;
    double *real;
} known_options[] = {
    {"seed", .number = &differ_options.seed},
    {"sequences", .number = &differ_options.sequences},
    {"steps", .number = &differ_options.steps},
    {"seconds", .number = &differ_options.seconds},
    {"threads", .number = &differ_options.threads},
    {"native", .text = &differ_options.native},
    {"remote", .text = &differ_options.remote},
    {"only", .text = &differ_options.only},
    {"without", .text = &differ_options.without},
    {"tolerance", .real = &differ_options.tolerance},
};

static bool parse_value(const char *name, const char *value)
{
    const struct option *o = known_options, *end = o + sizeof(known_options) / sizeof(*o);
    char *rest = "";
    while (o < end && strcmp(o->name, name) != 0)
        o++;
    if (o == end || !value || !*value)
        return false;
    if (o->number)
        *o->number = strtoull(value, &rest, 10);
    else if (o->real)
        *o->real = strtod(value, &rest);
    else
        *o->text = value;
    return !*rest;
}

/* Also where many processes are started in the same second. */
static uint64_t seed_of_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) % 1000000000 * 1000;
}

int differ_parse(const char *name, int argc, char **argv)
{
    struct differ_options *o = &differ_options;
    int i = 1;
    program = name;
    o->seed = seed_of_now();
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            o->verbose = true;
        } else if (!parse_value(argv[i] + 2, argv[i + 1])) {
            fprintf(stderr, "%s: %s: not an option, or not what it takes\n", name, argv[i]);
            fprintf(stderr, usage, name);
            return -1;
        } else {
            i++;
        }
    }
    o->files = argv + i;
    o->n_files = argc - i;
    return 0;
}

static bool is_listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || !at[n]))
            return true;
    }
    return false;
}

bool differ_wants(const char *kind)
{
    const struct differ_options *o = &differ_options;
    return (!o->only || is_listed(o->only, kind)) && !is_listed(o->without, kind);
}

bool differ_left_out(const char *part)
{
    return is_listed(differ_options.without, part);
}

/* ---- numbers ------------------------------------------------------------------- */

uint64_t differ_next(struct differ_random *r)
{
    /* splitmix64: any state is as good as another */
    uint64_t x = r->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct differ_random differ_random(uint64_t seed)
{
    struct differ_random r = {seed * UINT64_C(0xd1342543de82ef95) + 1};
    r.state = differ_next(&r);
    return r;
}

uint32_t differ_below(struct differ_random *r, uint32_t n)
{
    return (uint32_t)((differ_next(r) >> 32) * n >> 32);
}

int64_t differ_between(struct differ_random *r, int64_t lowest, int64_t highest)
{
    return lowest + (int64_t)differ_below(r, (uint32_t)(highest - lowest + 1));
}

bool differ_chance(struct differ_random *r, unsigned percent)
{
    return differ_below(r, 100) < percent;
}

float differ_float(struct differ_random *r)
{
    return (float)((int32_t)differ_below(r, 1u << 24) - (1 << 23)) / (float)(1 << 23);
}

void *differ_alloc(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p) {
        fprintf(stderr, "%s: out of memory\n", program);
        exit(2);
    }
    return p;
}

/* ---- where each thread is ------------------------------------------------------ */

static _Thread_local struct {
    uint64_t seed, step;
    unsigned thread;
    char text[400];
} here;

void differ_sequence(uint64_t seed, unsigned thread)
{
    here.seed = seed;
    here.thread = thread;
    here.step = 0;
    snprintf(here.text, sizeof(here.text), "preparation");
}

void differ_step(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(here.text, sizeof(here.text), format, args);
    va_end(args);
    here.step++;
    atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed);
    if (differ_options.verbose)
        fprintf(stderr, "%" PRIu64 ".%u.%" PRIu64 ": %s\n", here.seed, here.thread, here.step,
                here.text);
}

void differ_detail(const char *format, ...)
{
    const size_t used = strlen(here.text);
    va_list args;
    va_start(args, format);
    vsnprintf(here.text + used, sizeof(here.text) - used, format, args);
    va_end(args);
    if (differ_options.verbose)
        fprintf(stderr, "    %s\n", here.text + used);
}

static void print_place(const char *what)
{
    fprintf(stderr, "%s: %s in seed %" PRIu64 ", thread %u, step %" PRIu64 ": %s\n", program, what,
            here.seed, here.thread, here.step, here.text);
}

static void print_again(void)
{
    const struct differ_options *o = &differ_options;
    fprintf(stderr, "%s: again with: --seed %" PRIu64 " --sequences 1%s%s%s%s%s%s --verbose\n",
            program, here.seed, o->only ? " --only " : "", o->only ? o->only : "",
            o->without ? " --without " : "", o->without ? o->without : "", file ? " " : "",
            file ? file : "");
    fprintf(stderr, "%s: %" PRIuFAST64 " operations in %" PRIu64 " sequences agree before it\n",
            program, atomic_load(&operations), here.seed - o->seed);
}

void differ_uses(const char *name)
{
    file = name;
}

void differ_found(const char *format, ...)
{
    va_list args;
    /* One report: other threads fall over what this one has found. Never given back. */
    pthread_mutex_lock(&report_lock);
    print_place("DIFFERENCE");
    va_start(args, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    print_again();
    fflush(NULL);
    _exit(1);
}

/* A crash of either side, or an assert of ggml: the same words, then the signal takes its way. */
static void on_signal(int number)
{
    signal(number, SIG_DFL);
    print_place(number == SIGABRT ? "ABORT" : "CRASH");
    print_again();
    raise(number);
}

/* ---- comparing ------------------------------------------------------------------ */

static double number_at(enum ggml_type type, const void *data, size_t i)
{
    switch (type) {
    case GGML_TYPE_F32:
        return (double)((const float *)data)[i];
    case GGML_TYPE_F16:
        return (double)ggml_fp16_to_fp32(((const ggml_fp16_t *)data)[i]);
    case GGML_TYPE_BF16:
        return (double)ggml_bf16_to_fp32(((const ggml_bf16_t *)data)[i]);
    case GGML_TYPE_I32:
        return (double)((const int32_t *)data)[i];
    case GGML_TYPE_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return (double)((const uint8_t *)data)[i];
    }
}

static size_t number_size(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_I32:
    case GGML_TYPE_I64:
        return ggml_type_size(type);
    default:
        return 1;
    }
}

/* Of the largest number; an infinity or a NaN must be one on both sides. */
static bool near(double a, double b, double largest)
{
    if (a != a || b != b)
        return a != a && b != b;
    const double apart = a > b ? a - b : b - a;
    return a == b || apart <= differ_options.tolerance * largest;
}

static double largest_of(enum ggml_type type, const void *data, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        const double v = number_at(type, data, i), size = v < 0 ? -v : v;
        if (size > largest && size < 1e30)
            largest = size;
    }
    return largest;
}

static void compare(const char *what, enum ggml_type type, const void *native, const void *remote,
                    size_t size, bool exact)
{
    if (memcmp(native, remote, size) == 0)
        return;
    const size_t each = number_size(type), n = size / each;
    const double largest = exact ? 0 : largest_of(type, native, n);
    size_t first = n, last = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        const char *a = (const char *)native + i * each, *b = (const char *)remote + i * each;
        /* Which NaN it is depends on the order of operands, which compilers choose. */
        if (memcmp(a, b, each) == 0 ||
            (number_at(type, native, i) != number_at(type, native, i) &&
             number_at(type, remote, i) != number_at(type, remote, i)) ||
            (!exact && near(number_at(type, native, i), number_at(type, remote, i), largest)))
            continue;
        first = count ? first : i;
        last = i;
        count++;
    }
    if (count == 0)
        return;
    uint64_t bits[SIDES] = {0};
    memcpy(&bits[NATIVE], (const char *)native + first * each, each);
    memcpy(&bits[REMOTE], (const char *)remote + first * each, each);
    differ_found("%s: %zu of %zu numbers of %s differ, from %zu to %zu; the first is %.9g "
                 "(%0*" PRIx64 ") natively and %.9g (%0*" PRIx64 ") remoted",
                 what, count, n, each == 1 ? "bytes" : ggml_type_name(type), first, last,
                 number_at(type, native, first), (int)(2 * each), bits[NATIVE],
                 number_at(type, remote, first), (int)(2 * each), bits[REMOTE]);
}

void differ_compare(const char *what, enum ggml_type type, const void *native, const void *remote,
                    size_t size)
{
    compare(what, type, native, remote, size, differ_options.tolerance <= 0);
}

void differ_compare_bytes(const char *what, const void *native, const void *remote, size_t size)
{
    compare(what, GGML_TYPE_I8, native, remote, size, true);
}

/* ---- the run -------------------------------------------------------------------- */

int differ_devices(ggml_backend_dev_t devices[SIDES])
{
    const char *names[SIDES] = {differ_options.native, differ_options.remote};
    ggml_backend_load_all();
    unload_accelerators();
    for (int s = 0; s < SIDES; s++) {
        devices[s] = ggml_backend_dev_by_name(names[s]);
        if (!devices[s]) {
            fprintf(stderr, "%s: no device named %s\n", program, names[s]);
            return -1;
        }
    }
    return 0;
}

struct job {
    pthread_t id;
    uint64_t seed;
    unsigned thread;
    void (*work)(uint64_t seed, unsigned thread);
};

static void *run_job(void *arg)
{
    const struct job *j = arg;
    differ_sequence(j->seed, j->thread);
    j->work(j->seed, j->thread);
    return NULL;
}

void differ_threads(uint64_t seed, unsigned n, void (*work)(uint64_t seed, unsigned thread))
{
    struct job jobs[DIFFER_THREADS_MAX];
    for (unsigned i = 1; i < n; i++) {
        jobs[i] = (struct job){.seed = seed, .thread = i, .work = work};
        if (pthread_create(&jobs[i].id, NULL, run_job, &jobs[i]) != 0)
            abort();
    }
    work(seed, 0);
    for (unsigned i = 1; i < n; i++)
        pthread_join(jobs[i].id, NULL);
}

unsigned differ_n_threads(struct differ_random *r, unsigned one_in, unsigned most)
{
    const unsigned n = differ_below(r, one_in) == 0 ? 2 + differ_below(r, most - 1) : 1;
    const uint64_t asked = differ_options.threads;
    return !asked ? n : asked < most ? (unsigned)asked : most;
}

int differ_run(void (*sequence)(uint64_t seed))
{
    const struct differ_options *o = &differ_options;
    const int64_t began = now_ms();
    int64_t shown = began;
    uint64_t n = 0;
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], on_signal);
    fprintf(stderr, "%s: %s beside %s from seed %" PRIu64 "\n", program, o->remote, o->native,
            o->seed);
    while (!o->sequences || n < o->sequences) {
        const int64_t now = now_ms();
        if (o->seconds && now - began >= (int64_t)o->seconds * 1000)
            break;
        if (now - shown >= 10000) {
            shown = now;
            fprintf(stderr,
                    "%s: %" PRId64 " s, %" PRIuFAST64 " operations in %" PRIu64 " sequences\n",
                    program, (now - began) / 1000, atomic_load(&operations), n);
        }
        sequence(o->seed + n);
        n++;
    }
    const uint64_t done = atomic_load(&operations);
    printf("%s: %" PRIu64 " operations in %" PRIu64 " sequences agree, seed %" PRIu64 "\n", program,
           done, n, o->seed);
    fflush(stdout);
    /* A run that has compared nothing has not agreed. */
    return done ? 0 : 1;
}
