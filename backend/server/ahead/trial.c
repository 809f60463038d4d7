/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ahead/trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/fdsock.h"
#include "common/log.h"
#include "common/text.h"

/* ---- how it ends ------------------------------------------------------------ */

void server_trial_fini(struct server_trial *trial)
{
    server_loop_remove(trial->setup.children->loop, &trial->source);
    server_worker_fini(&trial->worker);
}

static void trial_end(struct server_trial *trial, enum server_trial_state state, const char *reason)
{
    trial->state = state;
    trial->not_before_ms = server_now_ms() + trial->pause_ms;
    trial->over(trial->user, reason);
    server_trial_fini(trial);
}

static void trial_end_without(struct server_trial *trial)
{
    server_left_out_tell(&trial->left_out, trial->reason, sizeof(trial->reason));
    apir_log(APIR_LOG_ERROR, "%s; nothing is left to be offered, and it is tried again in %lld s",
             trial->reason, (long long)trial->pause_ms / 1000);
    trial_end(trial, SERVER_TRIAL_NONE, trial->reason);
}

static void trial_undecided(struct server_trial *trial, const char *why)
{
    apir_log(APIR_LOG_WARN, "the trial of the devices has no result: %s", why);
    /* Who hangs in a driver's start would do so again: a context is told at once. Else a worker of
     * its own can tell it more. */
    trial_end(trial, SERVER_TRIAL_UNDECIDED, *trial->failed ? trial->failed : NULL);
}

/* ---- one process ------------------------------------------------------------ */

static int trial_start(struct server_trial *trial);

static void trial_again(struct server_trial *trial)
{
    server_trial_fini(trial);
    if (trial_start(trial) < 0)
        trial_end(trial, SERVER_TRIAL_UNDECIDED, NULL);
}

static void trial_begin(struct server_trial *trial)
{
    trial->config = server_config_file_now(trial->setup.config_path);
    trial->left_out.n = 0;
    trial->state = SERVER_TRIAL_RUNS;
}

/* The device that it was at has ended it, or kept it from going on. */
static void trial_blame(struct server_trial *trial, const char *how)
{
    struct server_left_out *out = &trial->left_out;
    /* A driver that hangs may have said this and that. */
    const bool spoke = *trial->words && !*trial->failed;
    const char *why = spoke ? trial->words : how;
    _Static_assert(sizeof(out->devices[0].name) == sizeof(trial->device), "a device's name");
    memcpy(out->devices[out->n].name, trial->device, sizeof(trial->device));
    snprintf(out->devices[out->n].why, sizeof(out->devices[0].why), "%.*s",
             (int)sizeof(out->devices[0].why) - 1, why);
    apir_text_clean(out->devices[out->n].why);
    apir_log(APIR_LOG_WARN, "device %s is left out: it " APIR_CANNOT_COMPUTE ": %s%s%s",
             trial->device, out->devices[out->n].why, spoke ? "; " : "", spoke ? how : "");
    if (++out->n == APIR_CONFIG_DEVICES_MAX)
        trial_end_without(trial);
    else
        trial_again(trial);
}

static void trial_passed(struct server_trial *trial)
{
    const struct server_config_file now = server_config_file_now(trial->setup.config_path);
    if (server_config_file_same(&trial->config, &now)) {
        trial_end(trial, SERVER_TRIAL_PASSED, NULL);
    } else {
        trial_begin(trial);
        trial_again(trial);
    }
}

/* What it prints while it is at a device, ggml's own words. What comes first says most: a trace of
 * calls may follow. */
static void trial_heard(void *user, const char *line)
{
    struct server_trial *trial = user;
    const size_t used = strlen(trial->words);
    if (strncmp(line, "ggml: ", 6) == 0)
        line += 6;
    line += strspn(line, " ");
    snprintf(trial->words + used, sizeof(trial->words) - used, "%s%s", used && *line ? "; " : "",
             line);
}

static void trial_answer(struct server_trial *trial)
{
    const struct apir_control_answer answer = {.op = APIR_CONTROL_ANSWER};
    /* One that does not take it is ending, or hangs: both are noticed. */
    (void)apir_fdsock_send(trial->worker.control_fd, &answer, sizeof(answer), NULL, 0);
}

/* Of a process that has read nothing of a guest's; checked all the same. False: it is nonsense. */
static bool trial_told(struct server_trial *trial, const struct apir_ask *ask)
{
    if (ask->op == APIR_ASK_TRIED && ask->size <= APIR_CONFIG_DEVICES_MAX) {
        trial->device[0] = '\0';
        trial->nothing_left = ask->size == 0;
        return true;
    }
    if (ask->op != APIR_ASK_TRY || !ask->device[0] ||
        !memchr(ask->device, '\0', sizeof(ask->device)))
        return false;
    memcpy(trial->device, ask->device, sizeof(trial->device));
    apir_text_clean(trial->device);
    trial->words[0] = '\0';
    server_output_hear(&trial->worker.output, trial_heard, trial);
    trial_answer(trial);
    return true;
}

