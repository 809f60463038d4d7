/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every atomic access to shared memory goes through here, so that each acquire
 * has its release in sight. Plain words in shared pages are read and written
 * with these only: a peer may change them at any time.
 *
 * Pairs:
 *   tail    guest store_release (ring_publish)  -> host load_acquire (ring_take):
 *           the bytes of a message are visible before the tail that covers them.
 *   head    host store_release (ring_complete)  -> guest load_acquire (ring_head):
 *           replies and arena bytes are visible before the head that says so;
 *           the guest reuses ring space only behind it.
 *   idle    host: store idle, full fence, load tail. guest: store tail, full
 *           fence, load idle. One of the two sees the other's store (Dekker), so
 *           a message is never left behind a sleeping host.
 *   waiting guest: store waiting, full fence, load head, futex_wait(wake). host:
 *           store head, full fence, load waiting. The same argument.
 *   turns   worker: store turns_held, full fence, load the turn's state. server: store
 *           the state, full fence, load turns_held. The same argument: no worker computes
 *           in a turn that is shut without the server seeing that it does.
 *   failed  worker store_release after the reason text, in a stream's status -> guest
 *           load_acquire: a guest that reads a failure reads why.
 *   state   server or worker store_release after the reason text -> guest
 *           load_acquire: a guest that reads FATAL or LOST reads the whole text.
 */
#pragma once

#include <stdint.h>

static inline uint32_t apir_load_acquire32(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint64_t apir_load_acquire64(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void apir_store_release32(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline void apir_store_release64(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* Of a word that only one side writes and nothing else is read by: no order is wanted. */
static inline uint64_t apir_load_relaxed64(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void apir_store_relaxed64(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* Takes the idle flag away: at most one guest thread kicks per sleep. */
static inline int apir_take_flag(uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED) != 0 &&
           __atomic_exchange_n(p, 0u, __ATOMIC_ACQ_REL) != 0;
}

static inline uint32_t apir_add32(uint32_t *p, uint32_t v)
{
    return __atomic_add_fetch(p, v, __ATOMIC_ACQ_REL);
}

#if defined(__SANITIZE_THREAD__)
#define APIR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define APIR_TSAN 1
#endif
#endif

/* Between a store and a load of another word: see idle, waiting and turns above. */
static inline void apir_full_fence(void)
{
#ifdef APIR_TSAN
    /* TSan does not model fences; a seq_cst read-modify-write is one it knows. */
    static uint32_t dummy;
    __atomic_add_fetch(&dummy, 1u, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline void apir_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}
