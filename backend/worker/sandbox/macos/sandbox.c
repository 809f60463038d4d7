/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#include "backend/worker/sandbox/files.h"

/* Private to the system, as what it has in public knows five profiles, none of which has a GPU. */
int sandbox_init(const char *profile, uint64_t flags, char **ret_error);
void sandbox_free_error(char *error);

#define FILES_MAX 512u

/*
 * What a worker has no use for. Frameworks of the GPU talk to services of the system, which this
 * leaves alone: so it is no list of what may be done, as that of Linux is.
 */
static const char profile[] = "(version 1)\n"
                              "(allow default)\n"
                              "(deny network*)\n"
                              "(deny process-fork)\n"
                              "(deny process-exec*)\n"
                              "(deny signal (target others))\n"
                              "(deny file-write*)\n"
                              "(allow file-write-data (literal \"/dev/null\"))\n"
                              "(allow file-write* (regex #\"^/private/var/folders/\"))\n"
                              "(deny file-read-data (regex #\"^/Users/[^/]+/(Documents|Desktop|"
                              "Downloads|Pictures|Library/Keychains|\\.ssh|\\.gnupg)\"))\n";

/* There is none. */
int worker_files_version(void)
{
    return 0;
}

int worker_sandbox_enter(struct worker_sandbox *s, const struct apir_config *config,
                         struct apir_error *err)
{
    const struct rlimit files = {FILES_MAX, FILES_MAX}, core = {0, 0};
    *s = (struct worker_sandbox){.required = config->sandbox == APIR_CONFIG_REQUIRED};
    if (s->required)
        return apir_error_set(
            err, ENOTSUP,
            "nobody has tried what keeps a worker in on macOS, which \"sandbox\": "
            "\"required\" asks for");
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
        return apir_error_sys(err, errno, "limits");
    return 0;
}

/* Once the drivers are loaded and before the guest's first message. */
int worker_sandbox_filter(struct worker_sandbox *s, struct apir_error *err)
{
    char *why = NULL;
    if (sandbox_init(profile, 0, &why) < 0) {
        apir_error_set(err, EPERM, "sandbox_init: %s", why ? why : "no reason given");
        sandbox_free_error(why);
        return -EPERM;
    }
    snprintf(s->text, sizeof(s->text), "a profile of macOS");
    return 0;
}