/* Returns what it has told last, or 0: nothing more for now. */
static uint32_t trial_read(struct server_trial *trial)
{
    struct apir_ask ask;
    size_t size = 0;
    int rc = apir_fdsock_recv(trial->worker.control_fd, &ask, sizeof(ask), &size, NULL, 0, NULL,
                              MSG_DONTWAIT);
    if (rc == -EAGAIN)
        return 0;
    if (rc == 0 && size == sizeof(ask) && trial_told(trial, &ask))
        return ask.op;
    /* Its end, which SIGCHLD tells of, or nonsense, after which there is nothing to be read. */
    server_loop_remove(trial->setup.children->loop, &trial->source);
    if (rc == 0 && size)
        server_worker_kill(&trial->worker);
    return 0;
}

static void trial_ready(void *user, uint32_t events)
{
    struct server_trial *trial = user;
    (void)events;
    if (trial_read(trial) != APIR_ASK_TRIED)
        return;
    if (trial->nothing_left)
        trial_end_without(trial);
    else
        trial_passed(trial);
}

static void trial_failed(void *user, const char *reason)
{
    struct server_trial *trial = user;
    snprintf(trial->failed, sizeof(trial->failed), "%s", reason);
    server_worker_kill(&trial->worker);
}

static void trial_gone(void *user, const char *reason)
{
    struct server_trial *trial = user;
    const char *how = *trial->failed ? trial->failed : reason;
    while (trial->source.added && trial_read(trial)) {
    }
    if (trial->nothing_left)
        trial_end_without(trial);
    else if (*trial->device && !trial->worker.is_blameless)
        trial_blame(trial, how);
    else
        trial_undecided(trial, how);
}

static const struct server_worker_events trial_events = {
    .failed = trial_failed,
    .gone = trial_gone,
};

static int trial_start(struct server_trial *trial)
{
    struct apir_error err = {0};
    trial->device[0] = trial->words[0] = trial->failed[0] = '\0';
    trial->nothing_left = false;
    int rc = server_worker_start(&trial->worker, &trial->setup, &err);
    if (rc == 0)
        rc = server_loop_add(trial->setup.children->loop, &trial->source, trial->worker.control_fd,
                             SERVER_LOOP_IN, trial_ready, trial);
    if (rc < 0)
        apir_log(APIR_LOG_WARN, "the devices cannot be tried: %s",
                 *err.msg ? err.msg : strerror(-rc));
    return rc;
}

/* ---- for contexts ----------------------------------------------------------- */

void server_trial_init(struct server_trial *trial, const struct server_worker_setup *setup,
                       const struct apir_config *config,
                       void (*over)(void *user, const char *reason), void *user)
{
    *trial = (struct server_trial){
        .setup = *setup,
        .pause_ms = config->spare_seconds < SERVER_TRIAL_AGAIN_SECONDS
                        ? (int64_t)config->spare_seconds * 1000
                        : (int64_t)SERVER_TRIAL_AGAIN_SECONDS * 1000,
        .over = over,
        .user = user,
    };
    trial->setup.spare = true;
    trial->setup.tries = true;
    trial->setup.left_out = &trial->left_out;
    trial->setup.who = "first worker";
    trial->setup.events = &trial_events;
    trial->setup.user = trial;
}

enum server_trial_state server_trial_ask(struct server_trial *trial)
{
    const struct server_config_file now = server_config_file_now(trial->setup.config_path);
    const bool same = server_config_file_same(&trial->config, &now);
    const bool may_again =
        trial->state == SERVER_TRIAL_NONE || trial->state == SERVER_TRIAL_UNDECIDED;
    if (trial->state != SERVER_TRIAL_NEVER && same &&
        !(may_again && server_now_ms() >= trial->not_before_ms))
        return trial->state;
    server_trial_fini(trial);
    trial_begin(trial);
    if (trial_start(trial) < 0) {
        server_trial_fini(trial);
        trial->state = SERVER_TRIAL_UNDECIDED;
        trial->not_before_ms = server_now_ms() + trial->pause_ms;
    }
    return trial->state;
}

bool server_trial_holds(const struct server_trial *trial)
{
    const struct server_config_file now = server_config_file_now(trial->setup.config_path);
    return (trial->state == SERVER_TRIAL_PASSED || trial->state == SERVER_TRIAL_UNDECIDED) &&
           server_config_file_same(&trial->config, &now);
}

bool server_trial_take(struct server_trial *trial, struct server_worker *worker,
                       const struct server_worker_setup *setup)
{
    if (!server_worker_waits(&trial->worker))
        return false;
    server_loop_remove(trial->setup.children->loop, &trial->source);
    return server_worker_take(worker, &trial->worker, setup) == 0;
}
