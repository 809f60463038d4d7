/* SPDX-License-Identifier: Apache-2.0 */
/* What the loop (loop.h) asks the system: which of its sources is ready, for as long as it is so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What a source is ready for. HUP: of a socket with IN, of a pipe once all of it has been read. */
#define SERVER_LOOP_IN  0x1u
#define SERVER_LOOP_OUT 0x4u
#define SERVER_LOOP_ERR 0x8u
#define SERVER_LOOP_HUP 0x10u

/* Embedded in its owner, which also owns the fd. {0} is a valid removed source. */
struct server_source {
    int fd;
    bool added;
    uint32_t events; /* SERVER_LOOP_HUP and SERVER_LOOP_ERR are always reported */
    void (*ready)(void *user, uint32_t events);
    void *user;
};

/* A set of sources, close-on-exec; or -errno. Closed by the caller. */
int server_ready_open(void);

/* The source's fields are the caller's to set, once that has worked. Returns 0 or -errno. */
int server_ready_add(int set, struct server_source *source, int fd, uint32_t events);
/* Of a source that was added; source->events is what was asked for until now. */
void server_ready_change(int set, struct server_source *source, uint32_t events);
void server_ready_remove(int set, const struct server_source *source);

/* One source that is ready, each in its turn, waited for timeout_ms at most (-1: for ever). Returns
 * 1, 0 (none, or a signal came) or -errno. */
int server_ready_wait(int set, int timeout_ms, struct server_source **ret_source,
                      uint32_t *ret_events);
