/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-render-server, in one of two places:
 *   - started by libvirglrenderer in place of its own render server
 *     (RENDER_SERVER_EXEC_PATH), with one socket to the VMM;
 *   - a service of the host, which listens on a socket for the containers of this
 *     very machine (the `unix` transport).
 *
 * Process model:
 *   - This process: one thread, one event loop. It owns the sockets of all apir
 *     contexts, their memfds and their fences, and never reads what a guest
 *     writes into a ring. It must outlive every worker: a VMM that loses a
 *     context's socket spins.
 *   - apir-worker, one process per apir context, started with its ring; it reads
 *     the guest's bytes, loads the host's ggml, and may die at any time.
 *   - virgl_render_server, at most one, started with the first context of a VMM that
 *     is not ours; its workers talk to the VMM directly.
 * When this process ends (the VMM closed the socket, SIGTERM, or it was killed) the
 * kernel kills the workers, and the stock server ends at the end of its own socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/config/config.h"
#include "backend/server/cgroup.h"
#include "backend/server/child.h"
#include "backend/server/vmm/framing.h"
#include "backend/server/vmm/vmm.h"
#include "backend/server/unix/listen.h"
#include "common/root.h"
#include "backend/server/loop.h"
#include "backend/server/share/mps.h"
#include "backend/server/machine.h"
#include "backend/server/system.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "protocol/shm.h"

#define LOG_LINES 600u /* per minute: guests can cause them */

static const char usage[] =
    "usage: apir-render-server --socket-fd FD\n"
    "       apir-render-server --listen PATH [--group NAME]\n"
    "       apir-render-server --listen-fds\n"
    "\n"
    "Serves GPU contexts of containers: of those in one virtual machine, where\n"
    "libvirglrenderer starts it (set RENDER_SERVER_EXEC_PATH to its path for the VMM),\n"
    "or of those on this machine, on a socket.\n"
    "\n"
    "  --socket-fd FD   the Unix socket to libvirglrenderer, SOCK_SEQPACKET or SOCK_STREAM\n"
    "  --listen PATH    make a socket at PATH and serve the unix transport on it\n"
    "  --group NAME     of the socket; who is in it may connect\n"
    "  --listen-fds     the same on the socket that systemd passes\n"
    "  --help           this text\n"
    "  --version        version, and the protocol's\n"
    "\n"
    "APIR_CONFIG  configuration file (default " APIR_CONFIG_DEFAULT_PATH ")\n"
    "APIR_LOG     error, warn (default), info or debug, to stderr\n";

struct options {
    int socket_fd;      /* -1: none */
    const char *listen; /* NULL: none */
    const char *group;
    bool listen_fds;
};

static int parse_fd(const char *text)
{
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < 3 || number > INT_MAX) {
        fprintf(stderr, "apir-render-server: --socket-fd wants a descriptor above 2\n");
        return -1;
    }
    struct server_framing framing;
    if (server_framing_init(&framing, (int)number) < 0) {
        fprintf(stderr,
                "apir-render-server: descriptor %ld is no Unix socket of libvirglrenderer's\n",
                number);
        return -1;
    }
    return (int)number;
}

/* Returns false where the program is to end with *ret_status. */
static bool parse_options(int argc, char **argv, struct options *o, int *ret_status)
{
    static const struct option options[] = {
        {"socket-fd", required_argument, NULL, 's'},
        {"listen", required_argument, NULL, 'l'},
        {"group", required_argument, NULL, 'g'},
        {"listen-fds", no_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {0},
    };
    int opt;
    *o = (struct options){.socket_fd = -1};
    *ret_status = 2;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 's':
            o->socket_fd = parse_fd(optarg);
            if (o->socket_fd < 0)
                return false;
            break;
        case 'l':
            o->listen = optarg;
            break;
        case 'g':
            o->group = optarg;
            break;
        case 'f':
            o->listen_fds = true;
            break;
        case 'h':
        case 'v':
            *ret_status = 0;
            if (opt == 'h')
                fputs(usage, stdout);
            else
                printf("apir-render-server %s (protocol %u.%u)\n", APIR_VERSION,
                       APIR_PROTOCOL_MAJOR, APIR_PROTOCOL_MINOR);
            return false;
        default:
            fputs(usage, stderr);
            return false;
        }
    }
    const int modes = (o->socket_fd >= 0) + (o->listen ? 1 : 0) + o->listen_fds;
    if (optind < argc || modes != 1 || (o->group && !o->listen)) {
        fputs(usage, stderr);
        return false;
    }
    return true;
}

