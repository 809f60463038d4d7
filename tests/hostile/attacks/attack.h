/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks, as rows. A row runs in a process of its own, as a guest without manners: it talks to a
 * stock virgl_test_server that has started our server, and that has our worker. It shows first that
 * the honest form works and then what is said to the attack. After each row the program that
 * started it wants everybody else untouched (host.h).
 *
 * Nothing here returns a failure: what does not go as it should ends the row as NOT STOPPED.
 */
#ifndef APIR_TESTS_ATTACK_H
#define APIR_TESTS_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/guest.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

enum attack_flags {
    ATTACK_ENDS_WORKER = 1, /* that the worker dies by a signal is part of the attack */
};

struct attack_row {
    const char *id;
    const char *what; /* one line */
    void (*run)(void);
    unsigned flags;   /* enum attack_flags */
    unsigned seconds; /* how long it may take; 0: the usual */
};

/* By section of the list; each ends with a row without an id. */
extern const struct attack_row attack_rows_rpc[], attack_rows_reference[], attack_rows_ring[],
    attack_rows_messages[], attack_rows_memory[], attack_rows_socket[], attack_rows_killed[],
    attack_rows_races[], attack_rows_found[], attack_rows_limits[], attack_rows_server[];

/* ---- the verdict ------------------------------------------------------------------------- */

/* Where the test server listens. */
const char *attack_socket(void);

/* The row fails: ends the process. */
_Noreturn void not_stopped(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What the host said to the attack; the last one is shown with the row. */
void refused(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define WANT(what)                                                                                 \
    do {                                                                                           \
        if (!(what))                                                                               \
            not_stopped("%s:%d: %s", __FILE__, __LINE__, #what);                                   \
    } while (0)

/* Whether this comes true as long as anything here is waited for; looked at again and again. */
#define SOON(what)                                                                                 \
    ({                                                                                             \
        const int64_t soon_end_ = now_ms() + WAIT_MS;                                              \
        bool soon_;                                                                                \
        while (!(soon_ = (what)) && now_ms() < soon_end_)                                          \
            nap_us(100);                                                                           \
        soon_;                                                                                     \
    })

/* ---- a guest without manners (tests/lib/guest.h, guest.c) --------------------------------- */

#define MEMORY  65536u /* of each of the buffers */
#define BUFFERS 3u     /* 1: leaves, 2: results, 3: nobody's; all of guest_byte() */

/* What the host is configured to give. */
#define ATTACK_CONTEXTS_MAX 32u
#define ATTACK_SHM_MAX      (UINT64_C(128) << 20) /* per context */

/* Of a guest that is opened: closed where its scope ends. */
#define cleanup_guest __attribute__((cleanup(guest_close)))

/* A context and nothing else. */
void guest_connect_bare(struct guest *g);
/* The same with its ring: no HELLO. */
void guest_connect(struct guest *g);
/* HELLO, an arena of that size, the stream and the buffers. */
void guest_fill(struct guest *g, uint64_t arena);
/* All of it. */
void guest_open_sized(struct guest *g, uint64_t arena);
void guest_open(struct guest *g);
/* The worker knows the blob, and all that came before it. */
void guest_use_blob(struct guest *g, uint32_t id);
/* Shows it any tail, and wakes it. */
void guest_show(struct guest *g, uint64_t tail);
void guest_set(struct guest *g, uint32_t buffer, uint64_t offset, const void *data, size_t size);
void guest_get(struct guest *g, uint32_t buffer, uint64_t offset, void *data, size_t size);
void guest_copy(struct guest *g, uint32_t from, uint64_t from_offset, uint32_t to,
                uint64_t to_offset, uint64_t size);
/* What byte `offset` of a buffer holds at first. */
uint8_t guest_byte(uint32_t buffer, uint64_t offset);

/* The buffers as they are now, and later that they are still so: of one guest of a row. */
void guest_remember(struct guest *g);
void guest_unchanged(struct guest *g);
/* What is remembered has these bytes there: they were changed as they should be. */
void guest_remember_as(uint32_t buffer, uint64_t offset, const void *bytes, size_t size);

/*
 * The test server's own protocol, which frontend/link/transport_vtest.c speaks: commands and
 * payloads that it never sends. vtest_answer: false where the server has hung up instead.
 */
enum vtest_command {
    VTEST_RESOURCE_UNREF = 3,
    VTEST_CREATE_BLOB = 18,
    VTEST_SYNC_CREATE = 19,
    VTEST_SYNC_READ = 21,
    VTEST_SUBMIT_CMD2 = 24,
};
void vtest_put(struct guest *g, uint32_t command, const uint32_t *payload, uint32_t dwords);
bool vtest_answer(struct guest *g, uint32_t command, uint32_t *ret_payload, uint32_t dwords);
/* Any bytes in the place of a doorbell, `size` a multiple of 4; with a fence on `ring` that moves
 * the sync object to `value` once it completes, where sync is not 0. */
void vtest_submit(struct guest *g, const void *bytes, uint32_t size, uint32_t ring, uint32_t sync,
                  uint64_t value);

/* What was put ends the context for this reason (a part of it), which is what was said to the
 * attack. */
void expect_refused(struct guest *g, const char *reason);
/* The same, and the guest is closed. */
void end_refused(struct guest *g, const char *reason);
/* In a context of its own: this message ends it for this reason. */
void message_fatal(const struct apir_msg *m, const char *reason);
/* The same as guest_put_changed() puts it. */
void message_fatal_changed(const struct apir_msg *m, size_t at, const void *bytes, size_t size,
                           const char *reason);

#endif
