/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/soak/soak_client.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/clock.h"
#include "tests/hostile/soak/board.h"
#include "tests/system/apir_exercise.h"

static struct board *board;

uint32_t soak_random(struct soak_client *c, uint32_t limit)
{
    c->random = c->random * 1664525u + 1013904223u;
    return (c->random >> 8) % limit;
}

/* What the client had to do was right for the first time. */
static void board_first(void)
{
    static bool counted;
    const char *began = getenv(BOARD_BEGAN_ENV);
    if (began && !counted)
        atomic_fetch_add(
            &board->requests[BOARD_FIRST][board_bucket((double)(now_us() - atoll(began)))], 1);
    counted = true;
}

/* In `place` of the board, or nowhere. */
static void board_hold(uint64_t bytes)
{
    const char *place = getenv(BOARD_PLACE_ENV);
    if (place)
        atomic_store(&board->held[(unsigned)atoi(place) % BOARD_PLACES], bytes);
}

bool soak_goes_on(struct soak_client *c)
{
    board_first();
    const struct timespec think = {.tv_nsec = 50000000 + (long)soak_random(c, 200000000)};
    nanosleep(&think, NULL);
    return now_seconds() < c->ends;
}

static void board_open(void)
{
    const char *path = getenv(BOARD_ENV);
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        fail("%s names no board", BOARD_ENV);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        fail("cannot map the board");
    close(fd);
}

static void board_count(double seconds)
{
    const uint32_t phase = atomic_load(&board->phase);
    if (phase < BOARD_NO_PHASE)
        atomic_fetch_add(&board->requests[phase][board_bucket(seconds * 1e6)], 1);
}

static ggml_backend_dev_t device(void)
{
    /* The plug-in alone: what else this machine's ggml could load is not at hand. */
    const char *plugin = getenv("GGML_BACKEND_PATH");
    if (!plugin)
        fail("GGML_BACKEND_PATH names no plug-in");
    (void)ggml_backend_load(plugin);
    if (!ggml_backend_dev_by_name("APIR0"))
        soak_refused("the plug-in has no device");
    return device_named("APIR0");
}

void soak_refused(const char *what)
{
    fprintf(stderr, "refused: %s\n", what);
    _exit(SOAK_REFUSED);
}

/* ---- those that behave -------------------------------------------------------------- */

static void problem_of(struct soak_client *c, struct problem *p)
{
    problem_init(p, device(), 32 + 16 * (c->seed % 5), 1 + c->seed % 7);
    problem_weights(p, c->seed * 7u);
}

static void problem_right(struct soak_client *c, struct problem *p)
{
    problem_question(p, soak_random(c, 1u << 24));
    const double began = now_seconds();
    const enum outcome outcome = problem_ask(p);
    board_count(now_seconds() - began);
    if (outcome != RIGHT)
        fail("client %u: %s", c->seed, outcome == WRONG ? "a wrong result" : "refused");
}

static void compute(struct soak_client *c)
{
    struct problem p;
    problem_of(c, &p);
    do
        problem_right(c, &p);
    while (soak_goes_on(c));
    problem_free(&p);
}

static void churn(struct soak_client *c)
{
    ggml_backend_dev_t dev = device();
    do {
        struct bytes b[3];
        for (int i = 0; i < 3; i++) {
            bytes_init(&b[i], dev, 1 + soak_random(c, 1u << 19));
            random_bytes(b[i].want, b[i].size, c->seed * 3u + (uint32_t)i);
            ggml_backend_tensor_set(b[i].t, b[i].want, 0, b[i].size);
        }
        for (int i = 2; i >= 0; i--) {
            bytes_check(&b[i], "churn");
            bytes_fini(&b[i]);
        }
    } while (soak_goes_on(c));
}

/* One backend writes and marks it, the other reads after the mark. */
static void events(struct soak_client *c)
{
    ggml_backend_dev_t dev = device();
    struct bytes b;
    bytes_init(&b, dev, 200000 + soak_random(c, 200000));
    ggml_backend_t writer = ggml_backend_dev_init(dev, NULL);
    ggml_backend_t reader = ggml_backend_dev_init(dev, NULL);
    ggml_backend_event_t written = ggml_backend_event_new(dev), seen = ggml_backend_event_new(dev);
    CHECK(writer && reader && written && seen);
    do {
        random_bytes(b.want, b.size, soak_random(c, 1u << 24) ^ c->seed);
        ggml_backend_event_wait(writer, seen);
        ggml_backend_tensor_set_async(writer, b.t, b.want, 0, b.size);
        ggml_backend_event_record(written, writer);
        ggml_backend_event_wait(reader, written);
        memset(b.got, 0, b.size);
        ggml_backend_tensor_get_async(reader, b.t, b.got, 0, b.size);
        ggml_backend_event_record(seen, reader);
        ggml_backend_event_synchronize(seen);
        ggml_backend_synchronize(reader);
        if (memcmp(b.got, b.want, b.size) != 0)
            fail("client %u: the reader got something else", c->seed);
    } while (soak_goes_on(c));
    ggml_backend_event_free(written);
    ggml_backend_event_free(seen);
    ggml_backend_free(writer);
    ggml_backend_free(reader);
    bytes_fini(&b);
}

