/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/turns/broker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/server/limits/claims.h"
#include "backend/server/list.h"
#include "backend/server/turns/order.h"
#include "backend/server/turns/wire.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fdsock.h"

#define FILES_LOOKED_AT 4096u
#define MESSAGES_BATCH  16
#define AGAIN_MS        100
#define NS_PER_MS       1000000u

struct server_broker_device {
    struct server_broker_device *next;
    struct server_broker *broker;
    char id[APIR_ID_SIZE];
    struct server_order order;
    struct server_timer timer;
};

/* What a peer is at a device. */
struct seat {
    struct server_broker_device *device; /* NULL: free */
    struct server_order_class class;
};

struct server_broker_peer {
    struct server_broker_peer *next;
    struct server_broker *broker;
    int fd; /* -1: cut off, and to be freed once nobody looks at it */
    struct server_source source;
    struct seat seats[APIR_TURNS_MAX];
};

/* ---- turns --------------------------------------------------------------------------- */

/* It is freed by broker_reap(), once nobody looks at it. */
static void peer_cut(struct server_broker_peer *peer)
{
    if (peer->fd < 0)
        return;
    server_loop_remove(peer->broker->loop, &peer->source);
    apir_close_fd(&peer->fd);
}

/* Of whom the class is; it is one of a peer's. */
static struct server_broker_peer *peer_of(const struct server_broker *broker,
                                          const struct server_order_class *class)
{
    for (struct server_broker_peer *p = broker->peers; p; p = p->next) {
        if (class >= &p->seats[0].class && class <= &p->seats[APIR_TURNS_MAX - 1].class)
            return p;
    }
    return NULL;
}