/*
 * 0 to 2 are open, so that nothing of ours gets their numbers; whatever else
 * the VMM leaked into us is closed, so that its sockets end when it closes them.
 * socket_fd: the one to keep.
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
    int rc = socket_fd > 3 ? server_close_range(3, socket_fd - 1) : 0;
    return rc < 0 ? rc : server_close_range(socket_fd + 1, -1);
}

/* `name` in the folder of this very program. Returns 0 or -errno. */
static int path_beside_us(const char *name, char *path, size_t size)
{
    int rc = server_self_path(path, size);
    if (rc < 0)
        return rc;
    char *slash = strrchr(path, '/');
    if (!slash)
        return -ENOENT;
    size_t left = size - (size_t)(slash + 1 - path);
    return snprintf(slash + 1, left, "%s", name) >= (int)left ? -ENAMETOOLONG : 0;
}

/* What both kinds of server stand on, and where it lies. */
struct server {
    struct server_env env;
    struct server_loop loop;
    struct server_children children;
    struct server_cgroups groups;
    struct server_mps mps;
    struct apir_config config;
    char beside[PATH_MAX];
};

/* A broken configuration is told to the guests, which see no log of ours. */
static void server_broken(struct server *server, const struct apir_error *broken)
{
    apir_log(APIR_LOG_ERROR, "%s; no apir context is served before this is put right", broken->msg);
    server->env.refusal = "the host's configuration is broken; its log says where";
}

static int server_init(struct server *server, struct apir_error *err)
{
    *server = (struct server){.env = {.loop = &server->loop,
                                      .children = &server->children,
                                      .config = &server->config,
                                      .config_path = apir_config_find(),
                                      .mps = &server->mps}};
    struct apir_error broken = {0};
    if (apir_config_load(server->env.config_path, &server->config, &broken) < 0)
        server_broken(server, &broken);
    if (apir_is_root())
        apir_log(APIR_LOG_WARN,
                 "this server runs as root, and so do its workers: give the VMM, or the service, a "
                 "user of its own (\"sandbox\": \"required\" insists on it)");
    int rc = 0;
    server->env.worker_path = server->config.worker;
    if (!server->env.worker_path) {
        rc = path_beside_us("apir-worker", server->beside, sizeof(server->beside));
        server->env.worker_path = server->beside;
    }
    if (rc < 0)
        apir_error_sys(err, -rc, "cannot tell where this program lies");
    else if ((rc = server_loop_init(&server->loop)) < 0)
        apir_error_sys(err, -rc, "cannot make the event loop");
    else if ((rc = server_children_init(&server->children, &server->loop)) < 0) {
        apir_error_sys(err, -rc, "cannot watch child processes");
        server_loop_fini(&server->loop);
    }
    if (rc < 0)
        apir_config_fini(&server->config);
    return rc;
}

/* Of a service; a VMM's own groups are not ours. */
static void server_groups(struct server *server)
{
    char text[512];
    server_cgroups_init(&server->groups, &server->config, text, sizeof(text));
    server->children.groups = &server->groups;
    apir_log(APIR_LOG_INFO, "%s", text);
}

/* After the groups: no other process may be there when they are made. */
static void server_mps(struct server *server)
{
    struct apir_error err = {0};
    if (server->env.refusal)
        return;
    if (server_mps_init(&server->mps, &server->children, &server->config, &err) < 0) {
        apir_log(APIR_LOG_ERROR, "%s; no apir context is served before this is put right", err.msg);
        server->env.refusal =
            "the host computes through MPS alone, which it lacks; its log says why";
    }
    server->children.environment = server_mps_environment(&server->mps);
}

static void server_fini(struct server *server)
{
    server_mps_fini(&server->mps);
    server_children_fini(&server->children);
    server_loop_fini(&server->loop);
    apir_config_fini(&server->config);
}

static int server_run(struct server *server, struct apir_error *err)
{
    int rc = server_loop_run(&server->loop);
    return rc < 0 ? apir_error_sys(err, -rc, "event loop") : 0;
}

/* ---- for a VMM ------------------------------------------------------------- */

static int serve_vmm(struct server *server, int socket_fd, struct apir_error *err)
{
    struct server_vmm vmm;
    int rc = server_vmm_init(&vmm, &server->env, socket_fd);
    if (rc < 0)
        return apir_error_sys(err, -rc, "cannot use the socket");
    rc = server_run(server, err);
    server_vmm_fini(&vmm);
    return rc;
}

