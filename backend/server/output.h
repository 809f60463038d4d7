/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker prints: its own lines, and those of the host's ggml and its drivers. Each worker
 * has a pipe of its own for that, and the server writes what comes out of it to the log: cleaned,
 * cut, with the worker's name before it, and not more of it than there is room for. So a worker
 * under foreign control can neither fill the log, nor write in another's name, nor do anything to
 * the file, terminal or socket that the log is; and who reads the log, or no longer does, is
 * nothing to it.
 *
 * The worker's end does not block: what does not fit into its pipe is lost, and it goes on. Where
 * the log's level is debug, everything is wanted: nothing is left out, and it waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "backend/server/loop.h"
#include "backend/server/quota.h"

/* Lines per minute, of one worker and of all of a server; ten times as many where the log's level
 * is info. Empty ones count, and of a long one each SERVER_OUTPUT_LINE_MAX bytes. */
#define SERVER_OUTPUT_LINES     200u
#define SERVER_OUTPUT_LINES_ALL 2000u
#define SERVER_OUTPUT_LINE_MAX  400u /* bytes; longer ones are cut */

/* Of all workers of one server. */
struct server_outputs {
    struct server_quota lines;
};

/* Embedded in its owner. {0} is a valid closed one. */
struct server_output {
    struct server_loop *loop; /* NULL: closed */
    struct server_outputs *all;
    struct server_source source;
    struct server_timer resume; /* armed: it has said too much, and is not read until then */
    struct server_quota lines;
    char who[32];
    void (*heard)(void *user, const char *line); /* every line, cut and cleaned; NULL: nobody */
    /* For who listens alone: none is logged, and however many there are, all are read. */
    bool apart;
    void *user;
    int fd;
    size_t len; /* of a line that has come in part */
    size_t cut; /* bytes that are left out of it */
    char line[SERVER_OUTPUT_LINE_MAX + 1];
};

/* Opens the pipe and reads it from now on. *ret_fd is the worker's end, the caller's. Returns 0 or
 * -errno. */
int server_output_open(struct server_output *output, struct server_loop *loop,
                       struct server_outputs *all, const char *who, int *ret_fd);
/* What has come by now goes to the log; heard() gets each line from here on, cleaned, beside it. */
void server_output_hear(struct server_output *output, void (*heard)(void *user, const char *line),
                        void *user);
/* `to`, which is closed, takes it over under another name, for what comes from now on; nobody
 * listens any more. */
void server_output_move(struct server_output *from, struct server_output *to, const char *who);
/* What has come by now goes to the log. Does nothing on a closed one. */
void server_output_close(struct server_output *output);
