/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of the row's own, which stands where its user stands: at the socket of the VMM, in
 * libvirglrenderer's place, or at the one that listens for processes of this machine. The workers
 * are the real ones; a bystander's context lives there too (tests/lib/server_fixture.h,
 * unix_client.h do the talking).
 */
#ifndef APIR_TESTS_ATTACK_OWN_H
#define APIR_TESTS_ATTACK_OWN_H

#include "tests/hostile/attacks/attack.h"
#include "tests/lib/server_fixture.h"

struct own {
    struct fixture *f;
    struct guest bystander;
    size_t fds; /* the server's, with nobody there but the bystander */
    int log;    /* what the server and its workers print; -1: it is own_log */
};

/* Of those that are started from now on: the worker (NULL: the real one), and the descriptor that
 * is the server's log (0: a file of its own), which stays the caller's. */
extern const char *own_worker;
extern int own_log;

void own_start(struct own *o, bool listens);
/* With further members of the configuration, each after a comma. */
void own_start_with(struct own *o, bool listens, const char *more);
/* Nobody else has noticed, and nothing stays; then the server's end, which is an orderly one. */
void own_stop(struct own *o);
/* The bystander computes, with its own data. */
void own_look(struct own *o);

/* All that is in the log by now, as a text: the caller's to free. */
char *own_log_text(const struct own *o);

/* A context over the VMM's socket; contexts count from 1, which the bystander has. */
void own_context(struct own *o, struct fixture_context *c, uint32_t id);
/* Without INIT. */
void own_context_bare(struct own *o, struct fixture_context *c, uint32_t id);
/* A guest in it. */
void own_guest(struct own *o, struct guest *g, uint32_t id);
void own_context_end(struct own *o, struct fixture_context *c, uint32_t id);

/* A guest over the socket that listens. */
void own_unix_guest(struct guest *g);

/* A message with so many descriptors, however many that is. False: the kernel lets nobody send any
 * to this socket. */
bool offer_with(int sock, const void *data, size_t size, const int *fds, size_t n);
/* The same where that is not expected. */
void send_with(int sock, const void *data, size_t size, const int *fds, size_t n);

#endif
