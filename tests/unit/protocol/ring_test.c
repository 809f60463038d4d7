/* SPDX-License-Identifier: Apache-2.0 */
/* The ring with both ends in one thread: its format, and what either end does about a hostile
 * other. Tails and sizes that make no sense, and messages across the ring's end: the attacks
 * ring-*; any bytes under any tail: messages_fuzz.c, and any words of the host's: host_fuzz.c. */
#include "tests/unit/protocol/ring_ends.h"

#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "tests/lib/unit.h"

/* ---- layout ------------------------------------------------------------------- */

TEST(the_guest_takes_only_a_layout_that_we_make)
{
    struct apir_ring_guest g;
    struct apir_ring_header *h = test_malloc(APIR_RING_HEADER_SIZE);
    for (uint64_t size = APIR_RING_SIZE_MIN; size <= APIR_RING_SIZE_MAX; size *= 2) {
        blob_fill(h, size);
        assert_int_equal(apir_ring_guest_init(&g, h, size), 0);
        assert_true(g.cmd_size == size / 2);
        assert_int_equal(apir_ring_guest_init(&g, h, size * 2), -EPROTO);
        assert_int_equal(apir_ring_guest_init(&g, h, size / 2), -EPROTO);
    }
    const uint64_t size = APIR_RING_SIZE;
    static const uint64_t sizes[] = {0,
                                     4096,
                                     APIR_RING_SIZE_MIN / 2,
                                     APIR_RING_SIZE + 65536,
                                     APIR_RING_SIZE_MAX * UINT64_C(2),
                                     UINT64_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        blob_fill(h, size);
        h->blob_size = sizes[i];
        assert_int_equal(apir_ring_guest_init(&g, h, sizes[i]), -EPROTO);
    }
    uint32_t *fields[] = {&h->reply_offset, &h->reply_size, &h->cmd_offset, &h->cmd_size};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        blob_fill(h, size);
        *fields[i] += 8;
        assert_int_equal(apir_ring_guest_init(&g, h, size), -EPROTO);
    }
    blob_fill(h, size);
    h->magic ^= 1;
    assert_int_equal(apir_ring_guest_init(&g, h, size), -ENODEV);
    memset(h, 0, APIR_RING_HEADER_SIZE);
    assert_int_equal(apir_ring_guest_init(&g, h, size), -ENODEV);
    test_free(h);
}

/* ---- one thread ----------------------------------------------------------------- */

ENDS_TEST(nothing_shows_before_publish_and_nothing_completes_before_complete, ends_open)
{
    expect_nothing(e);
    uint64_t pos = put(e, 64, 1);
    assert_int_equal(pos, 64);
    expect_nothing(e);
    assert_false(apir_ring_guest_publish(&e->guest)); /* the host is awake: no kick */
    expect_taken(e, 64, 1);
    assert_true(apir_ring_guest_head(&e->guest) == 0);
    complete(&e->host);
    assert_true(apir_ring_guest_head(&e->guest) == pos);
    expect_nothing(e);
}

ENDS_TEST(a_taken_message_stays_until_it_is_completed, ends_open)
{
    publish(e, 24, 1);
    for (int i = 0; i < 3; i++)
        expect_taken(e, 24, 1);
}

ENDS_TEST(progress_shows_inside_the_message_only, ends_open)
{
    enum { SIZE = 48 };
    uint64_t first = put(e, SIZE, 1);
    uint64_t second = put(e, SIZE, 1);
    apir_ring_guest_publish(&e->guest);
    expect_taken(e, SIZE, 1);
    for (uint64_t left = SIZE - 1; left > 0; left--) {
        apir_ring_host_progress(&e->host, left);
        assert_int_equal(apir_ring_guest_head(&e->guest), first - left);
        assert_true(apir_ring_guest_has_room(&e->guest, CMD_SIZE - 2 * SIZE));
    }
    /* It is at hand still. */
    expect_taken(e, SIZE, 1);
    assert_true(apir_ring_host_has_more(&e->host));
    complete(&e->host);
    assert_int_equal(apir_ring_guest_head(&e->guest), first);
    assert_true(apir_ring_host_has_more(&e->host));
    expect_taken(e, SIZE, 1);
    assert_false(apir_ring_host_has_more(&e->host));
    complete(&e->host);
    assert_int_equal(apir_ring_guest_head(&e->guest), second);
    assert_false(apir_ring_host_has_more(&e->host));
}

