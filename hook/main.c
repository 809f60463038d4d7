/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-hook STAGE: one short-lived, static process per container and stage,
 * started by the container runtime (or engine) with its rights, over a root file
 * system that the image's author wrote.
 *
 * createContainer: in the container's namespaces, before its root is entered;
 *     "/" is still the host's, the container's root is a folder in it.
 * precreate: in the engine's own world, before the runtime knows the container.
 * All others: nothing to do.
 *
 * Before anything else the environment is emptied, inherited descriptors are
 * closed and the working directory is left (it may be inside the image). The
 * capabilities kept are those to mount and to pass by file modes; precreate
 * keeps none. An unknown stage, and whatever keeps us from helping, is logged
 * and ends with 0: a container without acceleration is better than none. Only a
 * wrong request (a device that does not exist, a state that is no state) fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/log.h"
#include "hook/stages.h"
#include "protocol/error.h"

static const char usage[] =
    "Usage: apir-hook STAGE [OPTION]...\n"
    "\n"
    "Called by container runtimes and engines, not by hand. STAGE is one of\n"
    "createContainer, createRuntime, prestart, precreate, poststop.\n"
    "\n"
    "  --plugin PATH    the plug-in on the host (default " HOOK_PLUGIN ")\n"
    "  --spec FILE      the CDI spec for precreate (default " HOOK_SPEC ")\n"
    "  -h, --help       this text\n"
    "      --version    the version\n"
    "\n"
    "Exit codes: 0 done, or nothing to be done, 1 the request is wrong, 2 wrong usage.\n";

static int keep_capabilities(const cap_value_t *keep, int n)
{
    cap_t have = cap_get_proc();
    cap_t want = cap_init();
    int r = have == NULL || want == NULL ? -ENOMEM : 0;

    for (int i = 0; r == 0 && i < n; i++) {
        cap_flag_value_t value = CAP_CLEAR;

        if (cap_get_flag(have, keep[i], CAP_PERMITTED, &value) == 0 && value == CAP_SET &&
            (cap_set_flag(want, CAP_PERMITTED, 1, &keep[i], CAP_SET) < 0 ||
             cap_set_flag(want, CAP_EFFECTIVE, 1, &keep[i], CAP_SET) < 0))
            r = -errno;
    }
    if (r == 0 && cap_set_proc(want) < 0)
        r = -errno;
    cap_free(have);
    cap_free(want);
    return r;
}

static int drop_rights(const char *stage)
{
    static const cap_value_t for_mounts[] = {CAP_SYS_ADMIN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (strcmp(stage, "createContainer") == 0)
        return keep_capabilities(for_mounts, 3);
    return keep_capabilities(NULL, 0);
}

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

static int run_stage(const char *stage, const struct hook_options *options)
{
    struct apir_error err = {0};
    int r = drop_rights(stage);

    if (r < 0) {
        hook_log(HOOK_ERROR, "cannot give up capabilities: %s; nothing done", strerror(-r));
        /* precreate owes its caller a configuration, and needs no rights for it. */
        if (strcmp(stage, "precreate") != 0)
            return 0;
    }
    if (strcmp(stage, "createContainer") == 0)
        r = hook_stage_create_container(options, &err);
    else if (strcmp(stage, "precreate") == 0)
        r = hook_stage_precreate(options, &err);
    else if (strcmp(stage, "prestart") == 0 || strcmp(stage, "createRuntime") == 0) {
        hook_log(HOOK_WARNING,
                 "%s: nothing is added at this stage; use --device virtgpu/apir=gpu0, or podman's "
                 "precreate hook with the annotation apir.device=gpu0",
                 stage);
        r = 0;
    } else if (strcmp(stage, "poststop") == 0)
        r = 0;
    else {
        /* A newer spec must not keep a container from starting. */
        hook_log(HOOK_WARNING, "stage \"%s\" is not known to this version; nothing done", stage);
        r = 0;
    }
    if (r < 0)
        hook_log(HOOK_ERROR, "%s", err.msg);
    return r < 0 ? 1 : 0;
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

    int r = clean_process();
    hook_log_open();
    if (r < 0) {
        hook_log(HOOK_ERROR, "cannot set up: %s; nothing done", strerror(-r));
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
