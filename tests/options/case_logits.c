/* SPDX-License-Identifier: Apache-2.0 */
/* What most options are judged by: the logits of a prompt and of tokens one by one. */
#include "tests/options/cases.h"
#include "tests/options/run.h"

enum {
    PROMPT = 150, /* more than a batch, so that the cache is written from several graphs */
    SINGLE = 24,
    GROWN = 130 /* past 256 positions the cache's views grow, and graphs are made anew */
};

int case_logits(struct run *r)
{
    struct setup s;
    struct pair p;

    setup_case(&s, r);
    if (pair_init(&p, r, &s) < 0)
        return -1;
    int err = feed(p.ctx, &r->record, "prompt", 0, 0, 0, PROMPT);
    if (!err)
        err = feed_singly(p.ctx, &r->record, "single", 0, PROMPT, PROMPT, SINGLE);
    if (!err)
        err = feed(p.ctx, &r->record, "more", 0, 1000, PROMPT + SINGLE, GROWN);
    if (!err)
        err = feed_singly(p.ctx, &r->record, "last", 0, 2000, PROMPT + SINGLE + GROWN, 4);
    pair_fini(&p);
    return err;
}
