/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of graphs: questions about what is not to be computed, and those that compute. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/worker/graph.h"
#include "backend/worker/handlers.h"
#include "backend/worker/stream.h"
#include "backend/worker/table.h"
#include "common/cleanup.h"
#include "common/log.h"

/* What the extra types do with the node: as a weight, or as the op that one is used in. */
static void query_extras(struct worker *w, const struct host_device *d, struct gg_tensor *node,
                         struct apir_reply_op_query *reply)
{
    const char *op = w->ggml.ops.name[node->op];
    const bool product = (strcmp(op, "MUL_MAT") == 0 || strcmp(op, "MUL_MAT_ID") == 0) &&
                         node->src[0] && node->src[0]->op == 0 && !node->src[0]->view_src;
    for (uint32_t i = 0; i < d->n_extras; i++) {
        if (product && host_extra_takes(&w->ggml, d, i, node->src[0]) &&
            host_extra_supported(&w->ggml, d, i, node))
            reply->extras |= 1u << i;
        if (node->op == 0 && host_extra_takes(&w->ggml, d, i, node)) {
            reply->extras |= 1u << i;
            reply->extra_sizes[i] = host_tensor_alloc_size(&w->ggml, d->extras[i], node);
        }
    }
}

/* An op that breaks the rules is not supported. NULL with *ret_reply, or the reason for FATAL. */
static const char *query(struct worker *w, uint32_t device, const void *payload, uint64_t size,
                         struct apir_reply_op_query *ret_reply)
{
    struct apir_graph wire;
    const char *why = NULL;
    *ret_reply = (struct apir_reply_op_query){.status = APIR_OK};
    int rc = apir_graph_decode(payload, size, &wire, &why);
    if (rc == -EBADMSG)
        return why;
    if (rc || wire.n_tensors > 64) {
        ret_reply->status = APIR_E_NOMEM;
        if (!rc)
            apir_graph_fini(&wire);
        return NULL;
    }
    struct gg_tensor tensors[64];
    struct worker_outcome out = {0};
    worker_tensors_imagine(w, &wire, device, tensors, &out);
    /* A question that no graph may become: the answer is no, and the guest computes it. */
    if (out.fatal) {
        apir_log(APIR_LOG_DEBUG, "%s is not supported: %s",
                 apir_graph_op_name(&wire, &wire.tensors[wire.n_tensors - 1]), out.fatal);
        out = (struct worker_outcome){.status = APIR_E_UNSUPPORTED};
    }
    if (!out.status) {
        const struct host_device *d = &w->ggml.devices[device];
        /* The asked one is last: everything it refers to comes before it. */
        const struct gg_tensor *node = &tensors[wire.n_tensors - 1];
        if (worker_op_is_view(w, node->op) || host_tensor_supported(&w->ggml, d, node))
            ret_reply->flags |= APIR_OP_SUPPORTED;
        if (host_tensor_offload(&w->ggml, d, node))
            ret_reply->flags |= APIR_OP_OFFLOAD;
        ret_reply->alloc_size = host_tensor_alloc_size(&w->ggml, d->buft, node);
        query_extras(w, d, &tensors[wire.n_tensors - 1], ret_reply);
    }
    apir_graph_fini(&wire);
    return NULL;
}

/* The nodes of an imagined graph in their wire order, and what ggml counts by. */
static uint32_t nodes_list(const struct apir_graph *wire, const struct gg_tensor *tensors,
                           uint32_t *nodes, uint32_t *counts)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < wire->n_tensors; i++) {
        counts[i] = wire->tensors[i].use_count;
        if ((wire->tensors[i].bits & APIR_TENSOR_NODE) && tensors[i].op != 0)
            nodes[n++] = i;
    }
    return n;
}

static void optimize_imagined(struct worker *w, void *stream, const struct apir_graph *wire,
                              struct gg_tensor *tensors, uint32_t *scratch, uint64_t out_size,
                              struct host_dep *deps, struct apir_reply_optimize *r)
{
    uint32_t *nodes = scratch, *counts = scratch + wire->n_tensors;
    uint32_t n = nodes_list(wire, tensors, nodes, counts);
    struct host_graph graph;
    uint64_t order_size = (uint64_t)n * sizeof(uint32_t);
    r->status = APIR_E_FAILED;
    /* A node without an op is not in ggml's list: the guest could not place it. */
    if (n != wire->n_nodes || order_size > out_size ||
        host_graph_build(&w->ggml, tensors, wire->n_tensors, nodes, n, counts, &graph) < 0)
        return;
    uint64_t room = (out_size - order_size) / sizeof(struct host_dep);
    uint32_t max_deps = room < wire->n_tensors ? (uint32_t)room : wire->n_tensors;
    int n_deps = host_graph_optimize(&w->ggml, stream, &graph, tensors, wire->n_tensors, n, nodes,
                                     deps, max_deps);
    host_graph_fini(&w->ggml, &graph);
    if (n_deps < 0)
        return;
    r->status = APIR_OK;
    r->n_nodes = n;
    r->n_deps = (uint32_t)n_deps;
}

