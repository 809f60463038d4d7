/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/traffic.h"

#include <inttypes.h>
#include <string.h>

#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "tests/bench/apir_bench.h"

void traffic_find(struct traffic *t)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    memset(t, 0, sizeof(*t));
    while (maps && !t->ring && fgets(line, sizeof(line), maps)) {
        uintptr_t lo, hi;
        char mode[8];
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s", &lo, &hi, mode) != 3 ||
            strcmp(mode, "rw-s") != 0 || hi - lo != APIR_RING_SIZE)
            continue;
        /* A memfd over vtest and unix, the DRM node in a VM; nothing else is touched. */
        if (!strstr(line, "memfd:") && !strstr(line, "/dev/dri/"))
            continue;
        const struct apir_ring_header *h = (const void *)lo;
        if (apir_load_acquire64(&h->magic) == APIR_RING_MAGIC)
            t->ring = h;
    }
    if (!t->ring)
        fail("this process has no ring");
    fclose(maps);
    t->seen = apir_load_acquire64(&t->ring->tail);
}

static void ring_read(const struct traffic *t, uint64_t at, void *to, size_t n)
{
    const uint8_t *cmd = (const uint8_t *)t->ring + t->ring->cmd_offset;
    uint64_t mask = t->ring->cmd_size - 1;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)to)[i] = cmd[(at + i) & mask];
}

/* Payloads that travel in the arena, or are tensor data in the ring. */
static void payload_count(struct traffic *t, const struct apir_msg *m)
{
    switch (m->code) {
    case APIR_MSG_SET_INLINE:
        t->inputs += m->u.set_inline.size;
        t->beyond -= m->u.set_inline.size;
        break;
    case APIR_MSG_SET:
        t->inputs += m->u.set.size;
        break;
    case APIR_MSG_SET_2D:
        t->inputs += m->u.set_2d.size * m->u.set_2d.count;
        break;
    case APIR_MSG_GET:
        t->outputs += m->u.get.size;
        break;
    case APIR_MSG_GET_2D:
        t->outputs += m->u.get_2d.size * m->u.get_2d.count;
        break;
    case APIR_MSG_GRAPH_DEF:
        t->beyond += m->u.graph_def.size;
        break;
    case APIR_MSG_OP_QUERY:
        t->beyond += m->u.op_query.size;
        break;
    case APIR_MSG_GRAPH_OPTIMIZE:
        t->beyond += m->u.graph_optimize.size;
        break;
    default:
        break;
    }
}

void traffic_count(struct traffic *t)
{
    uint64_t tail = apir_load_acquire64(&t->ring->tail);
    if (tail - t->seen > t->ring->cmd_size)
        fail("in the ring: more than it holds");
    while (t->seen != tail) {
        static uint8_t buf[APIR_MESSAGE_MAX];
        struct apir_msg_header h;
        struct apir_msg msg;
        const char *why = "";
        ring_read(t, t->seen, &h, sizeof(h));
        if (h.size < sizeof(h) || h.size > sizeof(buf) || h.size > tail - t->seen)
            fail("in the ring: a message of %u bytes", h.size);
        ring_read(t, t->seen, buf, h.size);
        if (apir_msg_decode(buf, h.size, APIR_ST_READY, &msg, &why) < 0 || h.code >= TRAFFIC_CODES)
            fail("in the ring: %s", why);
        t->count[h.code]++;
        t->bytes[h.code] += h.size;
        t->ring_bytes += h.size;
        t->beyond += h.size;
        payload_count(t, &msg);
        t->seen += h.size;
    }
}

void traffic_print(const struct traffic *t, uint64_t tokens, FILE *to)
{
    double n = (double)tokens;
    for (unsigned i = 0; i < TRAFFIC_CODES; i++) {
        if (t->count[i])
            fprintf(to, "  %-16s %6.2f messages  %7.1f bytes\n", apir_msg_name(i),
                    (double)t->count[i] / n, (double)t->bytes[i] / n);
    }
    fprintf(to,
            "  per token: %.1f bytes on the ring, %.0f of inputs, %.0f of logits, %.1f beyond\n",
            (double)t->ring_bytes / n, (double)t->inputs / n, (double)t->outputs / n,
            (double)t->beyond / n);
}
