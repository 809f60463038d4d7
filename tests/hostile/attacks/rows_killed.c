/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGKILL, at every step of a run: to the guest's process, its worker, the server, the VMM. A real
 * client's steps, and much more that may go wrong, are tests/hostile/faults.
 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attacks/sheet.h"

static const char *const steps[] = {
    "with its ring",      "behind HELLO",      "with buffers",          "with a graph",
    "while it transfers", "while it computes", "while a graph is read", "with half a message",
};
#define N_STEPS (N(steps))

static void put_many(struct guest *g, size_t step)
{
    struct sheet s;
    sheet_square(&s);
    size_t size = sheet_write(g, &s);
    for (int i = 0; i < 2000; i++) {
        if (step == 4)
            put_transfer(g, APIR_MSG_GET, 0, 3, 0, MEMORY, 1, ARENA / 2);
        else if (step == 5)
            put_exec(g, 0);
        else
            put_define(g, 1, 0, size);
    }
    guest_flush(g);
}

/* Goes as far as that. */
static void walk(struct guest *g, size_t step)
{
    guest_connect(g);
    if (step == 1)
        guest_greet(g);
    if (step < 2)
        return;
    guest_fill(g, ARENA);
    if (step < 3)
        return;
    square_runs(g);
    if (step >= 4 && step <= 6)
        put_many(g, step);
    if (step == 7) { /* written, not shown */
        const struct apir_msg_header half = {.code = APIR_MSG_GRAPH_EXEC, .size = 16};
        guest_put_bytes(g, &half, sizeof(half));
    }
}

/* ---- the guest's process ----------------------------------------------------------------- */

static void guest_killed(void)
{
    for (size_t step = 0; step < N_STEPS; step++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            struct guest g;
            walk(&g, step);
            raise(SIGKILL);
        }
        WANT(waitpid(pid, &status, 0) == pid);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            not_stopped("a guest %s, in its honest form, has ended by itself", steps[step]);
    }
    refused("at %zu steps; the kernel closes its socket", N_STEPS);
}

/* ---- the worker -------------------------------------------------------------------------- */

static void worker_killed(void)
{
    for (size_t step = 0; step < N_STEPS; step++) {
        struct guest g;
        walk(&g, step);
        WANT(kill(host_worker(), SIGKILL) == 0);
        if (!SOON(guest_state(&g) == APIR_STATE_LOST) ||
            !strstr(guest_reason(&g), "killed by signal 9"))
            not_stopped("%s: state %u: %s", steps[step], guest_state(&g), guest_reason(&g));
        refused("%s", guest_reason(&g));
        guest_close(&g);
    }
}

/* ---- the server and the VMM, of a host of the row's own ---------------------------------- */

static void wait_gone(pid_t pid, const char *who, size_t step)
{
    if (!SOON(!process_lives(pid)))
        not_stopped("%s: %s lives on", steps[step], who);
}

static void host_part_killed(bool the_vmm)
{
    for (size_t step = 0; step < N_STEPS; step++) {
        struct watch watch;
        struct guest bystander, g;
        watch_start(&watch, &bystander);
        walk(&g, step);
        pid_t worker = host_worker();
        WANT(kill(the_vmm ? watch.host.vmm : watch.server, SIGKILL) == 0);
        wait_gone(worker, "the worker", step);
        wait_gone(watch.server, "the server", step);
        if (the_vmm)
            wait_gone(watch.host.vmm, "the VMM", step);
        else if (!process_lives(watch.host.vmm))
            not_stopped("%s: the VMM went with the server", steps[step]);
        guest_close(&g);
        watch_stop(&watch, &bystander);
    }
    refused("at %zu steps; its workers end with it", N_STEPS);
}

static void server_killed(void)
{
    host_part_killed(false);
}

static void vmm_killed(void)
{
    host_part_killed(true);
}

const struct attack_row attack_rows_killed[] = {
    {"killed-guest", "SIGKILL of the guest's process at every step", guest_killed, 0, 0},
    {"killed-worker", "SIGKILL of the worker at every step", worker_killed, ATTACK_ENDS_WORKER, 0},
    {"killed-server", "SIGKILL of the server at every step", server_killed, 0, 0},
    {"killed-vmm", "SIGKILL of the VMM at every step", vmm_killed, 0, 0},
    {0},
};
