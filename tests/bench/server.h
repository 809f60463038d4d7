/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A llama-server of one side, which listens on a socket of its own, and HTTP as far as it is wanted
 * there: a request for each connection. What goes wrong here ends this program (options.h).
 */
#ifndef APIR_BENCH_SERVER_H
#define APIR_BENCH_SERVER_H

#include <stddef.h>

#include "tests/bench/program.h"

enum { SERVER_WAIT_MS = 300000 }; /* for a server, and for any of its bytes */

struct server {
    struct program program;
    char path[96]; /* of its socket */
};

/* With `slots` slots of `context` tokens each, the --argument of the command line, and `more` (NULL
 * at its end). It is ready when this returns. */
void server_start(const struct options *o, struct server *s, const struct option_side *side,
                  int slots, int context, const char *const more[]);
void server_stop(struct server *s);

/* Sends a POST of JSON; returns the connection, where the answer will come. */
int server_post(const struct server *s, const char *path, const char *body, size_t size);
/* The same, and waits for all of the answer, which must be a 200. It is read and forgotten. */
void server_ask(const struct server *s, const char *path, const char *body);

#endif
