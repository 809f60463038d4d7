/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `server`: llama-server with some slots and as many clients at a time, whose prompts and answers
 * have different lengths, so that its graph changes often. A server for each side is there all the
 * time; in a pair, each gets the same requests.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/bench/proc.h"
#include "tests/bench/server.h"
#include "tests/bench/stats.h"
#include "tests/lib/clock.h"

enum {
    SLOTS_MAX = 64,
    CONTEXT = 1024, /* of each slot */
    PROMPT_MAX = 512,
    TOKEN_MAX = 1000, /* ids that every vocabulary has */
    LINE_SIZE = 1 << 14,
};

/* One request under way. fd -1: none. */
struct request {
    int fd;
    uint64_t sent_ns;
    double first; /* seconds to the first token, or embedding; 0: not yet */
    int prompt, tokens;
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

/* ---- requests -------------------------------------------------------------------------- */

/* The i-th of a pair, the same on all sides, and another prompt than in every other pair. */
static void request_send(const struct options *o, const struct server *s, struct request *r,
                         int pair, int i)
{
    static const int prompts[] = {16, 256, 48, 512, 32, 128, 64, 192};
    static const int answers[] = {64, 16, 96, 32, 48, 24, 128, 40};
    uint32_t state = (uint32_t)(pair * 1000 + i + 1);
    char body[PROMPT_MAX * 5 + 256];
    /* A prompt of a new length is a new graph, and users seldom repeat one: 128 lengths. */
    const int prompt = prompts[i % 8] - (int)(next(&state) % 16);
    size_t n =
        (size_t)snprintf(body, sizeof(body), "{\"%s\":[1", o->embeddings ? "content" : "prompt");
    for (int k = 1; k < prompt; k++)
        n +=
            (size_t)snprintf(body + n, sizeof(body) - n, ",%u", 3 + next(&state) % (TOKEN_MAX - 3));
    n += (size_t)snprintf(body + n, sizeof(body) - n, "]");
    if (!o->embeddings)
        n += (size_t)snprintf(
            body + n, sizeof(body) - n,
            ",\"n_predict\":%d,\"stream\":true,\"ignore_eos\":true,\"temperature\":0",
            answers[i % 8]);
    n += (size_t)snprintf(body + n, sizeof(body) - n, "}");
    *r = (struct request){.sent_ns = now_ns(), .prompt = prompt};
    r->fd = server_post(s, o->embeddings ? "/embedding" : "/completion", body, n);
}

/* A line of its answer: headers, sizes of pieces, and each token's event. An embedding is one line
 * of JSON, longer than ours. */
static void request_line(const struct server *s, struct request *r)
{
    if (strncmp(r->line, "HTTP/", 5) == 0 && !strstr(r->line, " 200"))
        program_fail(&s->program, r->line);
    if (strstr(r->line, "\"embedding\":")) {
        r->first = (double)(now_ns() - r->sent_ns) / 1e9;
        r->tokens = r->prompt;
    }
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
    if (n <= 0) {
        r->line[r->n] = '\0';
        request_line(s, r); /* the last line may have no end */
        return false;
    }
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
                request_send(o, s, &all[i], pair, sent++);
            polls[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
        }
        if (poll(polls, (nfds_t)o->slots, SERVER_WAIT_MS) <= 0)
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

/* Seconds of CPU of a process and all below it so far, and what they hold in MiB. */
struct usage {
    double cpu, memory;
};

static struct usage usage_of(pid_t root)
{
    const struct proc_tree tree = proc_tree(root);
    struct usage u = {0};
    for (size_t i = 0; i < tree.n; i++) {
        u.cpu += proc_cpu(tree.all[i].pid);
        u.memory += proc_share(tree.all[i].pid);
    }
    return u;
}

/* What a turn took of llama-server ("client"), and of the host's processes for it ("host"). */
static void usage_sample(const struct options *o, const char *side, const char *whose, int pair,
                         double tokens, const struct usage *before, pid_t root)
{
    const struct usage after = usage_of(root);
    char metric[32];
    snprintf(metric, sizeof(metric), "cpu-%s", whose);
    options_sample(o, side, metric,
                   (struct sample){.pair = pair,
                                   .value = (after.cpu - before->cpu) * 1000 / tokens,
                                   .unit = "ms/token"});
    snprintf(metric, sizeof(metric), "memory-%s", whose);
    options_sample(o, side, metric,
                   (struct sample){.pair = pair, .value = after.memory, .unit = "MiB"});
}

static void turn_sample(const struct options *o, const struct server *s, int pair)
{
    const bool hosted = o->server > 0 && program_is_remoted(s->program.side);
    const struct usage client = usage_of(s->program.pid);
    const struct usage host = hosted ? usage_of(o->server) : (struct usage){0};
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
    usage_sample(o, side, "client", pair, sum.tokens, &client, s->program.pid);
    if (hosted)
        usage_sample(o, side, "host", pair, sum.tokens, &host, o->server);
}

void command_server(const struct options *o)
{
    static const char *const embeddings[] = {"--embeddings", "--pooling", "mean", NULL};
    static const char *const none[] = {NULL};
    struct server servers[OPTIONS_SIDES_MAX] = {0};
    for (size_t i = 0; i < o->n_sides; i++)
        server_start(o, &servers[i], &o->sides[i], o->slots, CONTEXT,
                     o->embeddings ? embeddings : none);
    for (size_t i = 0; i < o->n_sides; i++) /* warm-up */
        free(server_turn(o, &servers[i], -1).firsts);
    for (int pair = o->first; pair < o->first + o->pairs; pair++) {
        for (size_t turn = 0; turn < o->n_sides; turn++)
            turn_sample(o, &servers[options_turn(o, pair, turn)], pair);
    }
    for (size_t i = 0; i < o->n_sides; i++)
        server_stop(&servers[i]);
}

/* ---- a slot's state -------------------------------------------------------------------- */

/* A prompt in the server's only slot, which is then saved to a file and restored from it. */
static void state_turn(const struct options *o, const struct server *s, int pair)
{
    static const char *const what[] = {"save", "restore"};
    uint32_t state = (uint32_t)pair + 1;
    const size_t most = (size_t)o->pp * 5 + 256;
    cleanup_free char *body = allocate(most, 1);
    size_t n = (size_t)snprintf(body, most, "{\"prompt\":[1");
    for (int k = 1; k < o->pp; k++)
        n += (size_t)snprintf(body + n, most - n, ",%u", 3 + next(&state) % (TOKEN_MAX - 3));
    snprintf(body + n, most - n, "],\"n_predict\":1,\"id_slot\":0,\"cache_prompt\":true}");
    server_ask(s, "/completion", body);
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/slots/0?action=%s", what[i]);
        const uint64_t began = now_ns();
        server_ask(s, path, "{\"filename\":\"apir-bench.state\"}");
        if (pair >= 0)
            options_sample(
                o, s->program.side->name, what[i],
                (struct sample){.pair = pair, .value = (double)(now_ns() - began) / 1e9});
    }
}

void command_state(const struct options *o)
{
    struct server servers[OPTIONS_SIDES_MAX] = {0};
    char folder[96];
    program_path(folder, "XXXXXX");
    if (!mkdtemp(folder))
        fail("%s: %m", folder);
    const char *const more[] = {"--slot-save-path", folder, NULL};
    for (size_t i = 0; i < o->n_sides; i++) {
        server_start(o, &servers[i], &o->sides[i], 1, o->pp + CONTEXT, more);
        state_turn(o, &servers[i], -1); /* warm-up */
    }
    for (int pair = o->first; pair < o->first + o->pairs; pair++) {
        for (size_t turn = 0; turn < o->n_sides; turn++)
            state_turn(o, &servers[options_turn(o, pair, turn)], pair);
    }
    for (size_t i = 0; i < o->n_sides; i++)
        server_stop(&servers[i]);
    char file[128];
    snprintf(file, sizeof(file), "%s/apir-bench.state", folder);
    unlink(file);
    rmdir(folder);
}
