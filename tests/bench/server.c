/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/bench/server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/lib/clock.h"

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

int server_post(const struct server *s, const char *path, const char *body, size_t size)
{
    char head[256];
    const int n = snprintf(head, sizeof(head),
                           "POST %s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
                           "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                           path, size);
    int fd = server_connect(s->path);
    if (fd < 0)
        program_fail(&s->program, "its socket takes no connection");
    send_text(s, fd, head, (size_t)n);
    send_text(s, fd, body, size);
    return fd;
}

void server_ask(const struct server *s, const char *path, const char *body)
{
    cleanup_fd int fd = server_post(s, path, body, strlen(body));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char first[16] = "", bytes[4096];
    ssize_t n;
    do {
        if (poll(&p, 1, SERVER_WAIT_MS) <= 0)
            program_fail(&s->program, "it does not answer");
        n = read(fd, bytes, sizeof(bytes));
        if (n < 0 && errno != EINTR)
            program_fail(&s->program, "its answer cannot be read");
        if (n > 0 && !first[0])
            snprintf(first, sizeof(first), "%.*s", (int)n, bytes);
    } while (n != 0);
    if (!strstr(first, " 200"))
        program_fail(&s->program, first);
}

/* It listens before it has loaded the model, and answers 503 then. */
static void server_wait(const struct server *s)
{
    static const char question[] =
        "GET /health HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
    const int64_t end = now_ms() + SERVER_WAIT_MS;
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

void server_start(const struct options *o, struct server *s, const struct option_side *side,
                  int slots, int context, const char *const more[])
{
    char slots_text[16], context_text[16], end[80];
    snprintf(slots_text, sizeof(slots_text), "%d", slots);
    snprintf(context_text, sizeof(context_text), "%d", slots * context);
    /* The name is ours: nobody else's process id is. */
    snprintf(end, sizeof(end), "%d-%s.sock", (int)getpid(), side->name);
    program_path(s->path, end);
    unlink(s->path);
    const char *argv[PROGRAM_ARGUMENTS_MAX + 1] = {
        "llama-server", "-m", o->model, "-np", slots_text, "-c", context_text, "--host", s->path};
    program_arguments(argv, more);
    program_arguments(argv, o->list);
    program_start(&s->program, side, argv, false);
    server_wait(s);
}

void server_stop(struct server *s)
{
    program_stop(&s->program);
    unlink(s->path);
}
