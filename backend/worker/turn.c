/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/turn.h"

#include "backend/worker/control.h"
#include "common/clock.h"
#include "protocol/atomic.h"
#include "protocol/futex.h"

/* Asleep: then we look whether the server is still there, and say once more what we want. */
#define SLEEP_S 1

/* The bit of the device's turn; 0: it has none. */
static uint32_t turn_bit(const struct worker *w, uint32_t device)
{
    return w->turns ? w->turn_bits[device] : 0;
}

static const uint32_t *turn_word(const struct worker *w, uint32_t bit)
{
    return &w->turns->state[__builtin_ctz(bit)];
}

static void turn_hold(struct worker *w, uint32_t bit)
{
    apir_store_release32(&w->status->turns_held, w->status->turns_held | bit);
}

static void turn_drop(struct worker *w, uint32_t bit)
{
    apir_store_release32(&w->status->turns_held, w->status->turns_held & ~bit);
}

int worker_turn_find(struct worker *w, uint32_t device)
{
    uint64_t number = APIR_TURNS_MAX;
    int rc = w->turns && !w->turn_bits[device] ? worker_control_turn(w, device, &number) : 0;
    if (number < APIR_TURNS_MAX)
        w->turn_bits[device] = 1u << number;
    return rc;
}

bool worker_turn_try(struct worker *w, uint32_t device)
{
    const uint32_t bit = turn_bit(w, device);
    if (!bit)
        return true;
    /* Said first: a server that has just shut it sees that we hold it, or we see that it is shut.
     */
    turn_hold(w, bit);
    apir_full_fence();
    if (apir_load_acquire32(turn_word(w, bit)) & APIR_TURN_OPEN) {
        if (w->status->turns_wanted)
            apir_store_release32(&w->status->turns_wanted, 0);
        return true;
    }
    turn_drop(w, bit);
    return false;
}

void worker_turn_want(struct worker *w, uint32_t device)
{
    apir_store_release32(&w->status->turns_wanted, turn_bit(w, device));
}

void worker_turn_wait(struct worker *w, uint32_t device)
{
    const uint32_t bit = turn_bit(w, device);
    const uint64_t began = apir_now_ns();
    apir_store_release32(&w->status->turns_wanted, bit);
    for (;;) {
        const uint32_t seen = apir_load_acquire32(turn_word(w, bit));
        if ((seen & APIR_TURN_OPEN) && worker_turn_try(w, device))
            break;
        const struct timespec most = {.tv_sec = SLEEP_S};
        w->control_err = worker_control_moved(w, device);
        if (w->control_err)
            break;
        if (!(seen & APIR_TURN_OPEN))
            apir_futex_wait(turn_word(w, bit), seen, &most);
    }
    apir_store_release32(&w->status->turns_wanted, 0);
    worker_count(&w->status->counts.turns_ns, apir_now_ns() - began);
    /* seconds_per_graph begins here. */
    apir_store_release64(&w->status->progress, w->status->progress + 1);
}

void worker_turn_give(struct worker *w, uint32_t device)
{
    const uint32_t bit = turn_bit(w, device);
    if (!bit || !(w->status->turns_held & bit))
        return;
    turn_drop(w, bit);
    apir_full_fence();
    if (apir_load_acquire32(turn_word(w, bit)) != APIR_TURN_OPEN)
        (void)worker_control_moved(w, device);
}

bool worker_turn_is_wanted(const struct worker *w, uint32_t device)
{
    const uint32_t bit = turn_bit(w, device);
    return bit && apir_load_acquire32(turn_word(w, bit)) != APIR_TURN_OPEN;
}

bool worker_turn_is_taken(const struct worker *w, uint32_t device)
{
    return turn_bit(w, device) != 0;
}

void worker_turn_threads(struct worker *w, uint32_t threads)
{
    if (!w->turns || w->status->threads == threads)
        return;
    apir_store_release32(&w->status->threads, threads);
    for (uint32_t i = 0; i < APIR_DEVICES_MAX; i++) {
        if (w->turn_bits[i])
            (void)worker_control_moved(w, i);
    }
}
