/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/server/memory.h"
#include "backend/server/page.h"
#include "protocol/atomic.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fdsock.h"

#define WORKER_STATUS_SIZE SERVER_PAGE_SIZE
_Static_assert(sizeof(struct apir_worker_status) <= WORKER_STATUS_SIZE, "one page");

static void server_worker_stopped(void *user)
{
    struct server_worker *worker = user;
    worker->is_blameless = true;
    worker->events->failed(worker->user, "worker was stopped and not continued");
}

/* A driver may hang while it is loaded, and hold a GPU all the while. */
static void server_worker_late(void *user)
{
    struct server_worker *worker = user;
    char reason[APIR_REASON_MAX];
    if (apir_load_acquire32(&worker->status->ready))
        return;
    snprintf(reason, sizeof(reason),
             "worker took longer to start than the host allows (seconds_to_start: %u)",
             worker->seconds_to_start);
    worker->is_late = true;
    worker->events->failed(worker->user, reason);
}

static void server_worker_failed(void *user, const char *reason)
{
    const struct server_worker *worker = user;
    worker->events->failed(worker->user, reason);
}

static void server_worker_refused(void *user, const char *why)
{
    const struct server_worker *worker = user;
    if (worker->events->refused)
        worker->events->refused(worker->user, why);
}

static void server_worker_count(struct server_worker *worker)
{
    const uint64_t now_ns = apir_now_ns();
    server_counts_read(&worker->counts, &worker->status->counts, now_ns, worker->counted_from_ns);
}

/* Its account ends with its process. */
static void server_worker_leave_account(struct server_worker *worker)
{
    if (worker->account) {
        server_turns_leave(&worker->account->turn);
        server_account_leave(worker->account, &worker->child);
    }
    worker->account = NULL;
}

static void server_worker_changed(void *user, enum server_child_change change, int status)
{
    struct server_worker *worker = user;
    char reason[APIR_REASON_MAX];
    switch (change) {
    case SERVER_CHILD_STOPPED:
        server_timer_arm(worker->children->loop, &worker->stopped,
                         server_now_ms() + SERVER_WORKER_STOPPED_MS, server_worker_stopped, worker);
        return;
    case SERVER_CHILD_CONTINUED:
        server_timer_disarm(worker->children->loop, &worker->stopped);
        return;
    case SERVER_CHILD_KILLED:
        if ((status == SERVER_CHILD_STARVED || status == SIGKILL) && !worker->is_late)
            worker->is_blameless = true;
        if (status == SERVER_CHILD_STARVED) {
            snprintf(reason, sizeof(reason),
                     "worker took more main memory than it may have, and was killed by the kernel");
            break;
        }
        snprintf(reason, sizeof(reason), "worker killed by signal %d%s", status,
                 status == SIGSYS ? " (its sandbox forbids a system call)" : "");
        break;
    case SERVER_CHILD_EXITED:
        snprintf(reason, sizeof(reason), "worker exited with status %d", status);
        break;
    }
    server_timer_disarm(worker->children->loop, &worker->stopped);
    server_timer_disarm(worker->children->loop, &worker->late);
    server_worker_leave_account(worker);
    server_worker_count(worker);          /* for the last time */
    server_output_close(&worker->output); /* its last words come before that it has ended */
    worker->events->gone(worker->user, reason);
}

/* Everything a worker is started with; what is left here is closed at the end. */
struct worker_fds {
    int control[2]; /* ours, the worker's */
    int status, spin, output;
    int turns; /* -1: classes take none */
};

static void server_worker_close_fds(struct worker_fds *fds)
{
    for (int i = 0; i < 2; i++)
        apir_close_fd(&fds->control[i]);
    apir_close_fd(&fds->status);
    apir_close_fd(&fds->spin);
    apir_close_fd(&fds->turns);
    apir_close_fd(&fds->output);
}

