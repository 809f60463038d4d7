/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/seen/counts.h"

#include "protocol/atomic.h"
#include "protocol/messages.h"

/* What an honest worker's words may be beyond our clock's: it may be preempted between two of them.
 */
#define SLACK_NS UINT64_C(1000000000)
/* No machine moves so many bytes in a nanosecond; nor does it one message. */
#define BYTES_PER_NS 4096u

/* `said` is the new value of *seen if it is neither less nor more than `most`; by `slack` it may
 * be, and is put right. */
static void count_take(struct server_counts *counts, uint64_t *seen, uint64_t said, uint64_t most,
                       uint64_t slack)
{
    if (said < *seen) {
        counts->odd = counts->odd || *seen - said > slack;
        return;
    }
    if (said > most) {
        counts->odd = counts->odd || said - most > slack;
        said = most;
    }
    if (said > *seen)
        *seen = said;
}

static uint64_t busy_of(uint64_t work, uint64_t now_ns)
{
    const uint64_t since = work & ~APIR_AT_WORK;
    if (!(work & APIR_AT_WORK))
        return work;
    return since < now_ns ? now_ns - since : 0;
}

void server_counts_read(struct server_counts *counts, const struct apir_worker_counts *page,
                        uint64_t now_ns, uint64_t began_ns)
{
    const uint64_t wall = now_ns > began_ns ? now_ns - began_ns : 0;
    const uint64_t bytes = wall < INT64_MAX / BYTES_PER_NS ? wall * BYTES_PER_NS : INT64_MAX;
    uint64_t messages = 0;
    for (unsigned i = 0; i < APIR_COUNTED_CODES; i++) {
        const uint64_t n = apir_load_relaxed64(&page->messages[i].count);
        messages = n > UINT64_MAX - messages ? UINT64_MAX : messages + n;
    }
    count_take(counts, &counts->busy_ns, busy_of(apir_load_relaxed64(&page->work), now_ns), wall,
               SLACK_NS);
    count_take(counts, &counts->graphs_ns, apir_load_relaxed64(&page->graphs_ns), wall, SLACK_NS);
    count_take(counts, &counts->longest_ns, apir_load_relaxed64(&page->longest_ns), wall, SLACK_NS);
    count_take(counts, &counts->turns_ns, apir_load_relaxed64(&page->turns_ns), wall, SLACK_NS);
    count_take(counts, &counts->messages, messages, wall, 0);
    count_take(counts, &counts->graphs,
               apir_load_relaxed64(&page->messages[APIR_MSG_GRAPH_EXEC].count), wall, 0);
    count_take(counts, &counts->set_bytes, apir_load_relaxed64(&page->set_bytes), bytes, 0);
    count_take(counts, &counts->got_bytes, apir_load_relaxed64(&page->got_bytes), bytes, 0);
}
