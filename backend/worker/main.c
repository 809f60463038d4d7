/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-worker: computes for one context. Started by apir-render-server with
 * these descriptors and nothing else:
 *
 *   control  SEQPACKET: the server adds and removes shared memory (shm.h)
 *   status   memfd: one page shared with the server only
 *   spin     memfd: one page shared with the server's other workers (backend/server/spin.h)
 *   turns    memfd, only where classes take turns: one page to read (backend/worker/turn.h)
 *
 * The main thread reads the ring and calls ggml; ggml and its drivers start
 * threads of their own. Whatever goes wrong in them, abort() included, ends this
 * process and nothing else: the server marks the ring LOST.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/config/config.h"
#include "backend/worker/blob.h"
#include "backend/worker/control.h"
#include "backend/worker/dispatch.h"
#include "backend/worker/mps.h"
#include "backend/worker/stream.h"
#include "backend/worker/system.h"
#include "backend/worker/trial.h"
#include "backend/worker/sandbox/files.h"
#include "backend/worker/sandbox/sandbox.h"
#include "backend/worker/shaders/fill.h"
#include "protocol/atomic.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/parent.h"

/*
 * How long we look for the next message before we sleep: twice what the client
 * has lately taken between its calls (sampling, tokenising), so that a client in
 * full swing never pays for a wake-up; and little, once it takes so long that
 * looking would only burn a core. Little is still more than one wake-up costs.
 */
#define SPIN_MIN_NS 200000u
#define SPIN_GAP_NS 3000000u
/* Then we look whether the server is still there: mostly its end is ours. */
#define SLEEP_NS 5000000000u
/* Messages between two looks at the control socket: who is busy does not sleep, and the server
 * gives up on a worker whose socket is full. */
#define CONTROL_EVERY 32u

/* exit codes, seen in the server's log */
enum {
    EXIT_OK = 0,    /* the server closed the control socket */
    EXIT_SETUP = 1, /* the reason is on stderr and in the ring */
    EXIT_FATAL = 3, /* a malformed message */
};

static struct apir_ring_header *header(struct worker *w)
{
    return (struct apir_ring_header *)(void *)w->blobs[APIR_RING_BLOB_ID].map;
}

/* Tells the server and the client what is done. */
static void show_progress(struct worker *w)
{
    apir_store_release64(&w->status->head, w->ring.head);
    (void)apir_ring_host_show(&w->ring);
}

/* Both turn the one word around (protocol/shm.h). */
static void work_begins(struct worker *w, uint64_t now)
{
    uint64_t *work = &w->status->counts.work;
    apir_store_relaxed64(work, APIR_AT_WORK | (now - *work));
}

static void work_pauses(struct worker *w, uint64_t now)
{
    uint64_t *work = &w->status->counts.work;
    apir_store_relaxed64(work, now - (*work & ~APIR_AT_WORK));
    w->pause_ns = now;
}

/* The client was away since pause_ns, and has sent something. */
static void gap_note(struct worker *w)
{
    const uint64_t now = apir_now_ns();
    uint64_t gap = now - w->pause_ns;
    work_begins(w, now);
    w->pause_ns = 0;
    if (gap > 2 * SPIN_GAP_NS)
        gap = 2 * SPIN_GAP_NS; /* one long pause says little about the next gap */
    w->gap_ns = w->gap_ns - w->gap_ns / 8 + gap / 8;
}

static bool work_is_there(const struct worker *w)
{
    return apir_load_acquire64(&w->ring.header->tail) != w->ring.head;
}

/* Looks for work for as long as it is likely to come soon. True: it is there. */
static bool look_for_work(struct worker *w)
{
    const uint64_t window = w->gap_ns > SPIN_GAP_NS ? SPIN_MIN_NS : 2 * w->gap_ns + SPIN_MIN_NS;
    uint64_t now = apir_now_ns();
    bool found = false;
    if (apir_crowd_there(&w->crowd, now) || !worker_spin_begin(&w->spin))
        return work_is_there(w);
    const uint64_t until = now + window;
    do {
        const uint64_t before = now;
        for (int i = 0; i < 64 && !found; i++) {
            apir_cpu_relax();
            found = work_is_there(w);
        }
        /* Where cores are scarce the client may need this one to send anything. */
        if (!found)
            sched_yield();
        now = apir_now_ns();
        if (w->one_kernel && apir_crowd_note(&w->crowd, before, now))
            break;
    } while (!found && now < until);
    worker_spin_end(&w->spin);
    return found;
}

