/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host side under test: a stock virgl_test_server in a VMM's place with our render server below
 * it, clients of it, and a census of what it holds. What does not work here ends the program (die).
 */
#ifndef APIR_FAULTS_HOST_H
#define APIR_FAULTS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int64_t now_us(void);
/* A short wait between two looks at a condition. */
void host_nap(void);
/* With the files in it; there are no folders. */
void folder_remove(const char *path);

/* ---- processes -------------------------------------------------------------------- */

struct process {
    pid_t pid;
    char state; /* R, S, T, Z ...; 0: there is none */
    char name[16];
};

enum { PROCESSES_MAX = 512 };

struct process process_look(pid_t pid);
/* The children of a process; returns how many. */
size_t process_children(pid_t parent, struct process all[PROCESSES_MAX]);

/*
 * Starts argv[0] with `env` (NAME=VALUE, up to NULL) added to the environment, stdin empty and both
 * outputs to the file `log` (NULL: nowhere). Ends with this program.
 */
pid_t process_start(const char *const argv[], const char *const env[], const char *log);
/* Its wait status once it has ended, or -1: it runs on after `limit_ms`. */
int process_end(pid_t pid, int64_t limit_ms);
/* Kills and reaps. */
void process_kill(pid_t pid);

/* ---- the host --------------------------------------------------------------------- */

enum { HOST_ENV_MAX = 8 };

struct host {
    const char *out;                      /* folder of what was built */
    const char *config;                   /* the backend's configuration, JSON */
    const char *runtime;                  /* a folder of the server's own files, or NULL */
    const char *env[HOST_ENV_MAX];        /* of server and workers; NULL: no more */
    const char *client_env[HOST_ENV_MAX]; /* filled by host_start */
    char dir[64];                         /* its own: socket, config, log */
    char socket[96];
    char log[96];
    pid_t vmm; /* 0: not running */
};

/* Makes dir on the first call; out, config and env are the caller's. */
void host_start(struct host *h);
/* Ends everything of it; host_start may follow. */
void host_stop(struct host *h);
/* Removes dir. */
void host_fini(struct host *h);

/* The render server below the VMM, or 0. */
pid_t host_server(const struct host *h);
/* Workers that live, by pid; returns how many. */
size_t host_workers(const struct host *h, pid_t all[PROCESSES_MAX]);

/* ---- what it holds ---------------------------------------------------------------- */

enum census_item {
    CENSUS_VMM_FDS,
    CENSUS_VMM_THREADS,
    CENSUS_VMM_BLOBS, /* mappings and descriptors of shared memory */
    CENSUS_SERVER_FDS,
    CENSUS_SERVER_THREADS,
    CENSUS_SERVER_BLOBS,
    CENSUS_WORKERS,
    CENSUS_ZOMBIES,
    CENSUS_FILES, /* in its folders and in /dev/shm */
    CENSUS_COUNTED,
    /* In KiB, and so not the same twice. */
    CENSUS_VMM_RSS = CENSUS_COUNTED,
    CENSUS_SERVER_RSS,
    CENSUS_ITEMS,
};

struct census {
    long value[CENSUS_ITEMS];
};

const char *census_name(enum census_item item);
void census_take(const struct host *h, struct census *ret_census);
/* The same once that many workers live and nothing has changed for a while. */
void census_settle(const struct host *h, long workers, struct census *ret_census);
/*
 * Waits for at most limit_ms until no counted item is above `before`. Returns how many too many
 * there are in all, each named on stderr after `what`.
 */
long census_leaks(const struct host *h, const struct census *before, int64_t limit_ms,
                  const char *what);

#endif
