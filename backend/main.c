/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-render-server, started by libvirglrenderer in place of its own render
 * server (RENDER_SERVER_EXEC_PATH), with one socket to the VMM.
 *
 * Process model:
 *   - This process: one thread, one event loop. It owns the sockets of all apir
 *     contexts, their memfds and their fences, and never reads what a guest
 *     writes into a ring. It must outlive every worker: a VMM that loses a
 *     context's socket spins.
 *   - apir-worker, one process per apir context, started with its ring; it reads
 *     the guest's bytes, loads the host's ggml, and may die at any time.
 *   - virgl_render_server, at most one, started with the first context that is
 *     not ours; its workers talk to the VMM directly.
 * When this process ends (the VMM closed the socket, or killed it) the kernel
 * kills the workers, and the stock server ends at the end of its own socket.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/config.h"
#include "backend/server_child.h"
#include "backend/server_client.h"
#include "backend/server_loop.h"
#include "protocol/error.h"
#include "protocol/log.h"
#include "protocol/shm.h"

#ifndef APIR_VERSION
#define APIR_VERSION "0.1"
#endif

static const char usage[] =
    "usage: apir-render-server --socket-fd FD\n"
    "\n"
    "Serves GPU contexts of the containers of one virtual machine. libvirglrenderer\n"
    "starts it: set RENDER_SERVER_EXEC_PATH to its path for the VMM.\n"
    "\n"
    "  --socket-fd FD   the SOCK_SEQPACKET socket to libvirglrenderer\n"
    "  --help           this text\n"
    "  --version        version, and the protocol's\n"
    "\n"
    "APIR_CONFIG  configuration file (default " APIR_CONFIG_DEFAULT_PATH ")\n"
    "APIR_LOG     error, warn (default), info or debug, to stderr\n";

/* Returns the fd, or -1 where the program is to end with *ret_status. */
static int parse_options(int argc, char **argv, int *ret_status)
{
    static const struct option options[] = {
        {"socket-fd", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {0},
    };
    int fd = -1;
    int opt;
    *ret_status = 2;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *end = NULL;
        long number;
        switch (opt) {
        case 's':
            errno = 0;
            number = strtol(optarg, &end, 10);
            if (errno || end == optarg || *end || number < 3 || number > INT_MAX) {
                fprintf(stderr, "apir-render-server: --socket-fd wants a descriptor above 2\n");
                return -1;
            }
            fd = (int)number;
            break;
        case 'h':
        case 'v':
            *ret_status = 0;
            if (opt == 'h')
                fputs(usage, stdout);
            else
                printf("apir-render-server %s (protocol %u.%u)\n", APIR_VERSION,
                       APIR_PROTOCOL_MAJOR, APIR_PROTOCOL_MINOR);
            return -1;
        default:
            fputs(usage, stderr);
            return -1;
        }
    }
    if (optind < argc || fd < 0) {
        fputs(usage, stderr);
        return -1;
    }
    int type = 0;
    socklen_t size = sizeof(type);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET) {
        fprintf(stderr, "apir-render-server: descriptor %d is no SOCK_SEQPACKET socket\n", fd);
        return -1;
    }
    return fd;
}

/*
 * 0 to 2 are open, so that nothing of ours gets their numbers; whatever else
 * the VMM leaked into us is closed, so that its sockets end when it closes them.
 */
static int settle_fds(int socket_fd)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    close(fd);
    if (socket_fd > 3 && close_range(3, (unsigned)socket_fd - 1, 0) < 0)
        return -errno;
    return close_range((unsigned)socket_fd + 1, ~0u, 0) < 0 ? -errno : 0;
}

/* `name` in the folder of this very program. Returns 0 or -errno. */
static int path_beside_us(const char *name, char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n < 0)
        return -errno;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return -ENOENT;
    size_t left = size - (size_t)(slash + 1 - path);
    return snprintf(slash + 1, left, "%s", name) >= (int)left ? -ENAMETOOLONG : 0;
}

static int serve(int socket_fd, struct apir_error *err)
{
    struct server_loop loop;
    struct server_children children;
    struct server_client client;
    struct apir_config config;
    char beside[PATH_MAX];

    int ret = settle_fds(socket_fd);
    if (ret < 0)
        return apir_error_sys(err, -ret, "cannot settle the descriptors");

    struct server_client_setup setup = {
        .loop = &loop,
        .children = &children,
        .config = &config,
        .config_path = apir_config_find(),
    };
    struct apir_error broken = {0};
    if (apir_config_load(setup.config_path, &config, &broken) < 0) {
        apir_log(APIR_LOG_ERROR, "%s; no apir context is served before this is put right",
                 broken.msg);
        setup.refusal = "the host's configuration is broken; its log says where";
    }
    setup.worker_path = config.worker;
    if (!setup.worker_path) {
        ret = path_beside_us("apir-worker", beside, sizeof(beside));
        setup.worker_path = beside;
    }
    if (ret < 0)
        apir_error_sys(err, -ret, "cannot tell where this program lies");
    else if ((ret = server_loop_init(&loop)) < 0)
        apir_error_sys(err, -ret, "cannot make the event loop");
    else if ((ret = server_children_init(&children, &loop)) < 0)
        apir_error_sys(err, -ret, "cannot watch child processes");
    else if ((ret = server_client_init(&client, &setup, socket_fd)) < 0)
        apir_error_sys(err, -ret, "cannot use the socket");
    else {
        ret = server_loop_run(&loop);
        if (ret < 0)
            apir_error_sys(err, -ret, "event loop");
        server_client_fini(&client);
        server_children_fini(&children);
        server_loop_fini(&loop);
    }
    apir_config_fini(&config);
    return ret;
}

int main(int argc, char **argv)
{
    int status = 0;
    int socket_fd = parse_options(argc, argv, &status);
    if (socket_fd < 0)
        return status;

    const char *level_name = getenv("APIR_LOG");
    enum apir_log_level level;
    if (apir_log_parse_level(level_name, &level) == 0)
        apir_log_set_level(level);
    else if (level_name && *level_name)
        apir_log(APIR_LOG_WARN, "APIR_LOG=%s is not one of error, warn, info, debug", level_name);

    struct apir_error err = {0};
    if (serve(socket_fd, &err) < 0) {
        apir_log(APIR_LOG_ERROR, "%s", err.msg);
        return 1;
    }
    return 0;
}