/* Sleeps until the guest or the server wakes us. Returns 0 or -errno. */
static int wait_for_work(struct worker *w)
{
    int rc = 0;
    if (!w->pause_ns)
        work_pauses(w, apir_now_ns());
    if (!look_for_work(w)) {
        /* Others may want the device; and nobody can tell when the client comes for its results. */
        if (w->turns && w->status->turns_held)
            worker_streams_settle(w);
        if (apir_ring_host_prepare_sleep(&w->ring)) {
            /* What the server has sent while we were busy; from here on it wakes us. */
            do {
                rc = worker_control_drain(w);
                worker_blobs_reap(w);
            } while (!rc && !apir_ring_host_sleep(&w->ring, SLEEP_NS));
        }
        apir_ring_host_awake(&w->ring);
    }
    return rc;
}

/* What the context has asked for, and how long that took. */
static void stats_log(const struct worker *w)
{
    const struct apir_worker_counts *counts = &w->status->counts;
    for (unsigned i = 0; i < APIR_COUNTED_CODES; i++) {
        if (counts->messages[i].count)
            apir_log(APIR_LOG_INFO, "%-14s %9llu times, %9.3f us each", apir_msg_name(i),
                     (unsigned long long)counts->messages[i].count,
                     (double)counts->messages[i].ns / (double)counts->messages[i].count / 1000.0);
    }
}

/* Once it is done. No clock is read here: that would be a part of what a small message costs. */
static void message_count(struct worker *w, const struct apir_msg *msg)
{
    struct apir_worker_counts *counts = &w->status->counts;
    if (msg->code < APIR_COUNTED_CODES)
        worker_count(&counts->messages[msg->code].count, 1);
    if (msg->code == APIR_MSG_SET_INLINE)
        worker_count(&counts->set_bytes, msg->u.set_inline.size);
    else if (msg->code == APIR_MSG_SET)
        worker_count(&counts->set_bytes, msg->u.set.size);
    else if (msg->code == APIR_MSG_SET_2D)
        worker_count(&counts->set_bytes, msg->u.set_2d.size * msg->u.set_2d.count);
    else if (msg->code == APIR_MSG_GET)
        worker_count(&counts->got_bytes, msg->u.get.size);
    else if (msg->code == APIR_MSG_GET_2D)
        worker_count(&counts->got_bytes, msg->u.get_2d.size * msg->u.get_2d.count);
}

/* At the log's level info: one that began then, of that many bytes, is done. */
static void message_time(struct worker *w, const struct apir_msg *msg, uint64_t began, size_t size)
{
    const uint64_t took = apir_now_ns() - began;
    if (msg->code < APIR_COUNTED_CODES)
        worker_count(&w->status->counts.messages[msg->code].ns, took);
    apir_log(APIR_LOG_DEBUG, "%12llu ns %s for %llu ns, %zu bytes", (unsigned long long)began,
             apir_msg_name(msg->code), (unsigned long long)took, size);
    /* The last thing heard of an orderly client: the server kills us next. */
    if (msg->code == APIR_MSG_STREAM_CLOSE)
        stats_log(w);
}

/* How we end once the control socket has. */
static int control_ended(int err)
{
    if (err == -EPIPE)
        return EXIT_OK;
    apir_log(APIR_LOG_ERROR, "control socket: %s", strerror(-err));
    return EXIT_SETUP;
}

