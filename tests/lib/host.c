/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/lib/host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/clock.h"

#define START_MS patient_ms(20000)

void host_make(struct host *h)
{
    const char *tmp = getenv("TMPDIR");
    /* A socket's path is short; mkdtemp does not like a template that was cut. */
    snprintf(h->dir, sizeof(h->dir), "%s/host.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(h->dir))
        die("%s: %s", h->dir, strerror(errno));
    snprintf(h->socket, sizeof(h->socket), "%s/socket", h->dir);
    snprintf(h->log, sizeof(h->log), "%s/log", h->dir);
    snprintf(h->config_file, sizeof(h->config_file), "%s/backend.json", h->dir);
    snprintf(h->transport, sizeof(h->transport), "APIR_TRANSPORT=vtest:%s", h->socket);
    snprintf(h->plugin, sizeof(h->plugin), "GGML_BACKEND_PATH=%s",
             process_built("frontend/libggml-apir.so"));
    h->client_env[0] = h->transport;
    h->client_env[1] = h->plugin;
    h->client_env[2] = "GGML_VK_VISIBLE_DEVICES=";
}

/* The file alone is not enough: it is there from bind() on. */
static bool host_listens(const struct host *h)
{
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512];
    bool listens = false;
    while (f && !listens && fgets(line, sizeof(line), f))
        listens = strstr(line, h->socket) && strstr(line, " 00010000 ");
    if (f)
        fclose(f);
    return listens;
}

void host_start(struct host *h)
{
    FILE *f = fopen(h->config_file, "we");
    if (!f || fprintf(f, "%s\n", h->config) < 0 || fclose(f) != 0)
        die("%s: %s", h->config_file, strerror(errno));
    char server[512], config[128];
    snprintf(server, sizeof(server), "RENDER_SERVER_EXEC_PATH=%s",
             process_built("backend/apir-render-server"));
    snprintf(config, sizeof(config), "APIR_CONFIG=%s", h->config_file);
    const char *env[HOST_ENV_MAX + 4] = {server, config, "GGML_VK_VISIBLE_DEVICES="};
    for (size_t i = 0; i < HOST_ENV_MAX && h->env[i]; i++)
        env[3 + i] = h->env[i];
    /* One process, and so one render server, for all clients, as in a VMM. */
    const char *const argv[] = {"virgl_test_server", "--no-virgl", "--venus",
                                "--socket-path",     h->socket,    "--no-fork",
                                "--multi-clients",   NULL};
    /* As QEMU does; else a client that dies before it has its answer takes the server along. */
    void (*const before)(int) = signal(SIGPIPE, SIG_IGN);
    h->vmm = process_start(argv, env, h->log);
    signal(SIGPIPE, before);
    const int64_t end = now_ms() + START_MS;
    while (!host_listens(h)) {
        if (now_ms() > end || waitpid(h->vmm, NULL, WNOHANG) == h->vmm)
            die("virgl_test_server does not listen on %s; see %s", h->socket, h->log);
        nap_us(1000);
    }
}

void host_stop(struct host *h)
{
    if (h->vmm <= 0)
        return;
    /* Its servers end with it, and their workers with them. */
    process_kill(h->vmm);
    h->vmm = 0;
    unlink(h->socket);
}

void host_fini(struct host *h)
{
    host_stop(h);
    if (*h->dir)
        folder_remove(h->dir);
}

pid_t host_server(const struct host *h)
{
    static struct process all[PROCESSES_MAX];
    const size_t n = process_children(h->vmm, all);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, "apir-render-ser") == 0 && all[i].state != 'Z')
            return all[i].pid;
    }
    return 0;
}

size_t host_workers(const struct host *h, pid_t workers[PROCESSES_MAX])
{
    static struct process all[PROCESSES_MAX];
    const pid_t server = host_server(h);
    const size_t n = server ? process_children(server, all) : 0;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, "apir-worker") == 0 && all[i].state != 'Z')
            workers[found++] = all[i].pid;
    }
    return found;
}
