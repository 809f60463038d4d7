/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests, and workers that were taken over, that want the time of the server's one thread, or its
 * log.
 *
 * How long the thread is held up is what the server itself says of each event
 * (backend/server/loop.h): what it has computed, and whether it has slept. What others have taken
 * from it on a busy machine is neither.
 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/own.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/server/output.h"
#include "common/cleanup.h"
#include "protocol/atomic.h"
#include "protocol/futex.h"
#include "tests/hostile/attacks/sheet.h"
#include "tests/lib/processes.h"
#include "tests/lib/unix_client.h"

/* ---- held up? ------------------------------------------------------------------------------ */

/*
 * What another thread sees of this machine meanwhile, which is nobody's fault: how late it wakes up
 * who has slept, and what processor time it says was used where nothing was (a machine's host may
 * stop it at any time). An event that has slept is accused of so much more than that.
 */
enum { SLEPT_MS = 100 };
static struct stalls {
    pthread_t thread;
    uint32_t stop;
    int64_t longest_ms, cpu_ms;
} stalls;

static int64_t thread_cpu_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void *stalls_watch(void *unused)
{
    (void)unused;
    while (!apir_load_acquire32(&stalls.stop)) {
        const int64_t from = now_ms(), cpu_from = thread_cpu_ms();
        nap_us(1000);
        const int64_t late = now_ms() - from - 1, cpu = thread_cpu_ms() - cpu_from;
        stalls.longest_ms = late > stalls.longest_ms ? late : stalls.longest_ms;
        stalls.cpu_ms = cpu > stalls.cpu_ms ? cpu : stalls.cpu_ms;
    }
    return NULL;
}

/* A server that says what holds it up, and clients of it. */
static void start(struct own *o, const char *more)
{
    setenv("APIR_LOG", "info", 1);
    own_start_with(o, true, more);
    stalls = (struct stalls){0};
    WANT(pthread_create(&stalls.thread, NULL, stalls_watch, NULL) == 0);
}

static void stop(struct own *o)
{
    apir_store_release32(&stalls.stop, 1);
    pthread_join(stalls.thread, NULL);
    char *text = own_log_text(o);
    for (const char *at = text; (at = strstr(at, "the server was held up: ")); at++) {
        const char *from = strstr(at, " took ");
        long long all = 0, cpu = 0;
        long sleeps = 0;
        WANT(from && sscanf(from, " took %lld ms, computed for %lld and slept %ld times", &all,
                            &cpu, &sleeps) == 3);
        if (cpu >= SERVER_LOOP_LONG_MS + stalls.cpu_ms ||
            (sleeps > 0 && all - cpu > SLEPT_MS + 2 * stalls.longest_ms))
            not_stopped("%.*s (this machine: %lld ms)", (int)strcspn(at, "\n"), at,
                        (long long)stalls.longest_ms);
    }
    free(text);
    own_stop(o);
    refused("no event of the server's computed for %d ms", SERVER_LOOP_LONG_MS);
}

/* ---- many that sleep ------------------------------------------------------------------------- */

enum { SLEEPERS = 4000, SLEEPER_STACK = 64 << 10 };

struct sleepers {
    uint32_t *word;
    uint32_t stop, n;
};

static void *sleeper(void *arg)
{
    static const struct timespec second = {.tv_sec = 1};
    struct sleepers *s = arg;
    apir_add32(&s->n, 1);
    while (!apir_load_acquire32(&s->stop))
        apir_futex_wait(s->word, apir_load_acquire32(s->word), &second);
    apir_add32(&s->n, UINT32_MAX);
    return NULL;
}

/* On a word of the ring's header. */
static void sleepers_start(struct sleepers *s, uint32_t *word, unsigned n)
{
    pthread_attr_t attr;
    pthread_t thread;
    *s = (struct sleepers){.word = word};
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SLEEPER_STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (unsigned i = 0; i < n; i++)
        WANT(pthread_create(&thread, &attr, sleeper, s) == 0);
    pthread_attr_destroy(&attr);
    WANT(SOON(apir_load_acquire32(&s->n) == n));
}

static void sleepers_stop(struct sleepers *s)
{
    apir_store_release32(&s->stop, 1);
    while (apir_load_acquire32(&s->n)) {
        apir_futex_wake(s->word, 100);
        nap_us(1000);
    }
}

/* On the word that a kick wakes, and on the one that the context's end does. */
static void thousands_asleep(void)
{
    struct own o;
    struct sleepers s;
    start(&o, "");
    struct unix_client c = unix_client_open();
    unix_client_wait_state(&c, APIR_STATE_READY);
    sleepers_start(&s, &c.ring->idle, SLEEPERS);
    for (int i = 0; i < 50; i++) {
        unix_request(c.fd, APIR_UNIX_KICK, 0, 0);
        nap_us(10000); /* they go to sleep again */
    }
    unix_expect_alive(&c);
    sleepers_stop(&s);
    sleepers_start(&s, &c.ring->wake, SLEEPERS);
    nap_us(100000);
    unix_request(c.fd, APIR_UNIX_BLOB_DESTROY, APIR_RING_BLOB_ID, 0);
    unix_client_wait_state(&c, APIR_STATE_LOST);
    sleepers_stop(&s);
    unix_client_close(&c);
    stop(&o);
}