/* Serves the ring until the server hangs up (0) or the context is FATAL. */
static int serve(struct worker *w)
{
    bool timed = apir_log_enabled(APIR_LOG_INFO);
    work_begins(w, apir_now_ns());
    for (uint32_t n = 1;; n++) {
        size_t size = 0;
        int rc = n % CONTROL_EVERY ? 0 : worker_control_drain(w);
        if (rc)
            return control_ended(rc);
        worker_blobs_reap(w);
        rc = apir_ring_host_take(&w->ring, w->message, sizeof(w->message), &size);
        if (rc == -EAGAIN) {
            rc = wait_for_work(w);
            if (rc)
                return control_ended(rc);
            continue;
        }
        if (w->pause_ns)
            gap_note(w);
        struct apir_msg msg;
        const char *why = "ring offsets make no sense";
        const char *what = "ring";
        if (!rc) {
            rc = apir_msg_decode(w->message, size, w->state, &msg, &why);
            struct apir_msg_header h;
            memcpy(&h, w->message, sizeof(h));
            what = apir_msg_name(h.code);
        }
        if (!rc) {
            if (msg.code != APIR_MSG_SET_INLINE)
                show_progress(w); /* this one may take long */
            /* From here on the server counts seconds_per_graph. */
            apir_store_release64(&w->status->taken, w->ring.head + size);
            uint64_t began = timed ? apir_now_ns() : 0;
            why = worker_dispatch(w, &msg);
            message_count(w, &msg);
            if (timed)
                message_time(w, &msg, began, size);
        }
        if (rc || why) {
            char reason[APIR_REASON_MAX];
            snprintf(reason, sizeof(reason), "%s: %s", what, why);
            apir_log(APIR_LOG_ERROR, "context is fatal: %s", reason);
            apir_ring_set_state(header(w), APIR_STATE_FATAL, reason);
            return EXIT_FATAL;
        }
        if (w->control_err)
            return control_ended(w->control_err);
        apir_ring_host_done(&w->ring);
        /* What follows may wait for a stream, whatever it is: only a SET_INLINE, which nobody waits
         * for, is not shown at once. */
        if (msg.code != APIR_MSG_SET_INLINE || apir_ring_host_show_due(&w->ring))
            show_progress(w);
    }
}

static void usage(FILE *to)
{
    fputs(
        "usage: apir-worker --spin-slot N [--limited] [--turns] [--config FILE]\n"
        "                   [--without DEVICE]... [--spare | --try-devices]\n"
        "Computes for one apir context; started by apir-render-server, not by hand.\n"
        "\n"
        "       apir-worker --fill-shaders [--all] [--config FILE] [--without DEVICE]...\n"
        "Fills the shader cache of this user's GPU drivers with what language models need, for\n"
        "shader_seconds of the configuration at most; --all: also of drivers that compute on\n"
        "the CPU. apir-render-server does so by itself. Not where workers could write the cache.\n",
        to);
}

/* The server's page behind fd, which is closed; NULL: it cannot be mapped. */
static void *page_map(int fd, size_t size, int protection)
{
    void *page = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    close(fd);
    return page == MAP_FAILED ? NULL : page;
}

struct options {
    const char *config;    /* NULL: defaults */
    int spin_slot;         /* its byte of the page; -1: nobody has said */
    bool turns;            /* classes take them */
    bool spare;            /* its context comes later */
    bool tries;            /* the devices, before that */
    bool fills, fills_all; /* no context at all: backend/worker/shaders/fill.h */
    /* Devices that the server has seen fail, which are not offered; NULL-terminated. */
    const char *without[APIR_DEVICES_MAX + 1];
    size_t n_without;
};