/* ---- for this machine ------------------------------------------------------ */

static void stop_asked(void *user, uint32_t events)
{
    (void)events;
    struct server_loop *loop = user;
    loop->stop = true;
}

/* SIGTERM and SIGINT end the loop, so that the socket can be removed. Returns the fd or -errno. */
static int watch_stop(struct server_loop *loop, struct server_source *source)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    cleanup_fd int fd = server_signals_open(&mask);
    if (fd < 0)
        return fd;
    int rc = server_loop_add(loop, source, fd, SERVER_LOOP_IN, stop_asked, loop);
    if (rc < 0)
        return rc;
    /* Beside SIGCHLD, which the children block. Ours clear the mask before their exec. */
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0) {
        rc = -errno;
        server_loop_remove(loop, source);
        return rc;
    }
    return steal_fd(&fd);
}

/* path: to be told on stdout; NULL: systemd knows it. */
static int serve_socket(struct server *server, int socket_fd, const char *path,
                        struct apir_error *err)
{
    cleanup_fd int fd = socket_fd;
    struct server_access access = {0};
    struct apir_error broken = {0};
    if (server_access_init(&access, &server->config, &broken) < 0)
        server_broken(server, &broken);
    struct server_listen listener;
    int rc = server_listen_init(&listener, &server->env, &access, steal_fd(&fd));
    if (rc < 0) {
        apir_error_sys(err, -rc, "cannot use the socket");
    } else {
        if (path) {
            printf("apir-render-server: listening on %s\n", path);
            fflush(stdout);
        }
        rc = server_run(server, err);
        server_listen_fini(&listener);
    }
    return rc;
}

static int serve_path(struct server *server, const struct options *o, struct apir_error *err)
{
    struct stat made;
    int fd = server_listen_make(o->listen, o->group, &made, err);
    if (fd < 0)
        return fd;
    int rc = serve_socket(server, fd, o->listen, err);
    server_listen_remove(o->listen, &made);
    return rc;
}

/* inherited: systemd's socket, or -1 with --listen. */
static int serve_machine(struct server *server, const struct options *o, int inherited,
                         struct apir_error *err)
{
    cleanup_fd int socket_fd = inherited;
    struct server_source stop = {0};
    /* Before the socket exists: whoever sees it may send SIGTERM and expect it removed. */
    cleanup_fd int stop_fd = watch_stop(&server->loop, &stop);
    if (stop_fd < 0)
        return apir_error_sys(err, -stop_fd, "cannot watch for signals");
    int rc = o->listen ? serve_path(server, o, err)
                       : serve_socket(server, steal_fd(&socket_fd), NULL, err);
    server_loop_remove(&server->loop, &stop);
    return rc;
}

static int serve(const struct options *o, struct apir_error *err)
{
    int fd = o->socket_fd;
    if (o->listen_fds) {
        fd = server_listen_inherit(err);
        if (fd < 0)
            return fd;
    }
    /* --listen makes its own one: nothing that was open is to stay. */
    int rc = settle_fds(fd >= 0 ? fd : STDERR_FILENO);
    if (rc < 0)
        return apir_error_sys(err, -rc, "cannot settle the descriptors");
    struct server server;
    rc = server_init(&server, err);
    if (rc < 0)
        return rc;
    if (o->listen || o->listen_fds)
        server_groups(&server);
    server_mps(&server);
    rc = o->listen || o->listen_fds ? serve_machine(&server, o, fd, err)
                                    : serve_vmm(&server, fd, err);
    server_fini(&server);
    return rc;
}

/* Who reads our log may have stopped to: no line is worth the wait of all that we serve. */
static void log_line(enum apir_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
        return;
    ssize_t ignored = write(STDERR_FILENO, line, strlen(line));
    (void)ignored;
}

int main(int argc, char **argv)
{
    struct options options;
    int status = 0;
    apir_log_set_sink(log_line, NULL);
    if (!parse_options(argc, argv, &options, &status))
        return status;

    const char *level_name = getenv("APIR_LOG");
    enum apir_log_level level;
    if (apir_log_parse_level(level_name, &level) == 0)
        apir_log_set_level(level);
    else if (level_name && *level_name)
        apir_log(APIR_LOG_WARN, "APIR_LOG=%s is not one of error, warn, info, debug", level_name);

    apir_log_set_limit(LOG_LINES);
    struct apir_error err = {0};
    if (serve(&options, &err) < 0) {
        apir_log(APIR_LOG_ERROR, "%s", err.msg);
        return 1;
    }
    return 0;
}
