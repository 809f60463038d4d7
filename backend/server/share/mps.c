/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "backend/server/share/mps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/config/mps.h"
#include "common/cleanup.h"
#include "common/log.h"

#define MPS_FOLDER "apir-mps-" /* and six letters */
#define MPS_LOCK   "apir.lock"

/* ---- folders ------------------------------------------------------------------- */

/* What is in the folder goes, but for `keep` (NULL: nothing is kept). The daemon makes no folders.
 */
static void mps_folder_empty(int folder_fd, const char *keep)
{
    const int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            (!keep || strcmp(e->d_name, keep) != 0))
            (void)unlinkat(folder_fd, e->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* That of a server which was killed: its lock is free. Names of others in a folder that all may
 * write are not touched: it must be this user's, and closed to others. */
static void mps_folder_remove_left(int base_fd, const char *name)
{
    cleanup_fd int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
        return;
    cleanup_fd int lock_fd = openat(fd, MPS_LOCK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        return;
    mps_folder_empty(fd, NULL);
    (void)unlinkat(base_fd, name, AT_REMOVEDIR);
}

static void mps_folders_remove_left(const char *base)
{
    DIR *dir = opendir(base);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, MPS_FOLDER, strlen(MPS_FOLDER)) == 0)
            mps_folder_remove_left(dirfd(dir), e->d_name);
    }
    if (dir)
        closedir(dir);
}

/* In the folder of this user's session, or in /tmp, which systemd gives a service for itself. */
static int mps_folder_make(struct server_mps *mps, struct apir_error *err)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (!base || base[0] != '/' || strlen(base) > SERVER_MPS_FOLDER_MAX - 32 ||
        stat(base, &st) < 0 || st.st_uid != geteuid())
        base = "/tmp";
    mps_folders_remove_left(base);
    snprintf(mps->folder, sizeof(mps->folder), "%s/" MPS_FOLDER "XXXXXX", base);
    if (!mkdtemp(mps->folder)) {
        mps->folder[0] = '\0';
        return apir_error_sys(err, errno, "no folder in %s", base);
    }
    char path[SERVER_MPS_FOLDER_MAX + 16];
    snprintf(path, sizeof(path), "%s/" MPS_LOCK, mps->folder);
    mps->lock_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (mps->lock_fd < 0 || flock(mps->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return apir_error_sys(err, errno, "%s", path);
    return 0;
}

/* What an ended daemon leaves: a worker would take it for one that is there. */
static void mps_folder_clear(const struct server_mps *mps)
{
    cleanup_fd int fd = open(mps->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        mps_folder_empty(fd, MPS_LOCK);
}

static void mps_folder_remove(struct server_mps *mps)
{
    if (mps->folder[0]) {
        cleanup_fd int fd = open(mps->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            mps_folder_empty(fd, NULL);
        (void)rmdir(mps->folder);
        mps->folder[0] = '\0';
    }
    apir_close_fd(&mps->lock_fd);
}

/* ---- the daemon ---------------------------------------------------------------- */

/* Where nobody computes through it, nobody has lost anything. */
static void mps_lose(struct server_mps *mps, const char *reason)
{
    const bool used = mps->used;
    mps->used = false;
    if (used && mps->lost)
        mps->lost(mps->user, reason);
}

/* What the control daemon and its server say, in versions 550 to 580 of the driver. No client puts
 * text of its own into it. In other words, or none, workers end by the error that CUDA gives them.
 */
static const struct {
    const char *words;
    const char *reason; /* NULL: somebody computes through MPS from now on */
} mps_lines[] = {
    {"Starting new server ", NULL},
    {"] Client {PID: ", NULL},
    {" encountered a fatal GPU error",
     "a program that shares the GPU with it through MPS had a fatal fault there"},
    {" exited with status ", "the GPU's MPS server has ended"},
};

static void mps_said(void *user, const char *line)
{
    struct server_mps *mps = user;
    snprintf(mps->last, sizeof(mps->last), "%s", line);
    if (apir_log_enabled(APIR_LOG_INFO))
        apir_log_forward("MPS", line);
    for (size_t i = 0; i < sizeof(mps_lines) / sizeof(mps_lines[0]); i++) {
        if (!strstr(line, mps_lines[i].words))
            continue;
        if (mps_lines[i].reason)
            mps_lose(mps, mps_lines[i].reason);
        else
            mps->used = true;
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
    mps_folder_clear(mps);
    apir_log(APIR_LOG_WARN,
             "MPS's control daemon ended with %s %d, and with it all that computed through it; it "
             "is started again in %lld ms. Its last words: %s",
             change == SERVER_CHILD_KILLED ? "signal" : "status", status, (long long)mps->pause_ms,
             mps->last[0] ? mps->last : "none");
    mps_lose(mps, "the GPU's MPS server has ended");
    mps_start_again(mps);
}

/* Returns 0 or -errno. */
static int mps_daemon_start(struct server_mps *mps)
{
    const char *argv[] = {mps->program, "-f", NULL};
    int theirs = -1;
    mps->last[0] = '\0';
    int rc = server_output_open(&mps->output, mps->children->loop, &mps->lines, "MPS", &theirs);
    if (rc < 0)
        return rc;
    mps->output.said = mps_said;
    mps->output.user = mps;
    const struct server_child_spec spec = {
        .argv = argv, .is_worker = true, .output = theirs, .environment = mps->daemon_environment};
    mps->started_ms = server_now_ms();
    rc = server_child_start(mps->children, &mps->daemon, &spec, mps_changed, mps);
    close(theirs);
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

/* ---- life ---------------------------------------------------------------------- */

static void mps_environments_make(struct server_mps *mps, const struct apir_config *config)
{
    snprintf(mps->pipe_variable, sizeof(mps->pipe_variable), APIR_MPS_FOLDER_VARIABLE "=%s",
             mps->folder);
    snprintf(mps->log_variable, sizeof(mps->log_variable), "CUDA_MPS_LOG_DIRECTORY=%s",
             mps->folder);
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
        rc = mps_folder_make(mps, err);
    if (rc < 0)
        return rc;
    mps_environments_make(mps, config);
    rc = mps_daemon_start(mps);
    return rc < 0 ? apir_error_sys(err, -rc, "%s", mps->program) : 0;
}

int server_mps_init(struct server_mps *mps, struct server_children *children,
                    const struct apir_config *config, struct apir_error *err)
{
    *mps =
        (struct server_mps){.children = children, .lock_fd = -1, .pause_ms = SERVER_MPS_AGAIN_MS};
    if (config->mps == APIR_CONFIG_MPS_OFF)
        return 0;
    int rc = mps_begin(mps, config, err);
    if (rc == 0) {
        apir_log(APIR_LOG_INFO, "MPS: %s in %s, %u %% of a GPU for each context", mps->program,
                 mps->folder, config->context_gpu_percent);
        return 0;
    }
    mps_folder_remove(mps);
    mps->worker_environment[0] = APIR_MPS_FOLDER_VARIABLE; /* another daemon's is not ours */
    if (config->mps == APIR_CONFIG_MPS_REQUIRED)
        return apir_error_wrap(err, "no MPS, which the configuration requires");
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
    mps_folder_remove(mps);
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
