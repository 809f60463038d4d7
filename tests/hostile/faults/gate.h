/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate in a process of somebody else's, so that a test can act at a step of its choice: in the
 * worker before a call of its host's ggml (gate_ggml.c, which the configuration names as "ggml"),
 * in a client before a call of the plug-in's for its transport (gate_client.c, preloaded). The page
 * is a file that GATE_ENV names and all of them map; without it nothing is ever held.
 */
#ifndef APIR_FAULTS_GATE_H
#define APIR_FAULTS_GATE_H

#include <stdbool.h>
#include <stdint.h>

#define GATE_ENV "APIR_GATE"

/* P(NAME, what the host is doing) */
#define GATE_POINTS(P)                                                                             \
    P(LOAD, "loading drivers")                                                                     \
    P(MEMORY, "asking for free memory")                                                            \
    P(SUPPORTS, "a question about an op")                                                          \
    P(OPEN, "opening a stream")                                                                    \
    P(ALLOC, "allocating a buffer")                                                                \
    P(CLEAR, "clearing a buffer")                                                                  \
    P(INIT, "defining a graph")                                                                    \
    P(SET, "writing a tensor")                                                                     \
    P(MEMSET, "filling a tensor")                                                                  \
    P(COMPUTE, "starting a graph")                                                                 \
    P(SYNC, "waiting for a graph")                                                                 \
    P(GET, "reading a tensor")                                                                     \
    P(COPY, "copying a tensor")                                                                    \
    P(FREE, "freeing a buffer")                                                                    \
    P(CLOSE, "closing a stream")                                                                   \
    P(SUBMIT, "giving work to the GPU")                                                            \
    P(MEMORY_NEW, "asking the driver for memory")                                                  \
    P(CLIENT, "a call of the client's transport")

enum gate_point {
#define P(NAME, what) GATE_##NAME,
    GATE_POINTS(P)
#undef P
        GATE_N,
};

enum gate_action {
    GATE_HOLD = 1, /* until `go` */
    GATE_FAIL,     /* the call fails, where it can */
    GATE_FAIL_ON,  /* and all that follow, until the client disarms it */
    GATE_ABORT,    /* as C++ ends a program whose exception nobody catches */
};

struct gate {
    uint32_t epoch;  /* processes that began in another one pass */
    uint32_t armed;  /* gate_point + 1; 0: nothing; who takes it is held */
    uint32_t skip;   /* so many calls pass before */
    uint32_t action; /* gate_action */
    uint32_t held;   /* pid of who is held, or has failed */
    uint32_t go;
    uint32_t passes[GATE_N]; /* in this epoch */
    uint32_t beats;          /* right results of the client that nothing is done to */
};

/* In the process: maps the page once; NULL: there is none. */
struct gate *gate_open(void);
/* At a point; returns when the caller may go on. True: the call is to fail. */
bool gate_fails(enum gate_point point);
/* Where a call has no way to fail. */
static inline void gate_pass(enum gate_point point)
{
    (void)gate_fails(point);
}

#endif
