/* SPDX-License-Identifier: Apache-2.0 */
/* What most options are judged by: the logits of a prompt and of tokens one by one. */
#include "tests/native/options/cases.h"
#include "tests/native/options/run.h"

enum {
    PROMPT = 150, /* more than a batch, so that the cache is written from several graphs */
    SINGLE = 24,
    GROWN = 130 /* past 256 positions the cache's views grow, and graphs are made anew */
};

void case_logits(struct run *r)
{
    run_open(r);
    feed(r->ctx, &r->record, "prompt", 0, 0, 0, PROMPT);
    feed_singly(r->ctx, &r->record, "single", 0, PROMPT, PROMPT, SINGLE);
    feed(r->ctx, &r->record, "more", 0, 1000, PROMPT + SINGLE, GROWN);
    feed_singly(r->ctx, &r->record, "last", 0, 2000, PROMPT + SINGLE + GROWN, 4);
}