static int server_worker_open_fds(struct worker_fds *fds, const struct server_worker_setup *setup)
{
    int rc = apir_fdsock_pair(false, &fds->control[0], &fds->control[1]);
    if (rc < 0)
        return rc;
    /* Our end closes nothing of a worker's (backend/server/closer.h). An older kernel's worker has
     * no call that sends any. */
    (void)apir_fdsock_refuse(fds->control[0]);
    fds->spin = server_spin_share(setup->spin);
    if (fds->spin < 0)
        return fds->spin;
    fds->turns = setup->turns ? server_turns_share(setup->turns) : -1;
    fds->status = server_memory_create("apir-status", WORKER_STATUS_SIZE);
    if (fds->status < 0)
        return fds->status;
    return server_memory_reserve(fds->status, WORKER_STATUS_SIZE);
}

/* What the worker asks for is this context's from now on. Returns 0 or -errno. */
static int account_open(struct server_worker *worker, const struct server_worker_setup *setup)
{
    worker->account = server_account_create(setup->accounts, setup->children, setup->owner);
    if (!worker->account)
        return -ENOMEM;
    if (setup->turns)
        server_turns_join(setup->turns, &worker->account->turn, worker->status);
    return server_account_serve(worker->account, worker->control_fd, server_worker_failed,
                                server_worker_refused, worker);
}

/* Starts the process; what is set up before it is in *worker. Returns 0 or -errno. */
static int child_start(struct server_worker *worker, const struct server_worker_setup *setup,
                       const struct worker_fds *fds)
{
    struct server_children *children = setup->children;
    char slot[16];
    snprintf(slot, sizeof(slot), "%u", worker->spin_slot);
    const char *argv[16 + SERVER_LEFT_OUT_ARGS + 1] = {setup->path, "--spin-slot", slot};
    size_t end = 3;
    if (server_limits_any(&setup->accounts->limits))
        argv[end++] = "--limited";
    if (fds->turns >= 0)
        argv[end++] = "--turns";
    if (setup->config_path) {
        argv[end++] = "--config";
        argv[end++] = setup->config_path;
    }
    end += server_left_out_args(setup->left_out, &argv[end]);
    if (setup->spare)
        argv[end++] = setup->tries ? "--try-devices" : "--spare";
    argv[end] = NULL;
    /* enum apir_worker_fd */
    const int child_fds[] = {fds->control[1], fds->status, fds->spin, fds->turns};
    const struct server_child_spec spec = {.argv = argv,
                                           .fds = child_fds,
                                           .n_fds = fds->turns >= 0 ? 4 : 3,
                                           .is_worker = true,
                                           .in_group = true,
                                           .output = fds->output};
    int rc = setup->spare ? 0 : account_open(worker, setup);
    if (rc == 0)
        rc = server_child_start(children, &worker->child, &spec, server_worker_changed, worker);
    return rc;
}

int server_worker_start(struct server_worker *worker, const struct server_worker_setup *setup,
                        struct apir_error *err)
{
    struct server_children *children = setup->children;
    const char *path = setup->path;
    struct worker_fds fds __attribute__((cleanup(server_worker_close_fds))) = {
        .control = {-1, -1}, .status = -1, .spin = -1, .output = -1, .turns = -1};
    if (access(path, X_OK) < 0)
        return apir_error_sys(err, errno, "cannot start the worker %s", path);
    int rc = server_worker_open_fds(&fds, setup);
    if (rc < 0)
        return apir_error_sys(err, -rc, "cannot make the worker's descriptors");
    void *page = NULL;
    rc = server_page_map(fds.status, &page);
    if (rc < 0)
        return apir_error_sys(err, -rc, "cannot map the worker's status page");

    *worker = (struct server_worker){
        .children = children,
        .events = setup->events,
        .user = setup->user,
        .control_fd = steal_fd(&fds.control[0]),
        .status = page,
        .spin = setup->spin,
        .spin_slot = server_spin_take(setup->spin),
        .seconds_to_start = setup->accounts->limits.config->seconds_to_start,
        .counted_from_ns = apir_now_ns(),
    };
    /* Where there may be no more pipes, it speaks to nobody. */
    if (server_output_open(&worker->output, children->loop, setup->outputs, setup->who,
                           &fds.output) < 0)
        fds.output = open("/dev/null", O_WRONLY | O_CLOEXEC);
    rc = fds.output < 0 ? -errno : child_start(worker, setup, &fds);
    if (rc < 0) {
        server_worker_fini(worker);
        return apir_error_sys(err, -rc, "cannot start the worker %s", path);
    }
    if (worker->seconds_to_start)
        server_timer_arm(children->loop, &worker->late,
                         server_now_ms() + (int64_t)worker->seconds_to_start * 1000,
                         server_worker_late, worker);
    return 0;
}