static void bulk(struct soak_client *c)
{
    struct bytes b;
    bytes_init(&b, device(), 2 * MIB);
    do {
        const size_t at = soak_random(c, MIB), size = 1 + soak_random(c, MIB);
        random_bytes(b.want + at, size, c->seed + (uint32_t)at);
        ggml_backend_tensor_set(b.t, b.want + at, at, size);
        bytes_check(&b, "a bulk transfer");
    } while (soak_goes_on(c));
    bytes_fini(&b);
}

/* Takes of the device what there is, gives some of it back, and computes in between. */
static void hoard(struct soak_client *c)
{
    enum { PIECES = 16 };
    ggml_backend_dev_t dev = device();
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(dev);
    ggml_backend_buffer_t pieces[PIECES] = {NULL};
    uint64_t sizes[PIECES] = {0}, held = 0;
    struct problem p;
    if (!problem_try(&p, dev, 32 + 16 * (c->seed % 5), 1 + c->seed % 7))
        soak_refused("no buffer for the tensors");
    problem_weights(&p, c->seed * 7u);
    do {
        const uint32_t at = soak_random(c, PIECES);
        if (pieces[at]) {
            board_hold(held -= sizes[at]); /* before it can be another's */
            ggml_backend_buffer_free(pieces[at]);
            pieces[at] = NULL;
        } else {
            sizes[at] = (1 + soak_random(c, 8)) * MIB;
            pieces[at] = ggml_backend_buft_alloc_buffer(type, sizes[at]);
            if (pieces[at])
                board_hold(held += sizes[at]);
        }
        problem_right(c, &p);
    } while (soak_goes_on(c));
    board_hold(0);
    if (c->seed % 4 == 0)
        raise(SIGKILL); /* with all that it has */
    for (int i = 0; i < PIECES; i++)
        ggml_backend_buffer_free(pieces[i]);
    problem_free(&p);
}

/* Keeps its context until it is killed: the VMM ends a render server without contexts. */
static void keep(struct soak_client *c)
{
    struct problem p;
    problem_of(c, &p);
    problem_right(c, &p);
    for (;;)
        pause();
}

/* ---- those that do not ---------------------------------------------------------------- */

/* Ends, or is stopped, with a computation under way. */
static void signalled(struct soak_client *c, int signal_number)
{
    struct problem p;
    problem_of(c, &p);
    struct load l;
    load_init(&l, device_named("APIR0"));
    problem_right(c, &p);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(ggml_backend_graph_compute_async(l.backend, l.graph) == GGML_STATUS_SUCCESS);
    raise(signal_number);
    /* Continued: nothing is lost. */
    ggml_backend_synchronize(l.backend);
    problem_right(c, &p);
    load_free(&l);
    problem_free(&p);
}

static void killed(struct soak_client *c)
{
    signalled(c, SIGKILL);
}

static void stopped(struct soak_client *c)
{
    signalled(c, SIGSTOP);
}

/* More nodes than any model has; right all the same. */
static void huge(struct soak_client *c)
{
    enum { NODES = 20000 };
    ggml_backend_t backend = ggml_backend_dev_init(device(), NULL);
    CHECK(backend);
    const struct ggml_init_params params = {
        .mem_size =
            ggml_tensor_overhead() * (NODES + 16) + ggml_graph_overhead_custom(NODES + 16, false),
        .no_alloc = true,
    };
    struct ggml_context *ctx = ggml_init(params);
    CHECK(ctx);
    struct ggml_tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4), *y = x;
    for (int i = 0; i < NODES; i++)
        y = ggml_add(ctx, y, x);
    struct ggml_cgraph *graph = ggml_new_graph_custom(ctx, NODES + 16, false);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    CHECK(buffer);
    do {
        const float v = (float)soak_random(c, 100), in[4] = {v, 1, v, 1};
        float out[4] = {0};
        ggml_backend_tensor_set(x, in, 0, sizeof(in));
        CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(y, out, 0, sizeof(out));
        CHECK(out[0] == v * (NODES + 1) && out[3] == NODES + 1);
    } while (soak_goes_on(c));
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(backend);
    ggml_free(ctx);
}

/* Asks for what no host has; is refused, and lives on. */
static void allocate(struct soak_client *c)
{
    struct problem p;
    problem_of(c, &p);
    ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(device_named("APIR0"));
    do {
        CHECK(!ggml_backend_buft_alloc_buffer(buft, (size_t)1 << (43 + soak_random(c, 3))));
        problem_right(c, &p);
    } while (soak_goes_on(c));
    problem_free(&p);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct soak_client *c);
    } kinds[] = {
        {"compute", compute}, {"churn", churn},       {"events", events},
        {"bulk", bulk},       {"killed", killed},     {"stopped", stopped},
        {"huge", huge},       {"allocate", allocate}, {"malformed", raw_malformed},
        {"flood", raw_flood}, {"deaf", raw_deaf},     {"greedy", raw_greedy},
        {"keep", keep},       {"hoard", hoard},       {"grab", raw_grab},
    };
    if (argc != 4) {
        fputs("usage: soak-client KIND SEED MILLISECONDS\n", stderr);
        return 2;
    }
    struct soak_client c = {.seed = (uint32_t)strtoul(argv[2], NULL, 10)};
    c.random = c.seed;
    c.ends = now_seconds() + strtod(argv[3], NULL) / 1000;
    board_open();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, argv[1]) == 0) {
            kinds[i].run(&c);
            return 0;
        }
    }
    fail("no kind %s", argv[1]);
}
