/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host says about an op (supported? offloaded? how many bytes?), asked
 * once per full signature: op, parameters, and type, shape and strides of the
 * result and of every source.
 */
#ifndef APIR_FRONTEND_QUERY_H
#define APIR_FRONTEND_QUERY_H

#include <stdint.h>

#include "protocol/ggml_abi.h"
#include "protocol/messages.h"

#define QUERY_ENTRIES 8192u

struct query_entry {
    uint64_t hash;
    uint32_t key_size;
    uint8_t *key; /* owned; NULL: free */
    struct apir_reply_op_query answer;
};

struct query_cache {
    struct query_entry *entries; /* QUERY_ENTRIES, made on first use */
    uint32_t used;
};

struct plugin_device;

/* 0 with the answer, or -errno: the host is lost or the op cannot be expressed. */
int query_op(struct plugin_device *d, const struct gg_tensor *op,
             struct apir_reply_op_query *ret_answer);

/* FNV-like over 8 bytes at a time; not cryptographic, keys are compared in full. */
uint64_t query_hash(const void *data, uint64_t size);

#endif