/* ---- much to free -----------------------------------------------------------------------------
 */

/* Memory that is really there, of a client that then lets go of it: of each piece, or of all at
 * once with its end. */
static void fill_and_leave(bool by_end, unsigned pieces, uint64_t mib)
{
    struct unix_client c = unix_client_open();
    unix_client_wait_state(&c, APIR_STATE_READY);
    for (uint32_t i = 1; i <= pieces; i++) {
        int fd;
        if (!SOON((fd = unix_create_blob(c.fd, i, mib << 20)) >= 0))
            not_stopped("no memory: %s", strerror(-fd));
        void *map = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        WANT(map != MAP_FAILED);
        memset(map, 1, mib << 20);
        munmap(map, mib << 20);
        close(fd);
    }
    for (uint32_t i = 1; i <= pieces && !by_end; i++)
        unix_request(c.fd, APIR_UNIX_BLOB_DESTROY, i, 0);
    if (!by_end)
        unix_expect_alive(&c);
    unix_client_close(&c);
}

static void much_to_free(void)
{
    struct own o;
    start(&o, "");
    fill_and_leave(false, 2, 256);
    fill_and_leave(true, 2, 256);
    fill_and_leave(true, 60, 4);
    stop(&o);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static struct mixed {
    uint32_t stop;
} mixed;

static bool mixed_goes_on(void)
{
    return !apir_load_acquire32(&mixed.stop);
}

static void *mixed_kicks(void *arg)
{
    struct unix_client *c = arg;
    while (mixed_goes_on()) {
        unix_request(c->fd, APIR_UNIX_KICK, 0, 0);
        nap_us(500);
    }
    return NULL;
}

static void *mixed_pieces(void *unused)
{
    (void)unused;
    const int fd = unix_connect_greeted();
    close(unix_create_blob(fd, APIR_RING_BLOB_ID, APIR_RING_SIZE));
    while (mixed_goes_on()) {
        for (uint32_t i = 1; i < APIR_BLOBS_MAX; i++)
            close(unix_create_blob(fd, i, i % 2 ? 65536 : 1 << 20));
        for (uint32_t i = 1; i < APIR_BLOBS_MAX; i++)
            unix_request(fd, APIR_UNIX_BLOB_DESTROY, i, 0);
    }
    close(fd);
    return NULL;
}

static void *mixed_connections(void *unused)
{
    (void)unused;
    while (mixed_goes_on()) {
        const int fd = unix_connect();
        if (fd >= 0) {
            (void)unix_greet(fd);
            close(fd);
        }
    }
    return NULL;
}

static void *mixed_contexts(void *unused)
{
    (void)unused;
    while (mixed_goes_on()) {
        const int fd = unix_connect_greeted();
        const int ring = unix_create_blob(fd, APIR_RING_BLOB_ID, APIR_RING_SIZE);
        if (ring >= 0)
            close(ring);
        close(fd);
        nap_us(20000);
    }
    return NULL;
}

/* For a minute, or APIR_RACE_SECONDS; some of the workers flood the log meanwhile. */
static void all_at_once(void)
{
    const char *text = getenv("APIR_RACE_SECONDS");
    const int64_t end = now_ms() + 1000 * (text ? atol(text) : 60);
    void *(*const others[])(void *) = {mixed_pieces, mixed_connections, mixed_contexts};
    pthread_t threads[N(others) + 1];
    struct own o;
    struct sleepers s;
    mixed = (struct mixed){0};
    char loud[256];
    snprintf(loud, sizeof(loud), "%s", process_built("tests/hostile/attacks/loud-worker"));
    own_worker = loud;
    setenv("LOUD", "flood", 1);
    setenv("LOUD_WORKER", process_built("backend/apir-worker"), 1);
    start(&o, "");
    struct unix_client c = unix_client_open();
    unix_client_wait_state(&c, APIR_STATE_READY);
    sleepers_start(&s, &c.ring->idle, 500);
    WANT(pthread_create(&threads[0], NULL, mixed_kicks, &c) == 0);
    for (size_t i = 0; i < N(others); i++)
        WANT(pthread_create(&threads[i + 1], NULL, others[i], NULL) == 0);
    do {
        fill_and_leave(true, 2, 256);
        own_look(&o);
    } while (now_ms() < end);
    apir_store_release32(&mixed.stop, 1);
    for (size_t i = 0; i < N(threads); i++)
        pthread_join(threads[i], NULL);
    sleepers_stop(&s);
    unix_client_close(&c);
    own_worker = NULL;
    stop(&o);
}

/* ---- the log -----------------------------------------------------------------------------------
 */

/* A server whose workers are loud in this way; log: 0, or a descriptor. */
static void start_loud(struct own *o, const char *how, int log)
{
    static char loud[256];
    snprintf(loud, sizeof(loud), "%s", process_built("tests/hostile/attacks/loud-worker"));
    own_worker = loud;
    own_log = log;
    setenv("LOUD", how, 1);
    setenv("LOUD_WORKER", process_built("backend/apir-worker"), 1);
    setenv("APIR_LOG", "warn", 1);
    own_start_with(o, true, "");
    own_worker = NULL;
    own_log = 0;
}

/* Somebody new has a device, and computes. */
static void newcomer_computes(void)
{
    struct guest g;
    own_unix_guest(&g);
    square_runs(&g);
    guest_close(&g);
}

/* The log is a socket, as systemd has it: who shuts it down shuts its own. */
static void log_shut(void)
{
    struct own o;
    int log[2];
    char text[4096] = "";
    WANT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, log) == 0);
    start_loud(&o, "shut", log[1]);
    for (int i = 0; i < 3; i++)
        newcomer_computes();
    own_stop(&o);
    ssize_t n = recv(log[0], text, sizeof(text) - 1, MSG_DONTWAIT);
    if (n <= 0 || !strstr(text, "a driver's line"))
        not_stopped("nothing comes out of the log any more");
    close(log[0]);
    close(log[1]);
    refused("others' lines go on");
}

