/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/peer.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

#define SCHEME "peer:"

bool peer_is(const struct option_side *side)
{
    return strncmp(side->device, SCHEME, strlen(SCHEME)) == 0;
}

void peer_open(struct peer *p, const struct option_side *side)
{
    int from, to, pid = 0;
    char end;
    const int n = sscanf(side->device, SCHEME "%d,%d,%d%c", &from, &to, &pid, &end);
    if ((n != 3 && sscanf(side->device, SCHEME "%d,%d%c", &from, &to, &end) != 2) || from < 0 ||
        to < 0 || pid < (n == 3))
        fail("--side %s=%s: give two open descriptors, to read from and to write to, such as "
             "peer:3,4, and behind them, if you like, the process that computes, such as "
             "peer:3,4,4711",
             side->name, side->device);
    signal(SIGPIPE, SIG_IGN);
    p->questions = to;
    p->computing = pid;
    p->answers = fdopen(from, "r");
    if (!p->answers)
        fail("--side %s=%s: %m", side->name, side->device);
}

/* Both ends make it of their own options, so that they cannot measure two things as one. */
struct question {
    char line[64];
};

static struct question question_of(const struct options *o)
{
    struct question q;
    snprintf(q.line, sizeof(q.line), "turn %d %d %d %d\n", o->pp, o->prompts, o->tg, o->settle);
    return q;
}

/* What `turn PP TG TOKEN...` says; `text` begins behind the word. */
static bool parse_turn(const char *text, int tg, struct turn *turn)
{
    char *end;
    turn->pp = strtod(text, &end);
    bool ok = end != text && isfinite(turn->pp) && turn->pp >= 0;
    text = end;
    turn->tg = strtod(text, &end);
    ok = ok && end != text && isfinite(turn->tg) && turn->tg >= 0;
    for (int i = 0; ok && i < tg; i++) {
        text = end;
        turn->tokens[i] = (int32_t)strtol(text, &end, 10);
        ok = end != text;
    }
    return ok && *end == '\n';
}

void peer_ask(struct peer *p, const struct options *o)
{
    if (dprintf(p->questions, "%s", question_of(o).line) < 0)
        fail("asking the peer for its turn: %m");
}

void peer_answer(struct peer *p, const struct options *o, struct turn *turn)
{
    cleanup_free char *line = NULL;
    size_t space = 0;
    errno = 0;
    if (getline(&line, &space, p->answers) < 0)
        fail("the peer's turn: %s", strerror(errno ? errno : EPIPE));
    if (strncmp(line, "turn ", 5) != 0 || !parse_turn(line + 5, o->tg, turn))
        fail("the peer: %.*s", (int)strcspn(line, "\n"), line);
}

void peer_close(struct peer *p)
{
    if (!p->answers)
        return;
    (void)dprintf(p->questions, "end\n");
    if (p->questions != fileno(p->answers))
        close(p->questions);
    fclose(p->answers);
    *p = (struct peer){0};
}

/* ---- the other end ------------------------------------------------------------------ */

/* Who asks knows nothing else of us. */
static void on_failure(const char *why)
{
    printf("error: %s\n", why);
}

static void serve(struct engine *e, const struct options *o)
{
    cleanup_free int32_t *tokens = allocate((size_t)o->tg + 1, sizeof(*tokens));
    cleanup_free char *line = NULL;
    size_t space = 0;
    struct turn turn = {.tokens = tokens};
    const struct question q = question_of(o);
    while (getline(&line, &space, stdin) > 0 && strcmp(line, "end\n") != 0) {
        if (strcmp(line, q.line) != 0)
            fail("asked for '%.*s', not for '%.*s'; give both ends the same --pp, --prompts, --tg "
                 "and --settle",
                 (int)strcspn(line, "\n"), line, (int)strcspn(q.line, "\n"), q.line);
        engine_turn(e, o, &turn);
        printf("turn %.9f %.9f", turn.pp, turn.tg);
        for (int i = 0; i < o->tg; i++)
            printf(" %d", turn.tokens[i]);
        putchar('\n');
        if (fflush(stdout) != 0)
            fail("answering: %m");
    }
}

void command_serve(const struct options *o)
{
    struct engine e;
    fail_hook = on_failure;
    engine_setup(o);
    engine_start(&e, o, &o->sides[0], o->model, o->pp > o->tg ? o->pp : o->tg);
    serve(&e, o);
    engine_fini(&e);
}