/* One that does not take it is cut off. */
static void peer_tell(struct server_broker_peer *peer, uint32_t op, const char *device,
                      uint64_t after_ns)
{
    struct server_turns_message m = {.op = op, .after_ns = after_ns};
    memcpy(m.device, device, sizeof(m.device));
    if (peer->fd >= 0 && send(peer->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        peer_cut(peer);
}

static void device_late(void *user);

/* Tells whoever has to know what comes next at the device. */
static void device_settle(struct server_broker_device *device)
{
    struct server_broker *broker = device->broker;
    struct server_order_class *class = NULL;
    uint64_t after_ns = 0;
    for (enum server_order_act act;
         (act = server_order_next(&device->order, apir_now_ns(), &class, &after_ns));) {
        struct server_broker_peer *peer = peer_of(broker, class);
        if (peer)
            peer_tell(peer, act == SERVER_ORDER_GRANT ? SERVER_TURNS_GRANT : SERVER_TURNS_RETURN,
                      device->id, after_ns);
    }
    const uint64_t at_ns = server_order_deadline(&device->order);
    if (at_ns == UINT64_MAX)
        server_timer_disarm(broker->loop, &device->timer);
    else
        server_timer_arm(broker->loop, &device->timer, (int64_t)(at_ns / NS_PER_MS) + 1,
                         device_late, device);
}

static void device_drop(struct server_broker_device *device)
{
    struct server_broker *broker = device->broker;
    SERVER_LIST_REMOVE(&broker->devices, device);
    server_timer_disarm(broker->loop, &device->timer);
    free(device);
}

static void broker_update(void *user);

/* Frees peers that are cut off, whose classes wait for nothing any more. */
static void broker_reap(struct server_broker *broker)
{
    for (struct server_broker_peer **p = &broker->peers; *p;) {
        struct server_broker_peer *peer = *p;
        if (peer->fd >= 0) {
            p = &peer->next;
            continue;
        }
        *p = peer->next;
        broker->n_peers--;
        for (unsigned i = 0; i < APIR_TURNS_MAX; i++) {
            struct server_broker_device *device = peer->seats[i].device;
            if (!device)
                continue;
            server_order_remove(&device->order, &peer->seats[i].class, apir_now_ns());
            if (device->order.classes)
                device_settle(device);
            else
                device_drop(device);
        }
        free(peer);
        p = &broker->peers; /* telling others may have cut off more of them */
    }
    broker_update(broker);
}

static void device_late(void *user)
{
    struct server_broker_device *device = user;
    struct server_broker *broker = device->broker;
    device_settle(device);
    broker_reap(broker);
}

/* ---- peers ------------------------------------------------------------------------------ */

static struct server_broker_device *device_find(struct server_broker *broker, const char *id)
{
    for (struct server_broker_device *d = broker->devices; d; d = d->next) {
        if (strcmp(d->id, id) == 0)
            return d;
    }
    struct server_broker_device *d = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    *d = (struct server_broker_device){.next = broker->devices, .broker = broker};
    memcpy(d->id, id, sizeof(d->id));
    broker->devices = d;
    return d;
}

/* NULL: it has none, and none may be made; or no memory. */
static struct seat *seat_find(struct server_broker_peer *peer, const struct server_turns_message *m,
                              bool make)
{
    struct seat *seat = NULL;
    for (unsigned i = 0; i < APIR_TURNS_MAX; i++) {
        struct seat *s = &peer->seats[i];
        if (s->device && strcmp(s->device->id, m->device) == 0)
            return s;
        if (!s->device && !seat)
            seat = s;
    }
    if (!seat || !make)
        return NULL;
    seat->device = device_find(peer->broker, m->device);
    if (!seat->device)
        return NULL;
    seat->class = (struct server_order_class){.weight = m->weight, .latency = m->latency != 0};
    server_order_add(&seat->device->order, &seat->class, apir_now_ns());
    return seat;
}

/* Checked here and nowhere else. False: nonsense. */
static bool peer_dispatch(struct server_broker_peer *peer, const struct server_turns_message *m,
                          size_t size)
{
    if (size != sizeof(*m) || !server_claims_id_ok(m->device))
        return false;
    const bool wants = m->op == SERVER_TURNS_WANT;
    if (wants ? m->weight < 1 || m->weight > SERVER_ORDER_WEIGHT_MAX || m->latency > 1 ||
                    m->need < 1 || m->need > SERVER_ORDER_ALL
              : m->op != SERVER_TURNS_LEFT)
        return false;
    struct seat *seat = seat_find(peer, m, wants);
    if (!seat)
        return false;
    if (wants)
        server_order_want(&seat->device->order, &seat->class, m->need, apir_now_ns());
    else
        server_order_left(&seat->device->order, &seat->class, apir_now_ns());
    device_settle(seat->device);
    if (seat->class.wants)
        peer_tell(peer, SERVER_TURNS_WAIT, m->device, 0);
    return true;
}

static void peer_ready(void *user, uint32_t events)
{
    struct server_broker_peer *peer = user;
    struct server_broker *broker = peer->broker;
    for (int i = 0; i < MESSAGES_BATCH && peer->fd >= 0; i++) {
        struct server_turns_message m;
        size_t size = 0;
        int rc = apir_fdsock_recv(peer->fd, &m, sizeof(m), &size, NULL, 0, NULL, MSG_DONTWAIT);
        if (rc == -EAGAIN && !(events & (SERVER_LOOP_HUP | SERVER_LOOP_ERR)))
            break;
        if (rc < 0 || size == 0 || !peer_dispatch(peer, &m, size))
            peer_cut(peer);
    }
    broker_reap(broker);
}

/* More of them wait in the kernel's queue. */
static void broker_update(void *user)
{
    struct server_broker *broker = user;
    const bool room = broker->n_peers < SERVER_BROKER_PEERS_MAX && !broker->again.armed;
    server_loop_modify(broker->loop, &broker->source, room ? SERVER_LOOP_IN : 0);
}

/* Returns 0, and *io_fd is taken over (-1), or -errno. */
static int peer_add(struct server_broker *broker, int *io_fd)
{
    struct server_broker_peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    *peer = (struct server_broker_peer){.broker = broker, .fd = *io_fd};
    int rc =
        server_loop_add(broker->loop, &peer->source, peer->fd, SERVER_LOOP_IN, peer_ready, peer);
    if (rc < 0) {
        free(peer);
        return rc;
    }
    *io_fd = -1;
    peer->next = broker->peers;
    broker->peers = peer;
    broker->n_peers++;
    return 0;
}

static void broker_accept(void *user, uint32_t events)
{
    (void)events;
    struct server_broker *broker = user;
    cleanup_fd int fd = apir_fdsock_accept(broker->fd);
    const int rc = fd < 0 ? -errno : peer_add(broker, &fd);
    if (rc < 0 && rc != -EAGAIN && rc != -ECONNABORTED && rc != -EINTR)
        /* No descriptor, no memory: looking again at once would only burn the core. */
        server_timer_arm(broker->loop, &broker->again, server_now_ms() + AGAIN_MS, broker_update,
                         broker);
    broker_update(broker);
}

/* ---- who is it --------------------------------------------------------------------------- */

/* A path that fits into an address, whatever the folder is called. */
static int address_make(struct sockaddr_un *ret_address, int dir_fd, const char *name)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    return snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "/proc/self/fd/%d/%s",
                    dir_fd, name) >= (int)sizeof(ret_address->sun_path)
               ? -ENAMETOOLONG
               : 0;
}

