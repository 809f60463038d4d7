/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ggml-differ: the same random steps with ggml on the CPU and on a remote device, in one process.
 * Where the host computes with its CPU and one thread too, every byte must be the same.
 */
#include <stdlib.h>

#include "tests/native/differ/ggml_build.h"
#include "tests/native/differ/ggml_steps.h"

static ggml_backend_dev_t devices[SIDES];

static const struct {
    const char *name;
    unsigned weight;
    void (*step)(struct world *w);
} kinds[] = {
    {"transfer", 250, step_transfer}, {"copy", 150, step_copy},
    {"life", 50, step_life},          {"graph", 350, NULL},
    {"sched", 185, step_sched},       {"relay", 13, step_relay},
    {"cross", 8, step_cross},         {"many", 2, step_many},
    {"bulk", 20, step_bulk},
};

/* Of those kinds that were asked for. */
static void do_step(struct world *w, struct graphs *g)
{
    const unsigned n = sizeof(kinds) / sizeof(kinds[0]);
    unsigned weights[sizeof(kinds) / sizeof(kinds[0])], total = 0, i = 0;
    for (unsigned k = 0; k < n; k++) {
        weights[k] = differ_wants(kinds[k].name) ? kinds[k].weight : 0;
        total += weights[k];
    }
    if (!total)
        return;
    uint32_t at = differ_below(&w->r, total);
    while (at >= weights[i])
        at -= weights[i++];
    if (kinds[i].step)
        kinds[i].step(w);
    else
        step_graph(w, g);
}

static void do_world(uint64_t seed, unsigned thread)
{
    struct world *w = differ_alloc(sizeof(*w));
    struct graphs *g = graphs_new();
    differ_sequence(seed, thread);
    world_init(w, devices, seed + UINT64_C(0x100000000) * thread);
    while (w->n_streams < 3 && differ_chance(&w->r, 40))
        world_stream_open(w);
    world_area_new(w, AREA_DEVICE, 4096 + differ_below(&w->r, 1000000));
    world_area_new(w, AREA_HOST, 4096 + differ_below(&w->r, 1000000));
    uint64_t steps = 10 + differ_below(&w->r, 60);
    if (differ_options.steps && steps > differ_options.steps)
        steps = differ_options.steps;
    for (uint64_t i = 0; i < steps; i++)
        do_step(w, g);
    differ_step("the end");
    world_synchronize_all(w);
    graphs_free(w, g);
    world_fini(w);
    free(w);
}

/* Some sequences have several threads, each with a world of its own. */
static void sequence(uint64_t seed)
{
    struct differ_random r = differ_random(seed);
    differ_threads(seed, differ_n_threads(&r, 4, DIFFER_THREADS_MAX), do_world);
}

int main(int argc, char **argv)
{
    if (differ_parse("ggml-differ", argc, argv) < 0)
        return 2;
    if (differ_devices(devices) < 0)
        return 2;
    build_init();
    return differ_run(sequence);
}