ENDS_TEST(what_is_done_shows_once, ends_open)
{
    enum { SIZE = 48 };
    for (int i = 0; i < 3; i++)
        put(e, SIZE, 1);
    apir_ring_guest_publish(&e->guest);
    assert_false(apir_ring_host_show(&e->host));
    for (int i = 0; i < 2; i++) {
        expect_taken(e, SIZE, 1);
        apir_ring_host_done(&e->host);
        assert_int_equal(apir_ring_guest_head(&e->guest), 0);
    }
    assert_true(apir_ring_host_show(&e->host));
    assert_int_equal(apir_ring_guest_head(&e->guest), 2 * SIZE);
    assert_false(apir_ring_host_show(&e->host));
    /* Steps of the next message count from what is done, shown or not. */
    expect_taken(e, SIZE, 1);
    apir_ring_host_progress(&e->host, 5);
    assert_int_equal(apir_ring_guest_head(&e->guest), 3 * SIZE - 5);
    apir_ring_host_done(&e->host);
    assert_true(apir_ring_host_show(&e->host));
    assert_int_equal(apir_ring_guest_head(&e->guest), 3 * SIZE);
}

ENDS_TEST(showing_is_due_at_the_end_and_after_a_quarter_of_the_ring, ends_open)
{
    for (uint64_t start = 0; start < 3; start++) {
        ends_start_at(e, (start - 1) * CMD_SIZE);
        for (unsigned i = 1; i <= 40; i++)
            put(e, CMD_SIZE / 64, i);
        apir_ring_guest_publish(&e->guest);
        for (unsigned i = 1; i <= 40; i++) {
            expect_taken(e, CMD_SIZE / 64, i);
            apir_ring_host_done(&e->host);
            assert_int_equal(apir_ring_host_show_due(&e->host), i == 16 || i == 32 || i == 40);
            if (apir_ring_host_show_due(&e->host))
                apir_ring_host_show(&e->host);
        }
        assert_true(apir_ring_guest_head(&e->guest) == e->guest.tail);
    }
}

/* The guest writes to lines in advance: only to free ones, however few there are. */
ENDS_TEST(publishing_leaves_what_is_not_taken, ends_open)
{
    static uint8_t got[APIR_MESSAGE_MAX];
    const size_t size = APIR_MESSAGE_MAX / 8;
    for (uint64_t start = 0; start < 128; start += 8)
        for (uint64_t room = 0; room <= 2 * size; room += 8) {
            ends_start_at(e, start);
            unsigned n = 0;
            uint64_t used = 0;
            for (uint64_t want; (want = CMD_SIZE - room - used) > 0; n++) {
                const size_t next = want < size ? want : size;
                put(e, next, n);
                used += next;
                if (n % 2)
                    apir_ring_guest_publish(&e->guest);
            }
            apir_ring_guest_publish(&e->guest);
            for (unsigned i = 0; i < n; i++) {
                size_t is;
                assert_int_equal(apir_ring_host_take(&e->host, got, sizeof(got), &is), 0);
                assert_true(message_is(got, is, i));
                apir_ring_host_done(&e->host);
            }
            assert_false(apir_ring_host_has_more(&e->host));
        }
}

/* Puts until nothing fits, takes all, and does it again from where it stands. */
static void fill_and_drain(struct ends *e, uint64_t start)
{
    static size_t sizes[CMD_SIZE / 8];
    ends_start_at(e, start);
    uint64_t seed = start | 1;
    for (int round = 0; round < 20; round++) {
        uint64_t used = 0;
        unsigned n = 0;
        for (;;) {
            size_t size = round == 0 ? 8 : random_size(&seed);
            assert_int_equal(apir_ring_guest_has_room(&e->guest, size), used + size <= CMD_SIZE);
            if (used + size > CMD_SIZE)
                break;
            put(e, size, n);
            used += size;
            sizes[n++] = size;
        }
        assert_true(apir_ring_guest_has_room(&e->guest, CMD_SIZE - used));
        assert_false(apir_ring_guest_has_room(&e->guest, CMD_SIZE - used + 8));
        apir_ring_guest_publish(&e->guest);
        for (unsigned i = 0; i < n; i++) {
            expect_taken(e, sizes[i], i);
            complete(&e->host);
        }
        expect_nothing(e);
        assert_true(apir_ring_guest_has_room(&e->guest, CMD_SIZE));
    }
}

ENDS_TEST(a_full_ring_has_no_room_and_loses_nothing, ends_open)
{
    fill_and_drain(e, 0);
    fill_and_drain(e, 4096 + 8);
}

