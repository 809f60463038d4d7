/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where faults are tried: a host, a client on it that computes without end and must never notice,
 * and a gate that holds a second client, or its worker, at a step.
 */
#ifndef APIR_FAULTS_STAGE_H
#define APIR_FAULTS_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/hostile/faults/census.h"
#include "tests/hostile/faults/gate.h"
#include "tests/hostile/faults/walk.h"

#define LIMIT_MS    2000 /* what is promised: half of the ends have it at least */
#define REACH_MS    ((int64_t)patient_ms(30000)) /* to a step, and to any end */
#define SETTLE_MS   patient_ms(5000)             /* until everything is as before */
#define STAGE_TIMES 4096

struct stage {
    struct host host;
    struct gate *gate;
    pid_t beat; /* the client that computes on */
    struct census before;
    char dir[32], limits_dir[64];
    char walk_program[256], walk_log[64], beat_log[64];
    char gate_setting[96], preload_setting[320], count_setting[96];
    int64_t ends[STAGE_TIMES], fresh[STAGE_TIMES]; /* us: a client's end; a new one's whole run */
    size_t n_ends, n_fresh;
    long passed, failed;
};

/* One thing that is tried, and the first reason why it failed. */
struct trial {
    char name[160];
    pid_t client;
    const char *why; /* NULL: it has not */
    char detail[128];
};

extern const char *const gate_point_names[GATE_N];

/* `members` of the configuration after the gate's own, "" or ", ..."; env: of server and workers.
 */
void stage_open(struct stage *s, const char *out, const char *members, const char *const env[]);
/* The same on lavapipe, through a layer with gates. */
void stage_open_gpu(struct stage *s, const char *out, const char *members);
/* Prints what was measured and counted; the exit status. */
int stage_close(struct stage *s, const char *name);
/* The host, the other client and the census, from the beginning. */
void stage_restart(struct stage *s);
void stage_beat_start(struct stage *s);
/* Computes on: two more results have come. */
bool stage_beat_goes_on(struct stage *s);

/* In a new epoch; point GATE_N: nothing is held. */
void stage_arm(struct stage *s, enum gate_point point, uint32_t skip, enum gate_action action);
void stage_release(struct stage *s);
/* The pid of who has come to the gate, or 0: nobody before the client's end. */
pid_t stage_held(struct stage *s, pid_t client);
/* A walk without anything; its calls are in gate->passes afterwards. */
void stage_rehearse(struct stage *s);

/* Whether clients that are started from now on take a long silence for a loss. Where they do not,
 * it is something else that tells them. */
void stage_silence(bool ends);
pid_t stage_client(struct stage *s, const char *what, const char *log);
void trial_blame(struct trial *t, const char *why, const char *detail);
/* The wait status of its client, -1: it hangs (and is killed, and the trial has failed). In time,
 * if since_us is not 0: then the time is kept. */
int trial_client_end(struct stage *s, struct trial *t, int64_t since_us);
/* The other one computes on, a new one works, nothing is left; then the line of the trial. */
void trial_finish(struct stage *s, struct trial *t);

#endif
