/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/top/who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text.h"
#include "common/file.h"

/* What engines put in front of an id, in the name of a scope (systemd) or of a folder; "": nothing.
 */
static const struct sign {
    const char *before, *engine;
} signs[] = {
    {"libpod-", "podman"},
    {"docker-", "docker"},
    {"crio-", "cri-o"},
    {"nerdctl-", "nerdctl"},
    {"cri-containerd-", "containerd"},
    {"", "container"},
};

static bool is_id(const char *text, size_t size)
{
    static const char scope[] = ".scope";

    return size >= CDI_WHO_ID && strspn(text, "0123456789abcdef") >= CDI_WHO_ID &&
           (size == CDI_WHO_ID || (size == CDI_WHO_ID + strlen(scope) &&
                                   memcmp(text + CDI_WHO_ID, scope, strlen(scope)) == 0));
}

/* An id alone is of who has made the folder around it. */
static const char *engine_around(const char *line, const char *part)
{
    const size_t before = (size_t)(part - line);

    if (before >= 8 && memcmp(part - 8, "/docker/", 8) == 0)
        return "docker";
    if (memmem(line, before, "kubepods", 8))
        return "kubernetes";
    return memmem(line, before, "buildah", 7) ? "buildah" : "container";
}

static void look_at(const char *line, const char *part, size_t size, struct cdi_who *who)
{
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        const size_t n = strlen(signs[i].before);
        if (size <= n || strncmp(part, signs[i].before, n) != 0 || !is_id(part + n, size - n))
            continue;
        const char *engine = n ? signs[i].engine : engine_around(line, part);
        snprintf(who->engine, sizeof(who->engine), "%s", engine);
        snprintf(who->id, sizeof(who->id), "%.*s", (int)CDI_WHO_ID, part + n);
        return;
    }
}

void cdi_who_parse(const char *cgroup, struct cdi_who *ret_who)
{
    ret_who->engine[0] = ret_who->id[0] = '\0';
    for (const char *line = cgroup; *line;) {
        const char *stop = strchrnul(line, '\n');
        for (const char *slash = memchr(line, '/', (size_t)(stop - line)); slash;) {
            const char *part = slash + 1;
            slash = memchr(part, '/', (size_t)(stop - part));
            look_at(line, part, (size_t)((slash ? slash : stop) - part), ret_who);
        }
        /* One line is enough: those of other hierarchies say the same, or nothing. */
        if (ret_who->id[0])
            return;
        line = *stop ? stop + 1 : stop;
    }
}

static bool load(int64_t pid, const char *name, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
    return apir_file_begin(path, text, size) > 0;
}

/* In milliseconds since the boot; -1: it cannot be told. */
static int64_t started(int64_t pid)
{
    char stat[1024];
    const char *p = load(pid, "stat", stat, sizeof(stat)) ? strrchr(stat, ')') : NULL;

    /* The 22nd field; the 2nd ends here. */
    for (int i = 2; p && i < 22; i++)
        p = strchr(p + 1, ' ');
    return p ? (int64_t)strtoull(p, NULL, 10) * 1000 / sysconf(_SC_CLK_TCK) : -1;
}

bool cdi_who_look(int64_t pid, int64_t began_ms, struct cdi_who *ret_who)
{
    char cgroup[4096];
    const int64_t slept = (int64_t)(apir_clock_ns(CLOCK_BOOTTIME) - apir_now_ns()) / 1000000;

    *ret_who = (struct cdi_who){0};
    if (pid <= 0 || !load(pid, "cgroup", cgroup, sizeof(cgroup)))
        return false;
    if (load(pid, "comm", ret_who->name, sizeof(ret_who->name)))
        ret_who->name[strcspn(ret_who->name, "\n")] = '\0';
    apir_text_clean(ret_who->name);
    cdi_who_parse(cgroup, ret_who);
    /* Last: what was read before is that process's, too. A tick is 10 ms. */
    const int64_t at = started(pid);
    if (at < 0 || at - slept - 20 > began_ms) {
        *ret_who = (struct cdi_who){0};
        return false;
    }
    return true;
}
