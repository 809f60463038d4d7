/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host: a stock virgl_test_server in a VMM's place with our render server below it, one of each
 * for all clients. What does not work here ends the program (die).
 */
#ifndef APIR_TEST_HOST_H
#define APIR_TEST_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/lib/folder.h"
#include "tests/lib/processes.h"

enum { HOST_ENV_MAX = 8 };

/* For env of a host whose clients ask for what it does not have: it has to refuse as malloc does.
 */
#define HOST_ASAN_OPTIONS "ASAN_OPTIONS=allocator_may_return_null=1"

struct host {
    const char *config;                   /* the backend's configuration, JSON */
    const char *runtime;                  /* a folder of the server's own files, or NULL */
    const char *env[HOST_ENV_MAX];        /* of server and workers; NULL: no more */
    const char *client_env[HOST_ENV_MAX]; /* filled by host_make */
    char dir[64];                         /* its own: socket, config, log */
    char socket[80];
    char log[80];
    char config_file[80];
    char transport[128], plugin[512]; /* what client_env says */
    pid_t vmm;                        /* 0: not running */
};

/* Makes dir and what is in it but the socket; config and env are read by host_start only. */
void host_make(struct host *h);
/* Returns once it listens. */
void host_start(struct host *h);
/* Ends everything of it; host_start may follow. */
void host_stop(struct host *h);
/* The same, and removes dir. */
void host_fini(struct host *h);

/* The render server below the VMM, or 0. */
pid_t host_server(const struct host *h);
/* Workers that live, by pid; returns how many. */
size_t host_workers(const struct host *h, pid_t all[PROCESSES_MAX]);

#endif
