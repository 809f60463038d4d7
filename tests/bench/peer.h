/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A side that another apir-bench runs, on another machine or the other side of a VM: both take
 * turns, although they cannot be one process. The two speak in lines, over whatever descriptors
 * they are given; who asks is the one that measures, and who answers (`apir-bench serve`) does
 * nothing in between:
 *
 *   turn PROMPT PROMPTS TOKENS SETTLE   do a turn; refused unless these are your own options
 *   turn PP TG TOKEN...                 done: seconds of prompt and generation, tokens that it
 * chose error: TEXT                         not done, and never will be end end; nothing is
 * answered
 */
#ifndef APIR_BENCH_PEER_H
#define APIR_BENCH_PEER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "tests/bench/engine.h"

struct peer {
    FILE *answers;
    int questions;
    pid_t computing; /* the process, with all below it, that computes for this side; 0: not said */
};

/*
 * Whether the side is one, by its device's name: peer:R,W, two open descriptors or one, twice; or
 * peer:R,W,PID, with the process that computes, as far as it is on this machine.
 */
bool peer_is(const struct option_side *side);

/* Takes the descriptors over, and SIGPIPE away: a peer that is gone is an error. Errors end the
 * program, as below. */
void peer_open(struct peer *p, const struct option_side *side);
/* Has a turn done, and waits for it. `turn->tokens` has room for as many as the options say. */
void peer_ask(struct peer *p, const struct options *o);
void peer_answer(struct peer *p, const struct options *o, struct turn *turn);
/* Tells it to end. p may be closed, or all zero. */
void peer_close(struct peer *p);

#endif
