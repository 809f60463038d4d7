/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stock virgl_test_server with our server, as one VMM has them for all its containers, and
 * somebody who works there and wants to notice nothing of any attack.
 */
#ifndef APIR_TESTS_ATTACK_WATCH_H
#define APIR_TESTS_ATTACK_WATCH_H

#include <sys/types.h>

#include "tests/hostile/attacks/attack.h"
#include "tests/lib/host.h"

struct watch {
    struct host host;
    pid_t server; /* the host's */
    long log_seen;
    int vmm_fds, server_fds; /* with nobody there but the bystander */
};

/* Starts it, and a bystander's context. Ends the program where that does not work. */
void watch_start(struct watch *w, struct guest *bystander);
void watch_stop(struct watch *w, struct guest *bystander);

/*
 * After a row: the VMM and the server are the same processes, without a descriptor more than
 * before; only the bystander's worker is left; the log has no report of a sanitizer and no worker's
 * death; the bystander has its data and computes; so does somebody new. NULL, or what is
 * wrong: static text, valid until the next call.
 */
const char *watch_check(struct watch *w, struct guest *bystander, unsigned flags);

/* ---- for rows: of the host that they attack ---- */

/* The worker that was started last. */
pid_t host_worker(void);
/* Waits until the log has a line with this text that was not there before the row; refused() with
 * it. */
void host_said(const char *text);

#endif
