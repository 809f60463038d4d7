/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/share/mps.h"

#include <stdio.h>
#include <string.h>

#include "backend/config/mps.h"
#include "common/cleanup.h"
#include "common/log.h"

/* ---- the daemon ---------------------------------------------------------------- */

/* Where nobody computes through it, nobody has lost anything. */
static void mps_happened(struct server_mps *mps, enum server_mps_news news)
{
    static const char *const reasons[] = {
        [SERVER_MPS_FAULT] =
            "a program that shares the GPU with it through MPS had a fatal fault there",
        [SERVER_MPS_ENDED] = "the GPU's MPS server has ended",
    };
    const bool used = mps->group.used;
    if (used == (news == SERVER_MPS_USED))
        return;
    server_group_tell(&mps->group, news);
    if (news != SERVER_MPS_USED && mps->lost)
        mps->lost(mps->user, reasons[news]);
}

/* What the control daemon and its server say, in versions 550 to 580 of the driver. No client puts
 * text of its own into it. In other words, or none, workers end by the error that CUDA gives them.
 */
static const struct {
    const char *who, *does; /* in this order */
    enum server_mps_news news;
} mps_lines[] = {
    {"] Client {PID: ", "} connected", SERVER_MPS_USED},
    {"] Client {PID: ", "} encountered a fatal GPU error", SERVER_MPS_FAULT},
    {"] Server ", " exited with status ", SERVER_MPS_ENDED},
};

static void mps_said(void *user, const char *line)
{
    struct server_mps *mps = user;
    snprintf(mps->last, sizeof(mps->last), "%s", line);
    if (apir_log_enabled(APIR_LOG_INFO))
        apir_log_forward("MPS", line);
    for (size_t i = 0; i < sizeof(mps_lines) / sizeof(mps_lines[0]); i++) {
        const char *who = strstr(line, mps_lines[i].who);
        if (who && strstr(who, mps_lines[i].does))
            mps_happened(mps, mps_lines[i].news);
    }
}

static void mps_start(void *user);

static void mps_start_again(struct server_mps *mps)
{
    const int64_t now = server_now_ms();
    if (now - mps->started_ms >= SERVER_MPS_AGAIN_MAX_MS)
        mps->pause_ms = SERVER_MPS_AGAIN_MS;
    server_timer_arm(mps->children->loop, &mps->again, now + mps->pause_ms, mps_start, mps);
    mps->pause_ms *= 2;
    if (mps->pause_ms > SERVER_MPS_AGAIN_MAX_MS)
        mps->pause_ms = SERVER_MPS_AGAIN_MAX_MS;
}

static void mps_changed(void *user, enum server_child_change change, int status)
{
    struct server_mps *mps = user;
    if (change != SERVER_CHILD_EXITED && change != SERVER_CHILD_KILLED)
        return;
    server_output_close(&mps->output);
    server_group_clear(&mps->group);
    apir_log(APIR_LOG_WARN,
             "MPS's control daemon ended with %s %d, and with it all that computed through it; it "
             "is started again in %lld ms. Its last words: %s",
             change == SERVER_CHILD_KILLED ? "signal" : "status", status, (long long)mps->pause_ms,
             mps->last[0] ? mps->last : "none");
    mps_happened(mps, SERVER_MPS_ENDED);
    mps_start_again(mps);
}

/* Returns 0 or -errno. */
static int mps_daemon_start(struct server_mps *mps)
{
    const char *argv[] = {mps->program, "-f", NULL};
    cleanup_fd int theirs = -1;
    mps->last[0] = '\0';
    int rc = server_output_open(&mps->output, mps->children->loop, &mps->lines, "MPS", &theirs);
    if (rc < 0)
        return rc;
    mps->output.heard = mps_said;
    mps->output.apart = true;
    mps->output.user = mps;
    const struct server_child_spec spec = {
        .argv = argv, .is_worker = true, .output = theirs, .environment = mps->daemon_environment};
    mps->started_ms = server_now_ms();
    rc = server_child_start(mps->children, &mps->daemon, &spec, mps_changed, mps);
    if (rc < 0)
        server_output_close(&mps->output);
    return rc;
}

