/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-hook STAGE: one short-lived, static process per container and stage,
 * started by the container runtime (or engine) with its rights, over a root file
 * system that the image's author wrote.
 *
 * createContainer: in the container's namespaces, before its root is entered;
 *     "/" is still the host's, the container's root is a folder in it. Places the
 *     plug-in where the image's ggml searches.
 * createRuntime, prestart: in the runtime's namespaces, as long as the container's
 *     process waits. Adds the device's node and the plug-in to the container's
 *     mount namespace, where no engine did.
 * precreate: in the engine's own world, before the runtime knows the container.
 *     Edits the configuration as an engine with CDI would.
 * poststop: nothing is left to be done.
 *
 * A stage acts only where the container asks for a device (common/oci/request.h), and is
 * silent otherwise. What looks into the image does so in a child with a time limit
 * (hook/limit.h). Before anything else the environment is emptied, inherited
 * descriptors are closed and the working directory is left (it may be inside the
 * image). Of the capabilities each step keeps its own (hook/rights.h). An unknown
 * stage, and whatever keeps us from helping, is logged (hook/log.h says where) and
 * ends with 0: a container without acceleration is better than none. Only a wrong
 * request (a device that does not exist, a state that is no state, or whose process
 * is no container's) fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/limit.h"
#include "hook/log.h"
#include "hook/rights.h"
#include "hook/precreate.h"
#include "common/oci/state.h"
#include "common/error.h"

#define PRECREATE "precreate"
/*
 * Specs and hooks.d files give the hook twelve times that before the container fails: with little
 * of a processor even what it does before and after takes seconds. Longer than a look may take
 * (IMAGE_FIND_MS), which says more.
 */
#define LIMIT_MS 10000

static const char usage[] =
    "Usage: apir-hook STAGE [OPTION]...\n"
    "\n"
    "Called by container runtimes and engines, not by hand: the container's state (or,\n"
    "for precreate, its configuration) is on the standard input. STAGE is one of\n"
    "\n"
    "  createContainer  puts the plug-in where the image's ggml searches (a CDI spec\n"
    "                   of `apir cdi generate` asks for it)\n"
    "  createRuntime    mounts the device's node and the plug-in in the container, where\n"
    "                   no engine did, then the same (for engines without CDI\n"
    "                   and precreate: /usr/share/apir/hooks.d-runtime)\n"
    "  prestart         as createRuntime\n"
    "  precreate        edits the configuration as an engine with CDI would (podman with\n"
    "                   --hooks-dir=/usr/share/apir/hooks.d asks for it;\n"
    "                   4.5.1 or later)\n"
    "  poststop         does nothing\n"
    "\n"
    "and acts on containers with the annotation apir.device=DEVICE[,DEVICE]...;\n"
    "createContainer also where a CDI spec has had the plug-in mounted.\n"
    "\n"
    "  --plugin PATH    the plug-in on the host (default " HOOK_PLUGIN ")\n"
    "  --spec FILE      the CDI spec that says what a device is (default " HOOK_SPEC ")\n"
    "  -h, --help       this text\n"
    "      --version    the version\n"
    "\n"
    "Lines go to syslog or the journal, else to\n"
    "/run/apir-hook.log, /run/user/UID/apir-hook.log or BUNDLE/apir-hook.log.\n"
    "\n"
    "Exit codes: 0 done, or nothing that could be done, 1 the request or the state is\n"
    "wrong, 2 wrong usage.\n";

static int clean_process(void)
{
    clearenv();
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    /* A descriptor of ours must never land on 0, 1 or 2. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return -errno;
    if (close_range(3, ~0u, 0) < 0 && errno != ENOSYS)
        return -errno;
    return chdir("/") < 0 ? -errno : 0;
}

/* poststop and whatever else needs nothing: mounts and files go with the container. */
static const struct stage {
    const char *name;
    enum hook_rights rights;
    hook_stage_in_container *run; /* within the time limit; NULL: nothing */
} stages[] = {
    {"createContainer", HOOK_RIGHTS_MOUNT, hook_stage_create_container},
    {"createRuntime", HOOK_RIGHTS_ENTER, hook_stage_create_runtime},
    {"prestart", HOOK_RIGHTS_ENTER, hook_stage_create_runtime},
    {PRECREATE, HOOK_RIGHTS_NONE, NULL},
    {"poststop", HOOK_RIGHTS_NONE, NULL},
};

struct task {
    const struct stage *stage;
    const struct hook_options *options;
    const struct oci_state *state;
};

/* Its exit code. */
static int end(int r, const struct apir_error *err)
{
    if (r < 0)
        hook_log(HOOK_ERROR, "%s", err->msg);
    return r < 0 ? 1 : 0;
}

static int run_task(const void *arg)
{
    const struct task *task = arg;
    struct apir_error err = {0};

    return end(task->stage->run(task->options, task->state, &err), &err);
}

static int run_limited(const struct stage *stage, const struct hook_options *options)
{
    cleanup_state struct oci_state state = {0};
    struct apir_error err = {0};

    int rc = oci_state_read(STDIN_FILENO, &state, &err);
    if (rc < 0)
        return end(rc, &err);
    hook_log_set_container(state.id, state.bundle);
    const struct task task = {stage, options, &state};
    rc = hook_limit_run(run_task, &task, LIMIT_MS);
    if (rc == -ETIMEDOUT)
        hook_log(HOOK_WARNING,
                 "the image's file system has not answered within %d s; not waiting "
                 "any longer; " HOOK_FALLBACK,
                 LIMIT_MS / 1000);
    else if (rc < 0)
        hook_log(HOOK_ERROR, "looking into the image has failed: %s; " HOOK_FALLBACK,
                 strerror(-rc));
    return rc < 0 ? 0 : rc;
}

static int run_stage(const char *name, const struct hook_options *options)
{
    const struct stage *stage = NULL;
    struct apir_error err = {0};

    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        if (strcmp(stages[i].name, name) == 0)
            stage = &stages[i];
    int rc = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
    if (rc == 0)
        rc = hook_rights_keep(stage ? stage->rights : HOOK_RIGHTS_NONE);
    if (rc < 0) {
        hook_log(HOOK_ERROR, "cannot give up capabilities: %s; nothing done", strerror(-rc));
        /* precreate owes its caller a configuration, and needs no rights for it. */
        if (strcmp(name, PRECREATE) != 0)
            return 0;
    }
    if (!stage) {
        /* A newer spec must not keep a container from starting. */
        hook_log(HOOK_WARNING, "stage \"%s\" is not known to this version; nothing done", name);
        return 0;
    }
    if (strcmp(name, PRECREATE) == 0)
        return end(hook_stage_precreate(options, &err), &err);
    return stage->run ? run_limited(stage, options) : 0;
}

int main(int argc, char **argv)
{
    enum { PLUGIN = 256, SPEC, VERSION };
    static const struct option long_options[] = {
        {"plugin", required_argument, NULL, PLUGIN},
        {"spec", required_argument, NULL, SPEC},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, VERSION},
        {0},
    };
    struct hook_options options = {.plugin = HOOK_PLUGIN, .spec = HOOK_SPEC};

    /* Whoever shares our PID namespace would find the host's root behind /proc/PID/root else. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    int rc = clean_process();
    hook_log_open();
    if (rc < 0) {
        hook_log(HOOK_ERROR, "cannot set up: %s; nothing done", strerror(-rc));
        return 0;
    }
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (c) {
        case PLUGIN:
            options.plugin = optarg;
            break;
        case SPEC:
            options.spec = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case VERSION:
            puts("apir-hook " APIR_VERSION);
            return 0;
        default:
            hook_log(HOOK_WARNING, "an option that this version does not know; left out");
            break;
        }
    }
    if (optind == argc) {
        fputs(usage, stderr);
        return 2;
    }
    return run_stage(argv[optind], &options);
}