/* The log is a file. */
static void log_cut(void)
{
    struct own o;
    start_loud(&o, "cut", 0);
    newcomer_computes();
    newcomer_computes();
    char *text = own_log_text(&o);
    unsigned lines = 0;
    for (const char *at = text; (at = strstr(at, "a driver's line\n")); at++)
        lines++;
    if (lines != 3)
        not_stopped("the log has %u of three workers' lines", lines);
    free(text);
    own_stop(&o);
    refused("the log has what all have said");
}

static void log_flooded(void)
{
    struct own o;
    start_loud(&o, "flood", 0);
    newcomer_computes();
    char *text = own_log_text(&o);
    unsigned lines = 0;
    size_t longest = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1, lines++) {
        const size_t length = strcspn(at, "\n");
        longest = length > longest ? length : longest;
        const char *flood = memmem(at, length, "of a flood", 10);
        if (flood && strncmp(at, "apir: worker of context ", 24) != 0 &&
            strncmp(at, "apir: first worker: ", 20) != 0)
            not_stopped("a line without its worker's name: %.*s", (int)length, at);
    }
    if (lines > 2 * (SERVER_OUTPUT_LINES + 1) + 10 || longest > SERVER_OUTPUT_LINE_MAX + 64)
        not_stopped("%u lines of two workers, the longest of %zu bytes", lines, longest);
    if (!strstr(text, "more is left out"))
        not_stopped("it is not said that there was more");
    free(text);
    own_stop(&o);
    refused("%u lines of two workers, the longest of %zu bytes", lines, longest);
}

static void log_escapes(void)
{
    struct own o;
    start_loud(&o, "escape", 0);
    char *text = own_log_text(&o);
    if (strpbrk(text, "\033\r") || strstr(text, "\xc2\x9b"))
        not_stopped("a terminal would obey the log");
    if (strstr(text, "\napir: context 1 is lost") || !strstr(text, "so it says"))
        not_stopped("a line in the server's name: %s", text);
    free(text);
    own_stop(&o);
    refused("cleaned, and with the worker's name");
}

/* Whoever has read the log reads it no longer. */
static void log_unread(void)
{
    struct own o;
    int log[2];
    WANT(pipe2(log, O_CLOEXEC) == 0);
    signal(SIGPIPE, SIG_DFL); /* for the server, which inherits it */
    start_loud(&o, "no", log[1]);
    signal(SIGPIPE, SIG_IGN);
    close(log[0]);
    close(log[1]);
    for (int i = 0; i < 3; i++)
        newcomer_computes();
    own_stop(&o);
    refused("nobody notices");
}

const struct attack_row attack_rows_server[] = {
    {"server-wakes", "thousands of threads asleep where the server wakes", thousands_asleep, 0, 0},
    {"server-frees", "much memory to free", much_to_free, 0, 0},
    {"server-mixed", "wakes, memory, connections, contexts and lines, all at once", all_at_once, 0,
     240},
    {"log-shut", "a worker shuts its standard error down", log_shut, 0, 0},
    {"log-cut", "a worker makes its standard error empty", log_cut, 0, 0},
    {"log-flood", "a worker prints 100,000 lines, and a long one", log_flooded, 0, 0},
    {"log-escapes", "a worker prints what terminals obey, and in the server's name", log_escapes, 0,
     0},
    {"log-unread", "nobody reads the log any more", log_unread, 0, 0},
    {0},
};
