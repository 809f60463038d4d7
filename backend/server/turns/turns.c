/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/turns/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/server/list.h"
#include "backend/server/memory.h"
#include "backend/server/page.h"
#include "backend/server/turns/order.h"
#include "common/cleanup.h"
#include "common/fdsock.h"
#include "common/log.h"
#include "protocol/atomic.h"
#include "protocol/futex.h"

#define MESSAGES_BATCH 16
#define NS_PER_MS      1000000u
/* A worker's CPU stream has no more, whatever it says. */
#define THREADS_MAX 65536u

_Static_assert(sizeof(struct apir_turn_page) == SERVER_PAGE_SIZE, "one page");

/* ---- what workers do ------------------------------------------------------------------ */

static uint32_t turn_bit(const struct server_turn *turn)
{
    return 1u << (turn - turn->turns->turns);
}

/* It is still at the graph for which nobody waits any longer. */
static bool member_is_late(const struct server_turn_member *m, uint32_t bit)
{
    return (m->late & bit) && apir_load_acquire64(&m->status->head) == m->late_head;
}

/* Of all workers of ours at the device, but those that are late. */
static bool turn_has(const struct server_turn *turn, bool waiting, bool computing)
{
    const uint32_t bit = turn_bit(turn);
    for (const struct server_turn_member *m = turn->turns->members; m; m = m->next) {
        const bool holds = computing && !member_is_late(m, bit);
        const uint32_t words = (waiting ? apir_load_acquire32(&m->status->turns_wanted) : 0) |
                               (holds ? apir_load_acquire32(&m->status->turns_held) : 0);
        if (m->at & words & bit)
            return true;
    }
    return false;
}

/* What they need of it together (order.h): threads are of cores. */
static uint32_t turn_need(const struct server_turn *turn)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = 0;
    if (!turn->is_cpu || cores < 1)
        return SERVER_ORDER_ALL;
    for (const struct server_turn_member *m = turn->turns->members; m; m = m->next) {
        const uint32_t said = apir_load_acquire32(&m->status->threads);
        if (m->at & turn_bit(turn))
            threads += said && said < THREADS_MAX ? said : THREADS_MAX;
    }
    const uint64_t need = threads * SERVER_ORDER_ALL / (uint64_t)cores;
    return need < 1 ? 1 : need < SERVER_ORDER_ALL ? (uint32_t)need : SERVER_ORDER_ALL;
}

/* Workers that sleep until it is open see it at once. */
static void turn_show(struct server_turn *turn, uint32_t state)
{
    uint32_t *word = &turn->turns->page->state[turn - turn->turns->turns];
    apir_store_release32(word, state);
    /* Before we look whether anybody computes: whoever has not seen it yet says so first. */
    apir_full_fence();
    if (state & APIR_TURN_OPEN)
        apir_futex_wake(word, INT_MAX);
}

/* ---- turns ------------------------------------------------------------------------------ */

static void turns_search(void *user);
static void turns_lost(struct server_turns *turns, const char *why);