static void mps_start(void *user)
{
    struct server_mps *mps = user;
    int rc = mps_daemon_start(mps);
    if (rc < 0) {
        apir_log(APIR_LOG_WARN, "MPS's control daemon cannot be started: %s", strerror(-rc));
        mps_start_again(mps);
    }
}

static void mps_told(void *user, enum server_mps_news news)
{
    mps_happened(user, news);
}

static const struct server_group_events mps_group_events = {
    .own = mps_start,
    .told = mps_told,
};

/* ---- life ---------------------------------------------------------------------- */

static void mps_environments_make(struct server_mps *mps, const struct apir_config *config)
{
    snprintf(mps->pipe_variable, sizeof(mps->pipe_variable), APIR_MPS_FOLDER_VARIABLE "=%s",
             mps->group.folder);
    snprintf(mps->log_variable, sizeof(mps->log_variable), "CUDA_MPS_LOG_DIRECTORY=%s",
             mps->group.folder);
    /* An operator's own variable is for this server's daemon no more than for its workers. */
    snprintf(mps->percent_variable, sizeof(mps->percent_variable),
             config->context_gpu_percent < 100 ? "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%u"
                                               : "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
             config->context_gpu_percent);
    mps->daemon_environment[0] = mps->pipe_variable;
    mps->daemon_environment[1] = mps->log_variable;
    mps->worker_environment[0] = mps->pipe_variable;
    mps->worker_environment[1] = mps->percent_variable;
}

static int mps_begin(struct server_mps *mps, const struct apir_config *config,
                     struct apir_error *err)
{
    int rc = apir_config_mps_find(config, mps->program, sizeof(mps->program), err);
    if (rc == 0)
        rc = server_group_init(&mps->group, mps->children->loop, config->mps_group,
                               &mps_group_events, mps, err);
    if (rc < 0)
        return rc;
    mps_environments_make(mps, config);
    server_group_join(&mps->group);
    return 0;
}

int server_mps_init(struct server_mps *mps, struct server_children *children,
                    const struct apir_config *config, struct apir_error *err)
{
    *mps = (struct server_mps){.children = children, .pause_ms = SERVER_MPS_AGAIN_MS};
    if (config->mps == APIR_CONFIG_OFF)
        return 0;
    int rc = mps_begin(mps, config, err);
    if (rc == 0) {
        apir_log(APIR_LOG_INFO, "MPS: %s in %s, %u %% of a GPU for each context", mps->program,
                 mps->group.folder, config->context_gpu_percent);
        return 0;
    }
    server_group_fini(&mps->group);
    mps->worker_environment[0] = APIR_MPS_FOLDER_VARIABLE; /* another daemon's is not ours */
    if (config->mps == APIR_CONFIG_REQUIRED)
        return apir_error_wrap(err, rc, "no MPS, which the configuration requires");
    apir_log(APIR_LOG_WARN, "programs compute without MPS: %s", err->msg);
    return 0;
}

void server_mps_fini(struct server_mps *mps)
{
    if (!mps->children)
        return;
    server_timer_disarm(mps->children->loop, &mps->again);
    server_child_kill(&mps->daemon);
    server_child_forget(mps->children, &mps->daemon);
    server_output_close(&mps->output);
    server_group_fini(&mps->group);
    *mps = (struct server_mps){0};
}

void server_mps_watch(struct server_mps *mps, void (*lost)(void *user, const char *reason),
                      void *user)
{
    mps->lost = lost;
    mps->user = user;
}

const char *const *server_mps_environment(const struct server_mps *mps)
{
    return mps->worker_environment[0] ? mps->worker_environment : NULL;
}
