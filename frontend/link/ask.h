/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the host, the first of which is HELLO, and messages that want no answer. */
#pragma once

#include "frontend/link/client.h"

/* Connects and says HELLO. 0 or -errno with *err (-ENODEV: nothing to talk to). */
int client_open(struct client *c, const char *transport_choice, struct apir_error *err);

/*
 * Where a question lies and where its answer is to come is filled into msg here, by pointers to
 * those fields.
 */
struct client_question {
    struct apir_msg *msg;
    uint32_t *reply;
    void *answer; /* answer_size bytes of the reply */
    size_t answer_size;
    /* Bytes that go along; NULL: none. */
    const void *payload;
    uint64_t size, *offset;
    /* Bytes that come back beside the reply; NULL: none. */
    void *out;
    uint64_t out_size, *out_offset;
};

/* Asks and waits. 0, -ENODEV: lost, or -ENOMEM: more than the arena has. Without the lock. */
int client_ask(struct client *c, const struct client_question *q);

/* The same without further bytes: 0 or -ENODEV. */
int client_call(struct client *c, struct apir_msg *msg, uint32_t *reply_field, void *answer,
                size_t size);

/* Puts a message that wants no answer on the ring, for the next flush. Returns its position, 0:
 * lost. */
uint64_t client_send(struct client *c, const struct apir_msg *msg);