/* As query(); to `out`, in shared memory, what GRAPH_OPTIMIZE promises. */
static const char *optimize(struct worker *w, const struct worker_stream *s, const void *payload,
                            uint64_t size, void *out, uint64_t out_size,
                            struct apir_reply_optimize *ret_reply)
{
    struct apir_graph wire;
    const char *why = NULL;
    *ret_reply = (struct apir_reply_optimize){.status = APIR_E_NOMEM};
    int rc = apir_graph_decode(payload, size, &wire, &why);
    if (rc)
        return rc == -EBADMSG ? why : NULL;
    struct gg_tensor *tensors = calloc(wire.n_tensors, sizeof(*tensors));
    uint32_t *scratch = malloc(2 * (size_t)wire.n_tensors * sizeof(*scratch));
    struct host_dep *deps = malloc(wire.n_tensors * sizeof(*deps));
    struct worker_outcome found = {0};
    if (tensors && scratch && deps) {
        worker_tensors_imagine(w, &wire, s->device, tensors, &found);
        /* Nothing is computed here, so what breaks a rule does no harm: it keeps its order. */
        ret_reply->status = found.fatal ? APIR_E_UNSUPPORTED : found.status;
        if (ret_reply->status == APIR_OK)
            optimize_imagined(w, s->host, &wire, tensors, scratch, out_size, deps, ret_reply);
        if (ret_reply->status == APIR_OK) {
            memcpy(out, scratch, ret_reply->n_nodes * sizeof(uint32_t));
            memcpy((uint8_t *)out + ret_reply->n_nodes * sizeof(uint32_t), deps,
                   ret_reply->n_deps * sizeof(*deps));
        }
    }
    free(tensors);
    free(scratch);
    free(deps);
    apir_graph_fini(&wire);
    return NULL;
}

const char *worker_op_query(struct worker *w, const struct apir_msg_op_query *m)
{
    if (m->device >= w->ggml.n_devices)
        return worker_bad_device;
    cleanup_free void *copy = NULL;
    const char *why = worker_payload_copy(w, m->blob, m->blob_offset, m->size, &copy);
    if (why)
        return why;
    struct apir_reply_op_query r = {.status = APIR_E_NOMEM};
    if (copy)
        why = query(w, m->device, copy, m->size, &r);
    return why ? why : worker_answer(w, m->reply, &r, sizeof(r));
}

const char *worker_graph_optimize(struct worker *w, const struct apir_msg_graph_optimize *m)
{
    const struct worker_stream *s = &w->streams[m->stream];
    if (!s->host)
        return worker_bad_stream;
    if (!host_stream_optimizes(&w->ggml, s->host))
        return "this stream has no graph_optimize";
    void *out = worker_region(w, m->blob, m->out_offset, m->out_size);
    if (!out)
        return worker_bad_region;
    cleanup_free void *copy = NULL;
    const char *why = worker_payload_copy(w, m->blob, m->blob_offset, m->size, &copy);
    if (why)
        return why;
    struct apir_reply_optimize r = {.status = APIR_E_NOMEM};
    if (copy)
        why = optimize(w, s, copy, m->size, out, m->out_size, &r);
    return why ? why : worker_answer(w, m->reply, &r, sizeof(r));
}

/* ---- to be computed ------------------------------------------------------------ */

const char *worker_graph_def(struct worker *w, const struct apir_msg_graph_def *m)
{
    const struct worker_stream *s = &w->streams[m->stream];
    if (!s->host)
        return worker_bad_stream;
    cleanup_free void *copy = NULL;
    const char *why = worker_payload_copy(w, m->blob, m->blob_offset, m->size, &copy);
    if (why)
        return why;
    worker_streams_settle(w);
    struct worker_slot *slot = &w->slots[m->slot];
    if (copy)
        return worker_slot_define(w, slot, s->device, copy, m->size);
    worker_slot_clear(w, slot);
    worker_slot_break(slot, APIR_E_NOMEM, "the host has no memory for a graph");
    return NULL;
}

/* As the status of the slot's computation, with why[APIR_WHY_SIZE]. */
static uint32_t exec_compute(struct worker *w, struct worker_stream *s, struct worker_slot *slot,
                             char *why)
{
    const int rc = worker_stream_compute(w, s, &slot->graph);
    if (w->control_err) {
        snprintf(why, APIR_WHY_SIZE, "the host's server is gone");
        return APIR_E_FAILED;
    }
    if (rc == GG_STATUS_SUCCESS)
        return APIR_OK;
    const char *op, *name;
    worker_slot_last(slot, &op, &name);
    snprintf(why, APIR_WHY_SIZE, "%.32s %s (%d), in the graph that ends with %.32s '%.40s'",
             w->ggml.devices[s->device].name,
             rc == GG_STATUS_ALLOC_FAILED ? "is out of memory" : "reports an error", rc, op, name);
    return rc == GG_STATUS_ALLOC_FAILED ? APIR_E_NOMEM : APIR_E_FAILED;
}

const char *worker_graph_exec(struct worker *w, const struct apir_msg_graph_exec *m)
{
    struct worker_stream *s = &w->streams[m->stream];
    struct worker_slot *slot = &w->slots[m->slot];
    if (!s->host)
        return worker_bad_stream;
    if (slot->state == SLOT_EMPTY)
        return "graph slot is not defined";
    if (slot->state == SLOT_BROKEN) {
        worker_stream_fail(w, s, slot->status, slot->why);
        return NULL;
    }
    if (slot->device != s->device)
        return "graph slot is of another device";
    char why[APIR_WHY_SIZE];
    if (slot->n_indices) {
        /* What they are read from may still be written by work before. */
        const char *fatal = worker_stream_settle(w, m->stream);
        if (fatal)
            return fatal;
        if (!worker_slot_indices_ok(slot, why)) {
            worker_stream_fail(w, s, APIR_E_FAILED, why);
            return NULL;
        }
    }
    uint32_t status = exec_compute(w, s, slot, why);
    if (status != APIR_OK)
        worker_stream_fail(w, s, status, why);
    return NULL;
}

const char *worker_graph_drop(struct worker *w, const struct apir_msg_graph_drop *m)
{
    worker_streams_settle(w);
    worker_slot_clear(w, &w->slots[m->slot]);
    return NULL;
}
