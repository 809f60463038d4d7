/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/output.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/server/system.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/text.h"

#define OUTPUT_PERIOD_MS 60000
#define OUTPUT_READ      1024       /* at once, so that others get their turn */
#define OUTPUT_REST      (64 << 10) /* of one that ends: more than a pipe holds is not read */

static unsigned output_share(unsigned lines)
{
    return apir_log_enabled(APIR_LOG_INFO) ? 10 * lines : lines;
}

static void output_ready(void *user, uint32_t events);

static void output_resume(void *user)
{
    struct server_output *output = user;
    server_loop_modify(output->loop, &output->source, SERVER_LOOP_IN);
}

/* For a minute it is not read: what does not fit into its pipe meanwhile is lost. */
static void output_pause(struct server_output *output, const char *why)
{
    apir_log_forward(output->who, why);
    server_loop_modify(output->loop, &output->source, 0);
    server_timer_arm(output->loop, &output->resume, server_now_ms() + OUTPUT_PERIOD_MS,
                     output_resume, output);
}

/* False: it has said enough. Asked for all that is read, also where nothing of it is printed, so
 * that to read it has an end, too. */
static bool output_may_say(struct server_output *output)
{
    const int64_t now = server_now_ms();
    if (apir_log_enabled(APIR_LOG_DEBUG) || output->apart)
        return true;
    if (output->resume.armed)
        return false;
    if (!server_quota_take(&output->lines, output_share(SERVER_OUTPUT_LINES), OUTPUT_PERIOD_MS,
                           now)) {
        output_pause(output, "(says too much: more is left out for a minute)");
        return false;
    }
    if (!server_quota_take(&output->all->lines, output_share(SERVER_OUTPUT_LINES_ALL),
                           OUTPUT_PERIOD_MS, now)) {
        output_pause(output, "(all workers say too much: more is left out for a minute)");
        return false;
    }
    return true;
}

static void output_line(struct server_output *output)
{
    char *text = output->line;
    text[output->len] = '\0';
    output->len = 0;
    output->cut = 0;
    apir_text_clean(text);
    if (strncmp(text, "apir: ", 6) == 0)
        text += 6;
    if (output->heard)
        output->heard(output->user, text);
    if (output->apart || !output_may_say(output) || !*text)
        return;
    apir_log_forward(output->who, text);
}

static void output_take(struct server_output *output, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n')
            output_line(output);
        else if (output->len < SERVER_OUTPUT_LINE_MAX)
            output->line[output->len++] = bytes[i] ? bytes[i] : '?';
        else if (++output->cut % SERVER_OUTPUT_LINE_MAX == 0)
            (void)output_may_say(output);
    }
}

/* Returns how much there was: 0, nothing more for now or for ever. */
static size_t output_read(struct server_output *output)
{
    char bytes[OUTPUT_READ];
    ssize_t n = read(output->fd, bytes, sizeof(bytes));
    if (n > 0)
        output_take(output, bytes, (size_t)n);
    return n > 0 ? (size_t)n : 0;
}

static void output_ready(void *user, uint32_t events)
{
    struct server_output *output = user;
    if (events & SERVER_LOOP_IN)
        (void)output_read(output);
    else
        server_output_close(output); /* nobody has the other end any more */
}

/* As much as a pipe holds. */
static void output_drain(struct server_output *output)
{
    for (size_t all = 0, n; all < OUTPUT_REST && !output->resume.armed; all += n) {
        n = output_read(output);
        if (!n)
            break;
    }
}

int server_output_open(struct server_output *output, struct server_loop *loop,
                       struct server_outputs *all, const char *who, int *ret_fd)
{
    int fds[2];
    int rc = server_pipe(fds);
    if (rc < 0)
        return rc;
    cleanup_fd int ours = fds[0], theirs = fds[1];
    if (apir_log_enabled(APIR_LOG_DEBUG)) /* all of it is wanted: it waits where we are slow */
        (void)fcntl(theirs, F_SETFL, 0);
    *output = (struct server_output){0};
    rc = server_loop_add(loop, &output->source, ours, SERVER_LOOP_IN, output_ready, output);
    if (rc < 0)
        return rc;
    output->loop = loop;
    output->all = all;
    output->fd = steal_fd(&ours);
    snprintf(output->who, sizeof(output->who), "%s", who);
    *ret_fd = steal_fd(&theirs);
    return 0;
}

void server_output_hear(struct server_output *output, void (*heard)(void *user, const char *line),
                        void *user)
{
    if (!output->loop)
        return;
    output->heard = NULL;
    output_drain(output);
    output->heard = heard;
    output->user = user;
}

void server_output_move(struct server_output *from, struct server_output *to, const char *who)
{
    if (!from->loop)
        return;
    output_drain(from);
    const bool paused = from->resume.armed;
    const int64_t resume_ms = from->resume.at_ms;
    server_loop_remove(from->loop, &from->source);
    server_timer_disarm(from->loop, &from->resume);
    *to = *from;
    *from = (struct server_output){0};
    to->heard = NULL;
    snprintf(to->who, sizeof(to->who), "%s", who);
    if (server_loop_add(to->loop, &to->source, to->fd, paused ? 0 : SERVER_LOOP_IN, output_ready,
                        to) < 0)
        server_output_close(to);
    else if (paused)
        server_timer_arm(to->loop, &to->resume, resume_ms, output_resume, to);
}

void server_output_close(struct server_output *output)
{
    if (!output->loop)
        return;
    output_drain(output);
    if (output->len)
        output_line(output);
    server_loop_remove(output->loop, &output->source);
    server_timer_disarm(output->loop, &output->resume);
    apir_close_fd(&output->fd);
    *output = (struct server_output){0};
}
