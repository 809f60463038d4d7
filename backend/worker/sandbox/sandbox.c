/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backend/config/config.h"
#include "backend/worker/sandbox/cache.h"
#include "backend/worker/sandbox/calls.h"
#include "backend/worker/sandbox/files.h"
#include "common/parent.h"
#include "common/root.h"
#include "common/cleanup.h"

/* Above what drivers open; so few that all workers together are far from what the kernel gives one
 * user, or the machine: of files, and of pages of pipes. */
#define FILES_MAX 512u
/* Timers, and signals of real time to oneself: no driver has any. */
#define SIGNALS_MAX 64u

/* Adds to s->text, with a comma where something is there. */
__attribute__((format(printf, 2, 3))) static void note(struct worker_sandbox *s, const char *fmt,
                                                       ...)
{
    size_t n = strlen(s->text);
    if (n)
        n += (size_t)snprintf(s->text + n, sizeof(s->text) - n, ", ");
    if (n >= sizeof(s->text))
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->text + n, sizeof(s->text) - n, fmt, ap);
    va_end(ap);
}

/* ---- namespaces ------------------------------------------------------------------ */

static int file_write(const char *path, const char *text)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/*
 * Of our own: a network without any interface, where abstract unix sockets of the
 * host do not exist either; System V's and POSIX' message queues, semaphores and
 * shared memory. The user stays the same one, and so do the groups which may open the
 * GPU: only the permission to make namespaces comes with the new user namespace, and
 * is dropped with all other capabilities. No namespace of processes: it would begin
 * with a fork only, and signals and ptrace are kept in by Landlock and seccomp.
 */
static int namespaces_enter(struct worker_caches *caches)
{
    const unsigned uid = geteuid(), gid = getegid();
    /* A namespace of mounts is copied mount by mount: not without a need. */
    int mounts = caches->n ? CLONE_NEWNS : 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | mounts) < 0)
        return -errno;
    char map[64];
    int rc = file_write("/proc/self/setgroups", "deny");
    if (!rc) {
        snprintf(map, sizeof(map), "%u %u 1", gid, gid);
        rc = file_write("/proc/self/gid_map", map);
    }
    if (!rc) {
        snprintf(map, sizeof(map), "%u %u 1", uid, uid);
        rc = file_write("/proc/self/uid_map", map);
    }
    if (rc)
        return rc;
    if (mounts && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
        worker_caches_cover(caches);
    else
        caches->n = 0;
    return 0;
}

/* ---- limits ---------------------------------------------------------------------- */

/* Since 5.14 threads are counted per user and user namespace; before, RLIMIT_NPROC in ours
 * would count the user's other workers, and the VMM, as well. */
static bool threads_are_counted_apart(void)
{
    struct utsname u;
    unsigned major = 0, minor = 0;
    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 14));
}

static int limit(__rlimit_resource_t what, rlim_t most)
{
    struct rlimit now;
    if (getrlimit(what, &now) < 0)
        return -errno;
    if (now.rlim_max > most)
        now.rlim_max = most;
    if (now.rlim_cur > now.rlim_max)
        now.rlim_cur = now.rlim_max;
    return setrlimit(what, &now) < 0 ? -errno : 0;
}

/*
 * Not RLIMIT_FSIZE: drivers put the memory of a device that is the CPU into memfds,
 * which count as files, and no other file can be written. Not RLIMIT_MEMLOCK: what a process
 * locks is counted for itself, and what drivers pin is the GPU's business. Not RLIMIT_AS: drivers
 * reserve more than there is.
 */
