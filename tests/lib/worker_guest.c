/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/worker_guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/graph_write.h"
#include "tests/lib/processes.h"
#include "tests/lib/unit.h"

#define LAVAPIPE "/usr/share/vulkan/icd.d/lvp_icd.json"

static const char *devices = "\"CPU\"";

bool guest_is_cpu(void)
{
    return strcmp(devices, "\"CPU\"") == 0;
}

bool guest_has_two_devices(void)
{
    return strchr(devices, ',');
}

int guest_main(int argc, char **argv, const char *name)
{
    char group[64];
    if (argc > 1) {
        devices = argv[1];
        return unit_run(name);
    }
    int failed = unit_run(name);
    if (access(LAVAPIPE, R_OK) != 0)
        return failed;
    /* A device that copies itself, in a queue, and has events; its driver is the CPU's. */
    setenv("VK_DRIVER_FILES", LAVAPIPE, 1);
    setenv("FIXTURE_VISIBLE_DEVICES", "0", 1);
    setenv("LP_NUM_THREADS", "1", 1);
    devices = "\"Vulkan0\"";
    snprintf(group, sizeof(group), "%s_vulkan", name);
    failed += unit_run(group);
    devices = "\"Vulkan0\", \"CPU\"";
    snprintf(group, sizeof(group), "%s_two_devices", name);
    return failed + unit_run(group);
}

/* ---- the guest ---------------------------------------------------------------------- */

void guest_start(struct guest *g)
{
    char config[512];
    *g = (struct guest){0};
    snprintf(config, sizeof(config),
             "\"worker\": \"%s\", \"stock_server\": false, \"threads\": 1, \"devices\": [%s]",
             process_built("backend/apir-worker"), devices);
    fixture_start(&g->f, config, NULL);
    fixture_open(&g->f, &g->c, 1);
    g->transport = fixture_transport(g->c.fd);
    guest_attach(g);
    guest_blob(g, 1, ARENA);
    guest_greet(g);
}

void guest_stop(struct guest *g)
{
    struct fixture f = g->f;
    struct fixture_context c = g->c;
    g->transport.fd = -1; /* the context's, which closes it */
    guest_close(g);
    fixture_close(&c);
    fixture_stop(&f);
}

void expect_bytes(struct guest *g, uint32_t buffer, uint64_t offset, uint64_t size, uint8_t value)
{
    assert_true(guest_run(g)); /* what is under way may read from there */
    memset(guest_bytes(g, 1), (uint8_t)~value, size);
    put_transfer(g, APIR_MSG_GET, 0, buffer, offset, size, 1, 0);
    if (!guest_run(g))
        fail_msg("get: %s", g->ring.header->reason);
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(guest_bytes(g, 1)[i], value);
}

/* ---- messages ----------------------------------------------------------------------- */

void put_copy(struct guest *g, uint32_t src_stream, uint32_t dst_stream, uint32_t src, uint32_t dst,
              uint64_t size)
{
    guest_put(g, &(struct apir_msg){.code = APIR_MSG_COPY,
                                    .u.copy = {.src_stream = src_stream,
                                               .dst_stream = dst_stream,
                                               .src_buffer = src,
                                               .dst_buffer = dst,
                                               .size = size}});
}

void put_event(struct guest *g, enum apir_msg_code code, uint32_t event, uint32_t stream)
{
    struct apir_msg m = {.code = code};
    m.u.event_record.event = event;
    if (code == APIR_MSG_EVENT_RECORD || code == APIR_MSG_EVENT_WAIT)
        m.u.event_record.stream = stream;
    guest_put(g, &m);
}

/* ---- graphs ------------------------------------------------------------------------- */

enum { T_TABLE, T_IDS, T_BESIDE, T_ROWS, T_SQUARE, T_COUNT };

struct apir_tensor tensor_at(uint8_t bits, uint16_t op, uint8_t type, uint64_t offset, int64_t ne0,
                             int64_t ne1, uint64_t size)
{
    struct apir_tensor t = sample_tensor((uint8_t)(bits | APIR_TENSOR_BUFFER), op);
    t.type = type;
    t.offset = offset;
    t.ne[0] = ne0;
    t.ne[1] = ne1;
    t.ne[2] = t.ne[3] = 1;
    t.nb[0] = size;
    t.nb[1] = size * (uint64_t)ne0;
    t.nb[2] = t.nb[3] = t.nb[1] * (uint64_t)ne1;
    return t;
}

struct apir_tensor node_at(uint16_t op, const char *name, uint64_t offset, int64_t ne0, int64_t ne1,
                           uint32_t src0, uint32_t src1)
{
    const uint8_t named = name ? APIR_TENSOR_NAMED : 0;
    struct apir_tensor t = tensor_at(APIR_TENSOR_NODE | named, op, 0, offset, ne0, ne1, 4);
    t.n_src = src1 == APIR_NO_TENSOR ? 1 : 2;
    t.src[0] = src0;
    t.src[1] = src1;
    if (name)
        snprintf(t.name, sizeof(t.name), "%s", name);
    return t;
}

size_t guest_graph(struct guest *g, const struct apir_graph *graph)
{
    const size_t size = graph_write(graph, guest_bytes(g, 1) + ARENA / 2, ARENA / 2);
    assert_true(size > 0);
    return size;
}

void put_graph(struct guest *g, uint32_t slot, const struct apir_graph *graph)
{
    put_define(g, slot, ARENA / 2, guest_graph(g, graph));
}

void put_lookup(struct guest *g, uint32_t slot, uint32_t buffer, uint32_t results, uint64_t ids_at,
                int64_t picks, uint64_t beside_at)
{
    static struct apir_name names[] = {{APIR_NAME_OP, "GET_ROWS"}, {APIR_NAME_OP, "SQR"}};
    struct apir_graph_buffer buffers[] = {{buffer, 1}, {results, 2}};
    struct apir_tensor t[T_COUNT];
    t[T_TABLE] = tensor_at(0, APIR_NO_NAME, 0, 0, LOOKUP_WIDTH, LOOKUP_ROWS, 4);
    t[T_IDS] = tensor_at(0, APIR_NO_NAME, 26, ids_at, picks, 1, 4);
    t[T_BESIDE] = tensor_at(0, APIR_NO_NAME, 0, beside_at, 4, 1, 4);
    t[T_ROWS] = node_at(0, NULL, 0, LOOKUP_WIDTH, picks, T_TABLE, T_IDS);
    t[T_SQUARE] = node_at(1, NULL, 32768, 4, 1, T_BESIDE, APIR_NO_TENSOR);
    t[T_ROWS].buffer = t[T_SQUARE].buffer = 1;
    put_graph(g, slot, &GRAPH(names, buffers, t, 2));
}