/* To the broker; one that does not take it is lost. */
static void turn_say(struct server_turn *turn, uint32_t op)
{
    struct server_turns *turns = turn->turns;
    struct server_turns_message m = {
        .op = op,
        .weight = turns->config->weight,
        .latency = turns->config->latency,
        .need = turn_need(turn),
    };
    memcpy(m.device, turn->device, sizeof(m.device));
    turn->need = m.need;
    if (send(turns->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        turns_lost(turns, "it takes no messages");
}

static void turn_set(struct server_turn *turn, enum server_turn_is is)
{
    turn->is = is;
    turn->pauses = false;
    if (is != SERVER_TURN_ENDING && is != SERVER_TURN_CLOSING)
        server_timer_disarm(turn->turns->loop, &turn->timer);
}

/* From here on it asks from time to time: a broker that has stopped does not answer. */
static void turn_await(struct server_turn *turn)
{
    struct server_turns *turns = turn->turns;
    turn_set(turn, SERVER_TURN_ASKED);
    turn->unanswered = 0;
    if (!turns->again.armed)
        server_timer_arm(turns->loop, &turns->again, server_now_ms() + SERVER_TURNS_ASK_MS,
                         turns_search, turns);
}

/* Asks for it. */
static void turn_ask(struct server_turn *turn)
{
    turn_await(turn);
    turn_say(turn, SERVER_TURNS_WANT);
}

static void turn_forget_late(struct server_turn *turn)
{
    const uint32_t bit = turn_bit(turn);
    for (struct server_turn_member *m = turn->turns->members; m; m = m->next) {
        if (!(m->at & apir_load_acquire32(&m->status->turns_held) & bit))
            continue;
        m->late |= bit;
        m->late_head = apir_load_acquire64(&m->status->head);
    }
}

/* Closed: once the last graph has ended, the turn is over; or where it is late and others of ours
 * wait. */
static void turn_closes(struct server_turn *turn)
{
    if (turn_has(turn, false, true)) {
        if (server_now_ms() < turn->late_ms || !turn_has(turn, true, false))
            return;
        turn_forget_late(turn);
    }
    turn_set(turn, SERVER_TURN_OUT);
    turn_say(turn, SERVER_TURNS_LEFT);
    if (turn->is == SERVER_TURN_OUT && turn_has(turn, true, false))
        turn_ask(turn);
}

static void turn_tick(void *user);

/* Shuts it: workers begin no graph any more. turn_closes() tells when the last one has ended. */
static void turn_close(struct server_turn *turn)
{
    turn_set(turn, SERVER_TURN_CLOSING);
    turn->late_ms = server_now_ms() + SERVER_TURNS_LATE_MS;
    server_timer_arm(turn->turns->loop, &turn->timer, turn->late_ms, turn_tick, turn);
    turn_show(turn, 0);
    turn_closes(turn);
}

/* Open still, while others wait. */
static void turn_ends(struct server_turn *turn)
{
    struct server_turns *turns = turn->turns;
    const int64_t now = server_now_ms();
    if (now >= turn->until_ms) {
        turn_close(turn);
        return;
    }
    const bool pauses = !turn_has(turn, true, true);
    if (pauses && !turn->pauses)
        turn->pause_ms = now;
    turn->pauses = pauses;
    /* Beyond the millisecond that it began in. */
    const int64_t idle_ms = turn->pause_ms + turn->idle_ms + 1;
    if (pauses && now >= idle_ms) {
        turn_close(turn);
        return;
    }
    server_timer_arm(turns->loop, &turn->timer,
                     pauses && idle_ms < turn->until_ms ? idle_ms : turn->until_ms, turn_tick,
                     turn);
}

static void turn_tick(void *user)
{
    struct server_turn *turn = user;
    if (turn->is == SERVER_TURN_CLOSING)
        turn_closes(turn);
    else
        turn_ends(turn);
}

/* A graph has ended, or more of them: who takes long for each pauses long in between. */
static void turn_graph_ended(struct server_turn *turn)
{
    const int64_t now = server_now_ms();
    turn->idle_ms = (now - turn->ended_ms) / 16;
    if (turn->idle_ms < SERVER_TURNS_IDLE_MS)
        turn->idle_ms = SERVER_TURNS_IDLE_MS;
    if (turn->idle_ms > SERVER_TURNS_IDLE_MAX_MS)
        turn->idle_ms = SERVER_TURNS_IDLE_MAX_MS;
    turn->ended_ms = now;
}

/* Something has changed among our workers: this one, or NULL: one that has just come. */
static void turn_look(struct server_turn *turn, const struct server_turn_member *member)
{
    if (turn->is != SERVER_TURN_OUT && turn->is != SERVER_TURN_FREE &&
        turn_need(turn) != turn->need)
        turn_say(turn, SERVER_TURNS_WANT);
    switch (turn->is) {
    case SERVER_TURN_OUT:
        if (turn_has(turn, true, false))
            turn_ask(turn);
        break;
    case SERVER_TURN_ENDING:
        turn->pauses = false;
        /* One that wants it still is between two parts of a graph. */
        if (member && !(apir_load_acquire32(&member->status->turns_wanted) & turn_bit(turn)))
            turn_graph_ended(turn);
        turn_ends(turn);
        break;
    case SERVER_TURN_CLOSING:
        turn_closes(turn);
        break;
    case SERVER_TURN_ASKED:
    case SERVER_TURN_IN:
    case SERVER_TURN_FREE:
        break;
    }
}

/* ---- the broker --------------------------------------------------------------------------- */

static void turn_granted(struct server_turn *turn)
{
    if (turn->is != SERVER_TURN_ASKED && turn->is != SERVER_TURN_FREE)
        return;
    turn_set(turn, SERVER_TURN_IN);
    turn->ended_ms = server_now_ms();
    turn->idle_ms = SERVER_TURNS_IDLE_MS;
    turn_show(turn, APIR_TURN_OPEN);
}

/* There is a broker that answers: from here on we wait. */
static void turn_waits(struct server_turn *turn)
{
    if (turn->is != SERVER_TURN_FREE)
        return;
    turn_show(turn, 0);
    turn_await(turn);
}

static void turn_returns(struct server_turn *turn, uint64_t after_ns)
{
    if (turn->is != SERVER_TURN_IN && turn->is != SERVER_TURN_ENDING)
        return;
    const uint64_t ms = after_ns / NS_PER_MS;
    turn->until_ms = server_now_ms() + (int64_t)(ms < INT_MAX ? ms : INT_MAX);
    turn_set(turn, SERVER_TURN_ENDING);
    turn_show(turn, APIR_TURN_OPEN | APIR_TURN_TELL);
    turn_ends(turn);
}

/* Whom we are connected to may be anybody who may write in the folder. False: nonsense. */
static bool turns_hear(struct server_turns *turns, const struct server_turns_message *m,
                       size_t size)
{
    if (size != sizeof(*m) || !server_claims_id_ok(m->device))
        return false;
    for (struct server_turn *t = turns->turns; t < &turns->turns[APIR_TURNS_MAX]; t++) {
        if (strcmp(t->device, m->device) != 0)
            continue;
        t->unanswered = 0;
        if (m->op == SERVER_TURNS_GRANT)
            turn_granted(t);
        else if (m->op == SERVER_TURNS_RETURN)
            turn_returns(t, m->after_ns);
        else if (m->op == SERVER_TURNS_WAIT)
            turn_waits(t);
        else
            return false;
        return true;
    }
    return false;
}

static void turns_ready(void *user, uint32_t events)
{
    struct server_turns *turns = user;
    (void)events;
    for (int i = 0; i < MESSAGES_BATCH && turns->fd >= 0; i++) {
        struct server_turns_message m;
        size_t size = 0;
        int rc = apir_fdsock_recv(turns->fd, &m, sizeof(m), &size, NULL, 0, NULL, MSG_DONTWAIT);
        if (rc == -EAGAIN)
            return;
        if (rc < 0 || size == 0)
            turns_lost(turns, "it has ended");
        else if (!turns_hear(turns, &m, size))
            turns_lost(turns, "it makes no sense");
    }
}

/* Nobody waits for anybody. */
static void turns_free(struct server_turns *turns)
{
    for (struct server_turn *t = turns->turns; t < &turns->turns[APIR_TURNS_MAX]; t++) {
        turn_set(t, SERVER_TURN_FREE);
        turn_show(t, APIR_TURN_OPEN);
    }
}

static void turns_lost(struct server_turns *turns, const char *why)
{
    if (turns->fd < 0)
        return;
    apir_log(APIR_LOG_INFO, "classes take no turns until there is another broker of them: %s", why);
    server_loop_remove(turns->loop, &turns->source);
    apir_close_fd(&turns->fd);
    turns_free(turns);
    server_timer_arm(turns->loop, &turns->again, server_now_ms() + SERVER_TURNS_AGAIN_MS,
                     turns_search, turns);
}

static int turns_connect(struct server_turns *turns)
{
    const int dir_fd = server_limits_folder(turns->limits);
    if (dir_fd < 0)
        return dir_fd;
    int rc = server_broker_connect(dir_fd);
    if (rc < 0 && !turns->broker.loop) {
        rc = server_broker_start(&turns->broker, turns->loop, dir_fd);
        if (rc == 0)
            rc = server_broker_connect(dir_fd);
    }
    if (rc < 0)
        return rc;
    turns->fd = rc;
    rc =
        server_loop_add(turns->loop, &turns->source, turns->fd, SERVER_LOOP_IN, turns_ready, turns);
    if (rc < 0)
        apir_close_fd(&turns->fd);
    return rc;
}

/* Whether the broker answers those who wait. */
static void turns_ask_again(struct server_turns *turns)
{
    bool waits = false;
    for (struct server_turn *t = turns->turns; t < &turns->turns[APIR_TURNS_MAX]; t++) {
        if (t->is != SERVER_TURN_ASKED || turns->fd < 0)
            continue;
        waits = true;
        if (++t->unanswered > SERVER_TURNS_ASKS)
            turns_lost(turns, "it does not answer");
        else
            turn_say(t, SERVER_TURNS_WANT);
    }
    if (waits && turns->fd >= 0)
        server_timer_arm(turns->loop, &turns->again, server_now_ms() + SERVER_TURNS_ASK_MS,
                         turns_search, turns);
}

static void turns_search(void *user)
{
    struct server_turns *turns = user;
    if (turns->fd >= 0) {
        turns_ask_again(turns);
        return;
    }
    int rc = turns_connect(turns);
    if (rc == 0) {
        turns->told = false;
        /* Nobody waits before it has answered. */
        for (struct server_turn *t = turns->turns; t < &turns->turns[APIR_TURNS_MAX]; t++) {
            if (t->device[0] && turns->fd >= 0)
                turn_say(t, SERVER_TURNS_WANT);
        }
        return;
    }
    if (!turns->told)
        apir_log(APIR_LOG_WARN, "classes take no turns, there is no broker: %s", strerror(-rc));
    turns->told = true;
    /* A folder that is not there will not come. */
    server_timer_arm(turns->loop, &turns->again,
                     server_now_ms() +
                         (rc == -EAGAIN ? SERVER_TURNS_AGAIN_MS : SERVER_TURNS_ASK_MS),
                     turns_search, turns);
}

/* ---- workers ------------------------------------------------------------------------------ */

static struct server_turn *turn_find(struct server_turns *turns, const char *device, bool is_cpu)
{
    for (struct server_turn *t = turns->turns; t < &turns->turns[APIR_TURNS_MAX]; t++) {
        if (strcmp(t->device, device) == 0)
            return t;
        if (t->device[0])
            continue;
        memcpy(t->device, device, strlen(device));
        t->is_cpu = is_cpu;
        return t;
    }
    return NULL;
}

uint64_t server_turns_ask(struct server_turn_member *member, const char *device, bool is_cpu)
{
    struct server_turns *turns = member->turns;
    if (!turns)
        return APIR_TURNS_MAX;
    const bool first = turns->turns[0].device[0] == '\0';
    struct server_turn *turn = turn_find(turns, device, is_cpu);
    if (!turn)
        return APIR_TURNS_MAX;
    member->at |= turn_bit(turn);
    if (first)
        turns_search(turns);
    else if (turn->need == 0 && turns->fd >= 0)
        turn_say(turn, SERVER_TURNS_WANT); /* for the first time */
    else
        turn_look(turn, NULL);
    return (uint64_t)(turn - turns->turns);
}

void server_turns_moved(struct server_turn_member *member)
{
    struct server_turns *turns = member->turns;
    for (unsigned i = 0; turns && i < APIR_TURNS_MAX; i++) {
        if (member->at & (1u << i))
            turn_look(&turns->turns[i], member);
    }
}

bool server_turns_waits(const struct server_turn_member *member)
{
    if (!member->turns)
        return false;
    const uint32_t wanted = member->at & apir_load_acquire32(&member->status->turns_wanted);
    for (unsigned i = 0; i < APIR_TURNS_MAX; i++) {
        const enum server_turn_is is = member->turns->turns[i].is;
        if ((wanted & (1u << i)) && is != SERVER_TURN_IN && is != SERVER_TURN_ENDING &&
            is != SERVER_TURN_FREE)
            return true;
    }
    return false;
}

void server_turns_join(struct server_turns *turns, struct server_turn_member *member,
                       const struct apir_worker_status *status)
{
    if (!turns->loop)
        return;
    *member = (struct server_turn_member){.turns = turns, .next = turns->members, .status = status};
    turns->members = member;
}

void server_turns_leave(struct server_turn_member *member)
{
    struct server_turns *turns = member->turns;
    if (!turns)
        return;
    SERVER_LIST_REMOVE(&turns->members, member);
    server_turns_moved(member); /* what it has held is free */
    *member = (struct server_turn_member){0};
}

/* ---- life --------------------------------------------------------------------------------- */

static int page_make(struct server_turns *turns)
{
    cleanup_fd int fd = server_memory_create("apir-turns", sizeof(*turns->page));
    if (fd < 0)
        return fd;
    void *page = NULL;
    int rc = server_page_map(fd, &page);
    if (rc < 0)
        return rc;
    /* Our own map stays as it is. */
    if (!server_memory_is_sealed(fd) || server_memory_seal_writes(fd) < 0) {
        server_page_unmap(page);
        return -EOPNOTSUPP;
    }
    turns->page = page;
    turns->page_fd = steal_fd(&fd);
    return 0;
}

int server_turns_init(struct server_turns *turns, struct server_loop *loop,
                      struct server_limits *limits, bool through_mps)
{
    *turns =
        (struct server_turns){.config = limits->config, .limits = limits, .page_fd = -1, .fd = -1};
    if (!turns->config->weight)
        return 0;
    if (through_mps) {
        apir_log(APIR_LOG_INFO, "classes take no turns, since their workers compute through MPS: "
                                "what bounds them is \"context_gpu_percent\"");
        return 0;
    }
    int rc = page_make(turns);
    if (rc == -EOPNOTSUPP) {
        apir_log(APIR_LOG_WARN, "classes take no turns: this kernel has no memory that workers can "
                                "only read (Linux 5.1)");
        return 0;
    }
    if (rc < 0)
        return rc;
    turns->loop = loop;
    for (struct server_turn *t = turns->turns; t < &turns->turns[APIR_TURNS_MAX]; t++)
        t->turns = turns;
    turns_free(turns);
    return 0;
}

void server_turns_fini(struct server_turns *turns)
{
    if (!turns->loop)
        return;
    for (struct server_turn *t = turns->turns; t < &turns->turns[APIR_TURNS_MAX]; t++)
        server_timer_disarm(turns->loop, &t->timer);
    server_timer_disarm(turns->loop, &turns->again);
    if (turns->fd >= 0)
        server_loop_remove(turns->loop, &turns->source);
    apir_close_fd(&turns->fd);
    server_broker_stop(&turns->broker);
    server_page_unmap(turns->page);
    apir_close_fd(&turns->page_fd);
    *turns = (struct server_turns){.page_fd = -1, .fd = -1};
}

int server_turns_share(const struct server_turns *turns)
{
    return turns->loop ? fcntl(turns->page_fd, F_DUPFD_CLOEXEC, 0) : -1;
}
