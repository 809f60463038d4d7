/* SPDX-License-Identifier: Apache-2.0 */
/* Random steps with a context of libllama and its twin on the remote device. */
#ifndef APIR_DIFFER_LLAMA_STEPS_H
#define APIR_DIFFER_LLAMA_STEPS_H

#include <llama.h>

#include "tests/native/differ/differ.h"

enum { SEQUENCES_MAX = 4 };

/* Bytes of a state that was saved, by its own side. */
struct saved {
    uint8_t *data[SIDES];
    size_t size[SIDES];
};

struct twin {
    struct differ_random *r;
    struct llama_model *model[SIDES];
    struct llama_context *ctx[SIDES];
    struct llama_context_params params; /* of both */
    struct llama_batch batch;
    struct saved whole, sequence;
};

/* False: libllama makes no such context, on either side. */
bool twin_open(struct twin *t, struct differ_random *r, struct llama_model *const model[SIDES]);
void twin_close(struct twin *t);
/* One operation on both, and what it gives compared. */
void twin_step(struct twin *t);

#endif
