/* SPDX-License-Identifier: Apache-2.0 */
/* The shader cache: filled once, before the first spare worker, and nobody's loss where it cannot.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "backend/server/ahead/spare.h"
#include "tests/lib/clock.h"
#include "tests/lib/folder.h"
#include "tests/lib/processes.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/unit.h"

#define WAIT_MS (SERVER_SPARES_AFTER_MS + FIXTURE_WAIT_MS)

/* A folder with a script that is the worker's program: fake_worker, but for filling the cache. */
struct host {
    char folder[32];
    char config[256];
    struct fixture f;
    struct fixture_context c;
};

static void in_folder(const struct host *h, const char *name, char path[64])
{
    snprintf(path, 64, "%s/%s", h->folder, name);
}

/* script: how it fills the cache, after it has noted that. */
static void host_start(struct host *h, const char *script, const char *members)
{
    char path[64];
    strcpy(h->folder, "/tmp/apir-fill-XXXXXX");
    assert_non_null(mkdtemp(h->folder));
    in_folder(h, "worker", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_true(dprintf(fd,
                        "#!/bin/sh\n[ \"$1\" = --fill-shaders ] || exec %s \"$@\"\n"
                        "echo \"$2\" >>%s/runs\n%s\n",
                        process_built("tests/process/fake_worker"), h->folder, script) > 0);
    close(fd);
    snprintf(h->config, sizeof(h->config), NO_STOCK ", \"worker\": \"%s/worker\", %s", h->folder,
             members);
    fixture_start(&h->f, h->config, NULL);
    fixture_open_ready(&h->f, &h->c, 1);
}

static void host_stop(struct host *h)
{
    fixture_close(&h->c);
    fixture_stop(&h->f);
    assert_int_equal(folder_remove(h->folder), 0);
}

/* How often it was started with a configuration. */
static unsigned runs(const struct host *h)
{
    char path[64], line[32];
    unsigned n = 0;
    in_folder(h, "runs", path);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        n += strcmp(line, "--config\n") == 0;
    if (file)
        fclose(file);
    return n;
}

static unsigned spares(const struct host *h)
{
    unsigned n = 0;
    fixture_child(&h->f, "--spare", &n);
    return n;
}

/* There is one, and it waits: before that it changes its program, and has no command line for a
 * moment. */
static bool spare_is_ready(const struct host *h)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)fixture_child(&h->f, "--spare", NULL));
    FILE *file = fopen(path, "re");
    const bool ok = file && fgets(name, sizeof(name), file) && strcmp(name, "fake_spare\n") == 0;
    if (file)
        fclose(file);
    return ok && spares(h) == 1;
}

static pid_t filler(const struct host *h)
{
    return fixture_child(&h->f, "--fill-shaders", NULL);
}

TEST(cache_is_filled_once_and_before_the_first_spare)
{
    struct host h;
    host_start(&h, "while ! [ -e \"${0%/*}/end\" ]; do sleep 0.05; done",
               "\"shader_seconds\": 60, \"spare_workers\": 1");
    WAIT_FOR(filler(&h) > 0 && runs(&h) == 1, WAIT_MS);
    assert_int_equal(runs(&h), 1);
    /* A context that comes meanwhile waits for nothing, and brings no spare one. */
    struct fixture_context next;
    fixture_open_ready(&h.f, &next, 2);
    fixture_close(&next);
    WAIT_FOR(spares(&h) > 0, SERVER_SPARES_AFTER_MS + 500);
    assert_int_equal(spares(&h), 0);

    char path[64];
    in_folder(&h, "end", path);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    WAIT_FOR(spare_is_ready(&h), WAIT_MS);
    assert_true(spare_is_ready(&h));
    assert_int_equal(filler(&h), -1);
    assert_int_equal(runs(&h), 1);
    host_stop(&h);
}

TEST(what_goes_wrong_with_it_is_nobodys_loss)
{
    static const char *const scripts[] = {"exit 127", "exit 3", "kill -ABRT $$"};
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        struct host h;
        host_start(&h, scripts[i], "\"shader_seconds\": 60, \"spare_workers\": 1");
        WAIT_FOR(spare_is_ready(&h), WAIT_MS);
        assert_true(spare_is_ready(&h));
        assert_int_equal(runs(&h), 1);
        fixture_expect_alive(&h.c);
        host_stop(&h);
    }
}

TEST(cache_is_filled_without_spares_and_ends_with_the_server)
{
    struct host h;
    host_start(&h, "while :; do sleep 0.1; done", "\"shader_seconds\": 60, \"spare_workers\": 0");
    WAIT_FOR(filler(&h) > 0, WAIT_MS);
    const pid_t pid = filler(&h);
    assert_true(pid > 0);
    host_stop(&h);
    fixture_wait_gone(pid);
}

/* Nor where workers write what it would read. */
TEST(zero_seconds_are_none)
{
    static const char *const members[] = {
        "\"shader_seconds\": 0, \"spare_workers\": 1",
        "\"shader_seconds\": 60, \"spare_workers\": 1, \"sandbox_write\": [\"/tmp/shared\"]"};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        struct host h;
        host_start(&h, "exit 0", members[i]);
        WAIT_FOR(spare_is_ready(&h), WAIT_MS);
        assert_true(spare_is_ready(&h));
        assert_int_equal(runs(&h), 0);
        host_stop(&h);
    }
}