static const struct option option_table[] = {
    {"spin-slot", required_argument, NULL, 's'},
    {"limited", no_argument, NULL, 'l'},
    {"turns", no_argument, NULL, 'u'},
    {"config", required_argument, NULL, 'f'},
    {"spare", no_argument, NULL, 'r'},
    {"try-devices", no_argument, NULL, 't'},
    {"without", required_argument, NULL, 'w'},
    {"fill-shaders", no_argument, NULL, 'm'},
    {"all", no_argument, NULL, 'a'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int options_parse(struct worker *w, int argc, char **argv, struct options *ret)
{
    for (int o; (o = getopt_long(argc, argv, "", option_table, NULL)) != -1;) {
        switch (o) {
        case 's':
            ret->spin_slot = atoi(optarg);
            break;
        case 'l':
            w->is_limited = true;
            break;
        case 'u':
            ret->turns = true;
            break;
        case 'f':
            ret->config = optarg;
            break;
        case 'r':
            ret->spare = true;
            break;
        case 't':
            ret->spare = ret->tries = true;
            break;
        case 'w':
            if (ret->n_without == APIR_DEVICES_MAX)
                return -EINVAL;
            ret->without[ret->n_without++] = optarg;
            break;
        case 'm':
            ret->fills = true;
            break;
        case 'a':
            ret->fills_all = true;
            break;
        case 'h':
            usage(stdout);
            exit(EXIT_OK);
        default:
            return -EINVAL;
        }
    }
    if (optind != argc || ret->fills)
        return optind == argc ? 0 : -EINVAL;
    if (ret->spin_slot < 0)
        return -EINVAL;
    w->control_fd = APIR_WORKER_FD_CONTROL;
    w->status = page_map(APIR_WORKER_FD_STATUS, sizeof(*w->status), PROT_READ | PROT_WRITE);
    worker_spin_init(&w->spin,
                     page_map(APIR_WORKER_FD_SPIN, sizeof(*w->spin.page), PROT_READ | PROT_WRITE),
                     (uint32_t)ret->spin_slot);
    if (ret->turns)
        w->turns = page_map(APIR_WORKER_FD_TURNS, sizeof(*w->turns), PROT_READ);
    return w->status && w->spin.page && (w->turns || !ret->turns) ? 0 : -EINVAL;
}

/* Whatever its messages are about has come before it. Returns 0 or -errno. */
static int wait_for_ring(struct worker *w)
{
    while (!w->blobs[APIR_RING_BLOB_ID].map) {
        int rc = worker_control_wait(w);
        if (rc)
            return rc;
    }
    apir_ring_host_init(&w->ring, w->blobs[APIR_RING_BLOB_ID].map,
                        w->blobs[APIR_RING_BLOB_ID].size);
    worker_system_tell_end(&header(w)->worker);
    return 0;
}

static int load(struct worker *w, const struct apir_config *config, const struct options *options,
                struct apir_error *err)
{
    const char *devices[APIR_CONFIG_DEVICES_MAX + 1] = {NULL};
    for (size_t i = 0; i < config->devices.n && i < APIR_CONFIG_DEVICES_MAX; i++)
        devices[i] = config->devices.names[i];
    struct host_ggml_options o = {
        .library = config->ggml,
        .backends_dir = config->ggml_backends_dir,
        .devices = config->devices.n ? devices : NULL,
        .without = options->n_without ? options->without : NULL,
        .n_threads = (int)config->threads,
        .explain = options->tries, /* once is enough */
    };
    uint32_t shm = config->context_shm_mib;
    if (config->context_host_memory_mib && config->context_host_memory_mib < shm)
        shm = config->context_host_memory_mib;
    if (config->class_shm_mib && config->class_shm_mib < shm)
        shm = config->class_shm_mib;
    w->shm_limit = (uint64_t)shm << 20;
    w->room_is_limited = config->device_memory_mib || config->class_device_memory_mib ||
                         config->context_device_memory_mib || config->context_host_memory_mib;
    w->graph_limit = (uint64_t)config->context_graph_mib << 20;
    w->queue_limit = (uint64_t)config->context_queue_mib << 20;
    /* ggml looks for backends in the folder that it is run in, too, which may be anybody's. */
    if (chdir("/") < 0)
        return apir_error_sys(err, errno, "/");
    int rc = host_ggml_load(&w->ggml, &o, err);
    if (rc == 0)
        worker_meaning_init(&w->meaning, host_ggml_has, &w->ggml);
    return rc;
}

/* All that happens before anything of a guest's is looked at. */
static int prepare(struct worker *w, const struct options *o, struct apir_error *err)
{
    struct apir_config config;
    struct worker_sandbox sandbox;
    const uint64_t began = apir_now_ns();
    int rc = apir_config_load(o->config, &config, err);
    if (!rc)
        rc = worker_mps_wait(&config, err);
    if (!rc)
        rc = worker_sandbox_enter(&sandbox, &config, err);
    const uint64_t entered = apir_now_ns();
    if (!rc)
        rc = load(w, &config, o, err);
    if (!rc)
        rc = worker_mps_check(&config, &w->ggml, err);
    const uint64_t loaded = apir_now_ns();
    if (!rc)
        rc = worker_sandbox_filter(&sandbox, err);
    apir_config_fini(&config);
    if (!rc && w->status)
        snprintf(w->status->counts.sandbox, sizeof(w->status->counts.sandbox), "%s", sandbox.text);
    if (!rc)
        apir_log(APIR_LOG_INFO, "sandbox: %s; it took %llu us before ggml was loaded, %llu after",
                 sandbox.text, (unsigned long long)(entered - began) / 1000,
                 (unsigned long long)(apir_now_ns() - loaded) / 1000);
    return rc;
}

/*
 * It has no sandbox: what a worker may write it must not read. Of a cache a worker writes a layer
 * of its own, and no more, for as long as there is Landlock, which binds root's as well: without
 * namespaces, and so without a layer, it is shut off.
 */
static bool may_fill(const struct apir_config *config)
{
    const char *why = NULL;
    if (config->sandbox_write.n)
        why = "workers may write what \"sandbox_write\" names";
    else if (worker_files_version() <= 0)
        why = "this kernel has no Landlock to keep workers from it";
    if (why)
        apir_log(APIR_LOG_INFO, "the shader cache is not filled: %s", why);
    return !why;
}

/* Returns the exit code. */
static int fill_shaders(struct worker *w, const struct options *o)
{
    struct apir_error err = {0};
    struct apir_config config;
    /* Not to be taken for one that has a guest. */
    worker_system_name("apir-shaders");
    worker_system_step_back();
    int rc = apir_config_load(o->config, &config, &err);
    const bool fills = !rc && may_fill(&config);
    if (fills)
        rc = worker_mps_wait(&config, &err);
    if (fills && !rc)
        rc = load(w, &config, o, &err);
    if (fills && !rc)
        rc = worker_shaders_fill(&w->ggml, (uint64_t)config.shader_seconds * 1000, o->fills_all,
                                 &err);
    apir_config_fini(&config);
    if (rc)
        apir_log(APIR_LOG_ERROR, "%s", err.msg);
    return rc ? EXIT_SETUP : EXIT_OK;
}

/*
 * One device after the other, in the sandbox and as graphs of a guest are computed. The first that
 * fails ends this process: the server starts another one without it. Returns 0 or -errno with *err.
 */
static int try_devices(struct worker *w, struct apir_error *err)
{
    const uint64_t began = apir_now_ns();
    for (uint32_t i = 0; i < w->ggml.n_devices; i++) {
        const struct host_device *d = &w->ggml.devices[i];
        int rc = worker_control_try(w, d->name);
        if (rc)
            return apir_error_sys(err, -rc, "control socket");
        rc = worker_trial_run(&w->ggml, d, err);
        if (rc)
            return rc;
    }
    apir_log(APIR_LOG_INFO, "%u device(s) tried in %llu us", w->ggml.n_devices,
             (unsigned long long)(apir_now_ns() - began) / 1000);
    return 0;
}

int main(int argc, char **argv)
{
    enum apir_log_level level;
    if (apir_log_parse_level(getenv("APIR_LOG"), &level) == 0)
        apir_log_set_level(level);
    /* Who reads the log may end: that is not our end. */
    (void)signal(SIGPIPE, SIG_IGN);
    /* A server that dies takes us along, also where it cannot say so. */
    if (!apir_ends_with_parent(getppid()))
        return EXIT_OK; /* it is dead already */
    worker_system_exact_timers();

    static struct worker worker; /* large; one per process */
    struct worker *w = &worker;
    struct options o = {.spin_slot = -1};
    int rc = options_parse(w, argc, argv, &o);
    if (rc) {
        usage(stderr);
        return 2;
    }
    if (o.fills)
        return fill_shaders(w, &o);
    w->state = APIR_ST_NEW;
    /* A spare one has no guest whom it could tell what is wrong, and is not to be taken for one
     * that has. */
    if (o.spare)
        worker_system_name("apir-loading");
    else if ((rc = wait_for_ring(w)))
        return control_ended(rc);
    struct apir_error err = {0};
    rc = prepare(w, &o, &err);
    if (!rc && o.tries)
        rc = try_devices(w, &err);
    if (rc == -ENODEV && o.tries && o.n_without)
        (void)worker_control_tried(w, 0); /* nothing is left to be offered */
    if (rc) {
        apir_log(APIR_LOG_ERROR, "%s", err.msg);
        if (!o.spare)
            apir_ring_set_state(header(w), APIR_STATE_FATAL, err.msg);
        _exit(EXIT_SETUP); /* as at the end */
    }
    apir_log(APIR_LOG_INFO, "worker ready: %u device(s), first: %s (%s)", w->ggml.n_devices,
             w->ggml.devices[0].name, w->ggml.devices[0].description);
    /* From here on the server no longer counts seconds_to_start, and a spare one can be taken. */
    apir_store_release32(&w->status->ready, 1);
    if (o.spare) {
        worker_system_name("apir-spare");
        rc = o.tries ? worker_control_tried(w, w->ggml.n_devices) : 0;
        if (!rc)
            rc = wait_for_ring(w);
        worker_system_name("apir-worker");
    }
    if (!rc)
        apir_ring_set_state(header(w), APIR_STATE_READY, NULL);
    /* No destructors: GPU drivers have been seen to hang in theirs. */
    _exit(rc ? control_ended(rc) : serve(w));
}