/* Of another user it may be; to read it is enough. Returns the descriptor or -errno. */
static int lock_open(int dir_fd)
{
    for (int i = 0; i < 8; i++) {
        int fd = openat(dir_fd, SERVER_BROKER_LOCK,
                        O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0 || errno != ENOENT)
            return fd < 0 ? -errno : fd;
        fd = openat(dir_fd, SERVER_BROKER_LOCK,
                    O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        if (fd >= 0)
            (void)fchmod(fd, 0444); /* whatever the umask is */
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
    return -EAGAIN;
}

static int broker_listen(struct server_broker *broker)
{
    struct sockaddr_un address;
    uint64_t number;
    if (getentropy(&number, sizeof(number)) < 0)
        return -EIO;
    snprintf(broker->name, sizeof(broker->name), SERVER_BROKER_PREFIX "%016llx",
             (unsigned long long)number);
    int rc = address_make(&address, broker->dir_fd, broker->name);
    if (rc < 0)
        return rc;
    broker->fd = apir_fdsock_open(SOCK_SEQPACKET);
    if (broker->fd < 0)
        return -errno;
    (void)apir_fdsock_refuse(broker->fd);
    /* Who may enter the folder may connect. */
    const mode_t old = umask(0111);
    rc = bind(broker->fd, (const struct sockaddr *)(const void *)&address, sizeof(address)) < 0
             ? -errno
             : 0;
    umask(old);
    if (rc == 0 && listen(broker->fd, SOMAXCONN) < 0) {
        rc = -errno;
        (void)unlinkat(broker->dir_fd, broker->name, 0);
    }
    return rc;
}

/* A connected socket, the caller's, to the first that listens in the folder, or -errno. clean: what
 * nobody listens at is removed, where it may be. */
static int folder_look(int dir_fd, bool clean)
{
    cleanup_dir DIR *dir = apir_dir_open(dir_fd);
    if (!dir)
        return -errno;
    int rc = -ENOENT;
    struct dirent *entry;
    for (unsigned n = 0; rc < 0 && n < FILES_LOOKED_AT && (entry = readdir(dir)); n++) {
        struct sockaddr_un address;
        struct stat st;
        if (strncmp(entry->d_name, SERVER_BROKER_PREFIX, strlen(SERVER_BROKER_PREFIX)) != 0 ||
            fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode) ||
            address_make(&address, dir_fd, entry->d_name) < 0)
            continue;
        cleanup_fd int fd = apir_fdsock_open(SOCK_SEQPACKET);
        if (fd < 0)
            rc = -errno;
        else if (connect(fd, (const struct sockaddr *)(const void *)&address, sizeof(address)) == 0)
            rc = steal_fd(&fd);
        else if (clean && errno == ECONNREFUSED)
            (void)unlinkat(dir_fd, entry->d_name, 0);
    }
    return rc;
}

int server_broker_connect(int dir_fd)
{
    return folder_look(dir_fd, false);
}

int server_broker_start(struct server_broker *broker, struct server_loop *loop, int dir_fd)
{
    cleanup_fd int lock_fd = lock_open(dir_fd);
    if (lock_fd < 0)
        return lock_fd;
    if (flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    /* With the lock there is no other broker: what is left there is of dead ones. */
    cleanup_fd int other = folder_look(dir_fd, true);
    *broker = (struct server_broker){.dir_fd = dir_fd, .lock_fd = -1, .fd = -1};
    int rc = broker_listen(broker);
    if (rc == 0)
        rc = server_loop_add(loop, &broker->source, broker->fd, SERVER_LOOP_IN, broker_accept,
                             broker);
    if (rc < 0) {
        apir_close_fd(&broker->fd);
        return rc;
    }
    broker->loop = loop;
    broker->lock_fd = steal_fd(&lock_fd);
    return 0;
}

void server_broker_stop(struct server_broker *broker)
{
    if (!broker->loop)
        return;
    (void)unlinkat(broker->dir_fd, broker->name, 0);
    server_loop_remove(broker->loop, &broker->source);
    server_timer_disarm(broker->loop, &broker->again);
    apir_close_fd(&broker->fd);
    for (struct server_broker_peer *p = broker->peers, *next; p; p = next) {
        next = p->next;
        peer_cut(p);
        free(p);
    }
    for (struct server_broker_device *d = broker->devices, *next; d; d = next) {
        next = d->next;
        server_timer_disarm(broker->loop, &d->timer);
        free(d);
    }
    apir_close_fd(&broker->lock_fd); /* at last: whoever takes the lock finds nothing of ours */
    *broker = (struct server_broker){0};
}