bool server_worker_ready(const struct server_worker *worker)
{
    return server_worker_alive(worker) && apir_load_acquire32(&worker->status->ready);
}

const struct server_counts *server_worker_counts(struct server_worker *worker)
{
    if (server_worker_alive(worker))
        server_worker_count(worker);
    return worker->status ? &worker->counts : NULL;
}

bool server_worker_waits(const struct server_worker *worker)
{
    return server_worker_ready(worker) && !worker->stopped.armed;
}

int server_worker_take(struct server_worker *worker, struct server_worker *spare,
                       const struct server_worker_setup *setup)
{
    *worker = (struct server_worker){
        .children = spare->children,
        .events = setup->events,
        .user = setup->user,
        .control_fd = spare->control_fd,
        .status = spare->status,
        .spin = spare->spin,
        .spin_slot = spare->spin_slot,
        .counted_from_ns = apir_now_ns(),
    };
    int rc = account_open(worker, setup);
    if (rc < 0) {
        server_worker_leave_account(worker);
        *worker = (struct server_worker){0};
        return rc;
    }
    server_child_move(spare->children, &spare->child, &worker->child, server_worker_changed,
                      worker);
    server_output_move(&spare->output, &worker->output, setup->who);
    /* It is ready: there is nothing to be late with. */
    server_timer_disarm(spare->children->loop, &spare->late);
    *spare = (struct server_worker){0};
    return 0;
}

void server_worker_fini(struct server_worker *worker)
{
    if (!worker->status)
        return;
    server_worker_kill(worker);
    server_worker_leave_account(worker);
    server_child_forget(worker->children, &worker->child);
    server_spin_give(worker->spin, worker->spin_slot);
    server_timer_disarm(worker->children->loop, &worker->stopped);
    server_timer_disarm(worker->children->loop, &worker->late);
    apir_close_fd(&worker->control_fd);
    server_output_close(&worker->output);
    server_page_unmap(worker->status);
    *worker = (struct server_worker){0};
}

void server_worker_kill(struct server_worker *worker)
{
    server_child_kill(&worker->child);
}

bool server_worker_alive(const struct server_worker *worker)
{
    return worker->child.pid > 0;
}

void server_worker_note_shm(struct server_worker *worker, uint64_t bytes)
{
    if (worker->account)
        worker->account->shm_bytes = bytes;
}

static int server_worker_send(struct server_worker *worker, const struct apir_control *control,
                              int fd)
{
    if (!worker->status)
        return -EPIPE;
    return apir_fdsock_send(worker->control_fd, control, sizeof(*control), &fd, fd >= 0 ? 1 : 0);
}

int server_worker_add_blob(struct server_worker *worker, uint32_t blob_id, uint64_t size, int fd)
{
    const struct apir_control control = {
        .op = APIR_CONTROL_ADD_BLOB,
        .blob_id = blob_id,
        .size = size,
    };
    return server_worker_send(worker, &control, fd);
}

int server_worker_del_blob(struct server_worker *worker, uint32_t blob_id)
{
    const struct apir_control control = {.op = APIR_CONTROL_DEL_BLOB, .blob_id = blob_id};
    return server_worker_send(worker, &control, -1);
}

bool server_worker_busy(const struct server_worker *worker, uint64_t *ret_at)
{
    /* Not one moment for both: what a message between them looks like, the next look corrects. */
    const struct apir_worker_status *status = worker->status;
    const uint64_t head = status ? apir_load_acquire64(&status->head) : 0;
    const uint64_t taken = status ? apir_load_acquire64(&status->taken) : 0;
    /* Neither of the two ever goes back: the sum stays only where both do. */
    *ret_at = head + (status ? apir_load_acquire64(&status->progress) : 0);
    /* While it waits for us, or for others, it is not at work. */
    return taken != head && !(worker->account && (worker->account->waiting.op != 0 ||
                                                  server_turns_waits(&worker->account->turn)));
}
