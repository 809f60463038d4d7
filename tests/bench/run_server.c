/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `server`: llama-server with some slots and as many clients at a time, whose prompts and answers
 * have different lengths, so that its graph changes often. A server for each side is there all the
 * time; in a pair, each gets the same requests.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/bench/program.h"
#include "tests/bench/stats.h"
#include "tests/lib/clock.h"

enum {
    SLOTS_MAX = 64,
    CONTEXT = 1024, /* of each slot */
    PROMPT_MAX = 512,
    TOKEN_MAX = 1000, /* ids that every vocabulary has */
    LINE_SIZE = 1 << 14,
    WAIT_MS = 300000, /* for a server, and for any of its bytes */
};

struct server {
    struct program program;
    char path[96]; /* of its socket */
};

/* One request under way. fd -1: none. */
struct request {
    int fd;
    uint64_t sent_ns;
    double first; /* seconds to the first token; 0: not yet */
    int tokens;
    size_t n;
    char line[LINE_SIZE];
};

/* Of one server's turn. */
struct turn_sum {
    double *firsts;
    size_t n;
    double tokens;
};

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int server_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void send_text(const struct server *s, int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t n = send(fd, text, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            program_fail(&s->program, "it takes no request");
        text += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

/* ---- requests -------------------------------------------------------------------------- */

/* The i-th of a pair, the same on all sides, and another prompt than in every other pair. */
static void request_send(const struct server *s, struct request *r, int pair, int i)
{
    static const int prompts[] = {16, 256, 48, 512, 32, 128, 64, 192};
    static const int answers[] = {64, 16, 96, 32, 48, 24, 128, 40};
    uint32_t state = (uint32_t)(pair * 1000 + i + 1);
    char body[PROMPT_MAX * 5 + 256], head[256];
    size_t n = (size_t)snprintf(body, sizeof(body), "{\"prompt\":[1");
    for (int k = 1; k < prompts[i % 8]; k++)
        n +=
            (size_t)snprintf(body + n, sizeof(body) - n, ",%u", 3 + next(&state) % (TOKEN_MAX - 3));
    n += (size_t)snprintf(
        body + n, sizeof(body) - n,
        "],\"n_predict\":%d,\"stream\":true,\"ignore_eos\":true,\"temperature\":0}",
        answers[i % 8]);
    const size_t size = (size_t)snprintf(head, sizeof(head),
                                         "POST /completion HTTP/1.1\r\nHost: bench\r\n"
                                         "Connection: close\r\nContent-Type: application/json\r\n"
                                         "Content-Length: %zu\r\n\r\n",
                                         n);
    *r = (struct request){.fd = server_connect(s->path), .sent_ns = now_ns()};
    if (r->fd < 0)
        program_fail(&s->program, "its socket takes no connection");
    send_text(s, r->fd, head, size);
    send_text(s, r->fd, body, n);
}

/* A line of its answer: headers, sizes of pieces, and each token's event. */
static void request_line(const struct server *s, struct request *r)
{
    if (strncmp(r->line, "HTTP/", 5) == 0 && !strstr(r->line, " 200"))
        program_fail(&s->program, r->line);
    if (strncmp(r->line, "data: {", 7) != 0)
        return;
    if (!strstr(r->line, "\"tokens_predicted\"") && strstr(r->line, "\"error\""))
        program_fail(&s->program, r->line);
    if (r->first == 0)
        r->first = (double)(now_ns() - r->sent_ns) / 1e9;
    const char *last = strstr(r->line, "\"tokens_predicted\":");
    if (last && strstr(r->line, "\"stop\":true"))
        r->tokens = atoi(last + strlen("\"tokens_predicted\":"));
}

/* What has come. False: that was all. Longer lines than ours are cut: their end says nothing. */
static bool request_read(const struct server *s, struct request *r)
{
    char bytes[4096];
    const ssize_t n = read(r->fd, bytes, sizeof(bytes));
    if (n <= 0)
        return false;
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (r->n + 1 < sizeof(r->line))
                r->line[r->n++] = bytes[i];
            continue;
        }
        r->line[r->n] = '\0';
        r->n = 0;
        request_line(s, r);
    }
    return true;
}