ENDS_TEST(offsets_run_freely_over_their_end, ends_open_memfd)
{
    static const uint64_t back[] = {8, 16, 64, 4096, CMD_SIZE, CMD_SIZE + 8, 10 * CMD_SIZE};
    for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++)
        fill_and_drain(e, 0 - back[i]);
    fill_and_drain(e, (UINT64_C(1) << 63) - 64);
    fill_and_drain(e, (UINT64_C(1) << 32) - 64);
}

/* ---- a hostile guest ------------------------------------------------------------ */

static void expect_host_refuses(struct ends *e, size_t cap)
{
    uint8_t *buf = test_malloc(cap);
    memset(buf, 0x77, cap);
    size_t size = 12345;
    struct apir_ring_host before = e->host;
    assert_int_equal(apir_ring_host_take(&e->host, buf, cap, &size), -EBADMSG);
    assert_int_equal(size, 12345);
    assert_true(e->host.head == before.head);
    test_free(buf); /* cmocka looks at the bytes around it */
}

/* The host keeps its own head: whatever the guest writes there, it is not read. */
ENDS_TEST(a_hostile_tail_keeps_the_host_awake_to_refuse_it, ends_open)
{
    ends_start_at(e, 4096);
    apir_store_release64(&e->header->tail, 8);
    assert_false(apir_ring_host_prepare_sleep(&e->host));
    apir_ring_host_awake(&e->host);
    expect_host_refuses(e, APIR_MESSAGE_MAX);
}

/* Once seen, a tail is not looked at again before its messages are done. */
ENDS_TEST(a_tail_pulled_back_takes_no_message_away, ends_open)
{
    for (uint64_t i = 0; i < 3; i++)
        put(e, 64, i);
    apir_ring_guest_publish(&e->guest);
    for (uint64_t i = 0; i < 3; i++) {
        expect_taken(e, 64, i);
        apir_store_release64(&e->header->tail, 8);
        complete(&e->host);
    }
    expect_host_refuses(e, APIR_MESSAGE_MAX);
}

ENDS_TEST(a_buffer_too_small_is_not_written_behind, ends_open)
{
    publish(e, 64, 1);
    for (size_t cap = 1; cap < 64; cap++)
        expect_host_refuses(e, cap);
}

/* ---- a broken host -------------------------------------------------------------- */

ENDS_TEST(a_head_that_makes_no_sense_gives_the_guest_no_room, ends_open)
{
    static const uint64_t tails[] = {0, 64, 5 * CMD_SIZE, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        const uint64_t t = tails[i];
        ends_start_at(e, t);
        const uint64_t heads[] = {t + 1, t + 8, t - CMD_SIZE - 1, t - CMD_SIZE - 8,
                                  t ^ UINT64_C(1) << 63};
        for (size_t k = 0; k < sizeof(heads) / sizeof(heads[0]); k++) {
            apir_store_release64(&e->header->head, heads[k]);
            assert_true(apir_ring_guest_head(&e->guest) == t - CMD_SIZE);
            assert_false(apir_ring_guest_has_room(&e->guest, 8));
        }
        apir_store_release64(&e->header->head, t);
        assert_true(apir_ring_guest_has_room(&e->guest, CMD_SIZE));
    }
}

/* ---- state ------------------------------------------------------------------------ */

ENDS_TEST(the_reason_is_cut_and_terminated, ends_open)
{
    char text[APIR_REASON_MAX + 64];
    for (size_t n = 0; n < sizeof(text); n++) {
        memset(text, 'r', n);
        text[n] = '\0';
        uint8_t *behind = (uint8_t *)e->header->reason + APIR_REASON_MAX;
        memset(e->header->reason, 0x55, APIR_REASON_MAX);
        memset(behind, 0x55, 8);
        uint32_t wake = apir_load_acquire32(&e->header->wake);
        apir_ring_set_state(e->header, APIR_STATE_FATAL, text);
        assert_int_equal(apir_load_acquire32(&e->header->state), APIR_STATE_FATAL);
        assert_int_equal(apir_load_acquire32(&e->header->wake), wake + 1);
        size_t want = n < APIR_REASON_MAX ? n : APIR_REASON_MAX - 1;
        assert_int_equal(strnlen(e->header->reason, APIR_REASON_MAX), want);
        assert_memory_equal(e->header->reason, text, want);
        for (int i = 0; i < 8; i++)
            assert_int_equal(behind[i], 0x55);
    }
    apir_ring_set_state(e->header, APIR_STATE_LOST, "gone");
    apir_ring_set_state(e->header, APIR_STATE_READY, NULL); /* no reason: the text stays */
    assert_string_equal(e->header->reason, "gone");
    assert_int_equal(apir_load_acquire32(&e->header->state), APIR_STATE_READY);
}