static int limits_enter(bool own_user_namespace, const struct apir_config *config,
                        struct apir_error *err)
{
    const struct {
        __rlimit_resource_t what;
        const char *name;
        rlim_t most;
    } limits[] = {
        /* No core files: they would hold the guest's model. */
        {RLIMIT_CORE, "RLIMIT_CORE", 0},
        {RLIMIT_NOFILE, "RLIMIT_NOFILE", FILES_MAX},
        /* Counted per user, of all its processes: what this one may add is little. */
        {RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING", SIGNALS_MAX},
        {RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE", 0},
        {RLIMIT_NPROC, "RLIMIT_NPROC", apir_config_worker_threads(config)},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].what == RLIMIT_NPROC && !(own_user_namespace && threads_are_counted_apart()))
            continue;
        int rc = limit(limits[i].what, limits[i].most);
        if (rc)
            return apir_error_sys(err, -rc, "%s", limits[i].name);
    }
    return 0;
}

/* ---- privileges ------------------------------------------------------------------ */

static int capabilities_drop(struct apir_error *err)
{
    /* The bounding set first: that needs CAP_SETPCAP itself. */
    for (cap_value_t c = 0; cap_get_bound(c) >= 0; c++) {
        if (cap_get_bound(c) > 0 && cap_drop_bound(c) < 0 && errno != EPERM)
            return apir_error_sys(err, errno, "bounding set");
    }
    cap_t none = cap_init();
    if (!none)
        return apir_error_sys(err, ENOMEM, "cap_init");
    int rc = cap_set_proc(none);
    int saved = errno;
    cap_free(none);
    return rc < 0 ? apir_error_sys(err, saved, "dropping capabilities") : 0;
}

/* ---- stage 1 --------------------------------------------------------------------- */

int worker_sandbox_enter(struct worker_sandbox *s, const struct apir_config *config,
                         struct apir_error *err)
{
    *s = (struct worker_sandbox){.required = config->sandbox == APIR_CONFIG_REQUIRED};
    const pid_t server = getppid();
    if (s->required && apir_is_root())
        return apir_error_set(
            err, EPERM,
            "a worker that runs as root, which \"sandbox\": \"required\" refuses; "
            "give the VMM, or the service, a user of its own");
    /* Whatever GPU libraries do later, they cannot get privileges back. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return apir_error_sys(err, errno, "no_new_privs");

    struct worker_caches caches = {.n = 0};
    if (worker_files_version() > 0)
        worker_caches_find(&caches, config);
    else if (config->sandbox_write.n == 0) /* else the operator lets workers share what is there */
        worker_caches_forsake();
    int rc = namespaces_enter(&caches);
    if (rc) {
        /* Forbidden on some systems, and below a chroot. */
        caches.n = 0;
        note(s, "no namespaces (%s)", strerror(-rc));
    } else {
        note(s, "namespaces");
        if (caches.n)
            note(s, "%zu shader caches", caches.n);
    }
    rc = limits_enter(rc == 0, config, err);
    if (!rc)
        rc = capabilities_drop(err);
    if (rc)
        return rc;

    s->has_cache = caches.n || config->sandbox_write.n;
    rc = worker_files_restrict(config, &caches, err);
    if (rc < 0)
        return rc;
    if (rc == 0 && s->required)
        return apir_error_set(err, ENOTSUP,
                              "this kernel has no Landlock, which \"sandbox\": "
                              "\"required\" asks for; turn it on (lsm=landlock,...)");
    if (rc == 0)
        note(s, "no Landlock");
    else
        note(s, "Landlock %d", rc);

    /* Other processes of this user cannot look into us; root still can. After the
     * namespaces: the files of an undumpable process belong to root. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return apir_error_sys(err, errno, "PR_SET_DUMPABLE");
    /* A change of credentials may have taken away what main has asked for. */
    if (!apir_ends_with_parent(server))
        return apir_error_set(err, EPIPE, "the server has ended");
    return 0;
}

/* ---- stage 2 --------------------------------------------------------------------- */

int worker_sandbox_filter(struct worker_sandbox *s, struct apir_error *err)
{
    int rc = worker_calls_restrict(s->has_cache, err);
    if (rc == -ENOSYS && !s->required) {
        note(s, "no seccomp");
        return 0;
    }
    if (rc == 0)
        note(s, "seccomp");
    return rc;
}
