/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/peer_copy.h"

#include "tests/lib/unit.h"

#include <string.h>

#define ROOM (300u << 10)

static uint8_t from[ROOM], to[ROOM];

/* Copies with every alignment of both ends that a cache line has to tell apart, and
 * proves that exactly these bytes have changed. */
static void check(void (*copy)(void *, const void *, size_t), size_t size)
{
    static const size_t shifts[] = {0, 1, 15, 16, 33, 63};

    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++)
        for (size_t j = 0; j < sizeof(shifts) / sizeof(shifts[0]); j++) {
            uint8_t *dst = to + 64 + shifts[i];
            const uint8_t *src = from + 64 + shifts[j];

            memset(to, 0xee, sizeof(to));
            copy(dst, src, size);
            assert_memory_equal(dst, src, size);
            for (size_t k = 0; k < 64; k++) {
                assert_int_equal(dst[-1 - (ptrdiff_t)k], 0xee);
                assert_int_equal(dst[size + k], 0xee);
            }
        }
}

/* Both ways come: there are more copies than steps between two trials. */
static void to_peer(void *dst, const void *src, size_t size)
{
    static struct apir_peer peer;
    apir_copy_to_peer(&peer, dst, src, size);
}

/* While more and more of it is there: all of it, or as much as chance has it. */
static void copy_ahead(struct apir_copy *c, size_t size, uint64_t *chance)
{
    for (size_t there = 0; c->at < size;) {
        const size_t at = c->at;

        there = chance ? there + unit_random(chance) % (size - there + 1) : size;
        apir_copy_ahead(c, there);
        assert_true(c->at <= there && (c->at > at || at == there));
        /* To the end of the line that holds the last byte, and no farther. */
        assert_true(c->asked <= there + 63);
    }
}

static void copy_whole(void *dst, const void *src, size_t size)
{
    copy_ahead(&(struct apir_copy){.dst = dst, .src = src}, size, NULL);
}

static void copy_as_it_comes(void *dst, const void *src, size_t size)
{
    static uint64_t chance = 11;

    copy_ahead(&(struct apir_copy){.dst = dst, .src = src}, size, &chance);
}

static void copies_exactly_these_bytes(void **state)
{
    static const size_t sizes[] = {0,    1,    63,   64,    65,     4095,   4096,
                                   4097, 4159, 4160, 65536, 131072, 131071, 200003};

    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check(to_peer, sizes[i]);
        check(copy_whole, sizes[i]);
        check(apir_copy_bulk, sizes[i]);
        check(copy_as_it_comes, sizes[i]);
    }
}

#ifdef __x86_64__
/* The other way is taken where it was faster in the trial, and only then. */
static void the_faster_way_is_taken(void **state)
{
    enum { LAST = 16 + 8 - 1 }; /* step of the first trial */

    (void)state;
    for (int way = 0; way < 4; way++) {
        const bool other_is_faster = way % 2, past = way / 2;
        struct apir_peer peer = {.past = past};

        for (int i = 0; i < LAST; i++)
            apir_copy_to_peer(&peer, to, from, 8192);
        assert_true(peer.least[false] > 0 && peer.least[true] > 0);
        assert_int_equal(peer.past, past);
        /* Nothing takes no time: these stay. */
        peer.least[other_is_faster] = 0;
        apir_copy_to_peer(&peer, to, from, 8192);
        assert_int_equal(peer.past, past != other_is_faster);
        for (int i = 0; i < 900; i++)
            apir_copy_to_peer(&peer, to, from, 8192);
        assert_int_equal(peer.past, past != other_is_faster);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_exactly_these_bytes),
#ifdef __x86_64__
        cmocka_unit_test(the_faster_way_is_taken),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
