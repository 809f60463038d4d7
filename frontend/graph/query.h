/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host says about an op (supported? offloaded? how many bytes?), asked
 * once per full signature: op, parameters, and type, shape and strides of the
 * result and of every source.
 */
#pragma once

#include "protocol/ggml_abi.h"
#include "protocol/messages.h"

struct plugin_device;

/* 0 with the answer, or -errno: the host is lost or the op cannot be expressed. */
int query_op(struct plugin_device *d, const struct gg_tensor *op,
             struct apir_reply_op_query *ret_answer);
