/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/hostile/attacks/sheet.h"
#include "tests/lib/descriptors.h"
#include "tests/lib/processes.h"
#include "tests/lib/unix_client.h"

bool offer_with(int sock, const void *data, size_t size, const int *fds, size_t n)
{
    if (descriptors_send(sock, data, size, fds, n) == (ssize_t)size)
        return true;
    if (errno != EPERM)
        not_stopped("a message of %zu bytes with %zu descriptors: %s", size, n, strerror(errno));
    return false;
}

void send_with(int sock, const void *data, size_t size, const int *fds, size_t n)
{
    if (!offer_with(sock, data, size, fds, n))
        not_stopped("a message of %zu bytes with %zu descriptors: %s", size, n, strerror(errno));
}

/* ---- a guest over the VMM's socket ------------------------------------------------------- */

void own_guest(struct own *o, struct guest *g, uint32_t id)
{
    *g = (struct guest){.transport =
                            fixture_transport(fixture_create_context(o->f, id, APIR_CONTEXT_NAME))};
    WANT(g->transport.fd >= 0);
    guest_attach(g);
    guest_fill(g, ARENA);
}

void own_context_bare(struct own *o, struct fixture_context *c, uint32_t id)
{
    *c = (struct fixture_context){.fd = fixture_create_context(o->f, id, APIR_CONTEXT_NAME)};
    WANT(c->fd >= 0);
}

void own_context(struct own *o, struct fixture_context *c, uint32_t id)
{
    fixture_open(o->f, c, id);
}

void own_context_end(struct own *o, struct fixture_context *c, uint32_t id)
{
    if (c->timeline) {
        fixture_close(c);
    } else {
        if (c->ring)
            munmap(c->ring, APIR_RING_HEADER_SIZE);
        close(c->fd);
    }
    fixture_destroy_context(o->f, id);
}

/* ---- over the socket that listens -------------------------------------------------------- */

void own_unix_guest(struct guest *g)
{
    struct apir_error err = {0};
    *g = (struct guest){.transport = {.fd = -1}};
    if (transport_unix_open(&g->transport, unix_host.path, &err))
        not_stopped("%s", err.msg);
    guest_attach(g);
    guest_fill(g, ARENA);
}

const char *own_worker;
int own_log;

/* ---- the server -------------------------------------------------------------------------- */

void own_look(struct own *o)
{
    static uint8_t bytes[MEMORY];
    static float first;
    struct guest *g = &o->bystander;
    expect_squares(g, first += 1.0f);
    guest_get(g, 3, 0, bytes, sizeof(bytes));
    for (uint32_t i = 0; i < MEMORY; i++)
        WANT(bytes[i] == guest_byte(3, i));
}

void own_start(struct own *o, bool listens)
{
    own_start_with(o, listens, "");
}

void own_start_with(struct own *o, bool listens, const char *more)
{
    static struct fixture fixture;
    char config[512];
    int stderr_kept = dup(STDERR_FILENO);
    *o = (struct own){.f = listens ? &unix_host.f : &fixture};
    o->log = own_log ? -1 : memfd_create("log", MFD_CLOEXEC);
    WANT(stderr_kept >= 0 && dup2(own_log ? own_log : o->log, STDERR_FILENO) >= 0);
    snprintf(
        config, sizeof(config),
        "\"worker\": \"%s\", \"stock_server\": false, \"threads\": 1, \"devices\": [\"CPU\"]%s",
        own_worker ? own_worker : process_built("backend/apir-worker"), more);
    if (listens)
        unix_start(config, NULL);
    else
        fixture_start(o->f, config, NULL);
    dup2(stderr_kept, STDERR_FILENO);
    close(stderr_kept);
    if (listens)
        own_unix_guest(&o->bystander);
    else
        own_guest(o, &o->bystander, 1);
    square_runs(&o->bystander);
    own_look(o);
    o->fds = fixture_count_fds(o->f);
}

char *own_log_text(const struct own *o)
{
    struct stat st;
    WANT(fstat(o->log, &st) == 0);
    char *text = calloc(1, (size_t)st.st_size + 1);
    WANT(text && pread(o->log, text, (size_t)st.st_size, 0) == st.st_size);
    return text;
}

static void log_clean(const struct own *o)
{
    static const char *const never[] = {"Sanitizer", "runtime error:", "exited with status 99"};
    static const char killed[] = "killed by signal ";
    if (o->log < 0)
        return;
    char *text = own_log_text(o);
    for (size_t i = 0; i < N(never); i++) {
        const char *at = strstr(text, never[i]);
        if (at)
            not_stopped("the log has: %.300s", at);
    }
    /* By the server, whose signal is 9, at the end of their contexts: said where it says much. */
    for (const char *at = text; (at = strstr(at, killed)); at++) {
        if (strncmp(at + strlen(killed), "9\n", 2) != 0)
            not_stopped("the log has: %.300s", at);
    }
    free(text);
    close(o->log);
}

static unsigned workers(const struct own *o)
{
    unsigned n = 0;
    fixture_child(o->f, "apir-worker", &n);
    return n;
}

void own_stop(struct own *o)
{
    own_look(o);
    if (!SOON(fixture_count_fds(o->f) <= o->fds && workers(o) == 1))
        not_stopped("left behind: %u workers; %zu descriptors, before %zu", workers(o),
                    fixture_count_fds(o->f), o->fds);
    const bool listens = o->f == &unix_host.f;
    guest_close(&o->bystander);
    fixture_stop(o->f);
    if (listens)
        rmdir(unix_host.dir);
    log_clean(o);
}