static void request_end(const struct server *s, struct request *r, struct turn_sum *sum)
{
    if (r->first == 0 || r->tokens <= 0)
        program_fail(&s->program, "an answer ended before its last token");
    close(r->fd);
    r->fd = -1;
    sum->firsts[sum->n++] = r->first;
    sum->tokens += r->tokens;
}

/* ---- turns ----------------------------------------------------------------------------- */

/* As many at a time as there are slots. The sum's firsts are to be freed. */
static struct turn_sum server_turn(const struct options *o, const struct server *s, int pair)
{
    struct turn_sum sum = {.firsts = allocate((size_t)o->requests, sizeof(double))};
    cleanup_free struct request *all = allocate((size_t)o->slots, sizeof(*all));
    struct pollfd polls[SLOTS_MAX];
    int sent = 0, done = 0;
    for (int i = 0; i < o->slots; i++)
        all[i].fd = -1;
    while (done < o->requests) {
        for (int i = 0; i < o->slots; i++) {
            if (all[i].fd < 0 && sent < o->requests)
                request_send(s, &all[i], pair, sent++);
            polls[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
        }
        if (poll(polls, (nfds_t)o->slots, WAIT_MS) <= 0)
            program_fail(&s->program, "it does not answer");
        for (int i = 0; i < o->slots; i++) {
            if (polls[i].fd < 0 || !polls[i].revents || request_read(s, &all[i]))
                continue;
            request_end(s, &all[i], &sum);
            done++;
        }
    }
    return sum;
}

static void turn_sample(const struct options *o, const struct server *s, int pair)
{
    const uint64_t began = now_ns();
    struct turn_sum sum = server_turn(o, s, pair);
    const double seconds = (double)(now_ns() - began) / 1e9;
    const char *side = s->program.side->name;
    stats_sort(sum.firsts, sum.n);
    options_sample(o, side, "server",
                   (struct sample){.pair = pair, .n = sum.tokens, .value = seconds});
    options_sample(o, side, "first-p50",
                   (struct sample){.pair = pair, .value = stats_percentile(sum.firsts, sum.n, 50)});
    options_sample(o, side, "first-p99",
                   (struct sample){.pair = pair, .value = stats_percentile(sum.firsts, sum.n, 99)});
    free(sum.firsts);
}

/* ---- servers --------------------------------------------------------------------------- */

static void server_start(const struct options *o, struct server *s, const struct option_side *side)
{
    char slots[16], context[16], end[80];
    snprintf(slots, sizeof(slots), "%d", o->slots);
    snprintf(context, sizeof(context), "%d", o->slots * CONTEXT);
    /* The name is ours: nobody else's process id is. */
    snprintf(end, sizeof(end), "%d-%s.sock", (int)getpid(), side->name);
    program_path(s->path, end);
    unlink(s->path);
    const char *argv[] = {"llama-server", "-m",    o->model, "-np",   slots,
                          "-c",           context, "--host", s->path, NULL};
    program_start(&s->program, side, argv, false);
}

/* It listens before it has loaded the model, and answers 503 then. */
static void server_wait(const struct server *s)
{
    static const char question[] =
        "GET /health HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
    const int64_t end = now_ms() + WAIT_MS;
    char answer[64] = "";
    while (!strstr(answer, " 200")) {
        if (program_ended(&s->program) || now_ms() > end)
            program_fail(&s->program, "it does not get ready");
        nap_us(20000);
        cleanup_fd int fd = server_connect(s->path);
        if (fd < 0)
            continue;
        send_text(s, fd, question, sizeof(question) - 1);
        const ssize_t n = read(fd, answer, sizeof(answer) - 1);
        answer[n > 0 ? n : 0] = '\0';
    }
}

void command_server(const struct options *o)
{
    struct server servers[OPTIONS_SIDES_MAX] = {0};
    for (size_t i = 0; i < o->n_sides; i++) {
        server_start(o, &servers[i], &o->sides[i]);
        server_wait(&servers[i]);
    }
    for (size_t i = 0; i < o->n_sides; i++) /* warm-up */
        free(server_turn(o, &servers[i], -1).firsts);
    for (int pair = o->first; pair < o->first + o->pairs; pair++) {
        for (size_t turn = 0; turn < o->n_sides; turn++)
            turn_sample(o, &servers[options_turn(o, pair, turn)], pair);
    }
    for (size_t i = 0; i < o->n_sides; i++) {
        program_stop(&servers[i].program);
        unlink(servers[i].path);
    }
}
