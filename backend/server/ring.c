/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ring.h"

#include <string.h>

#include "backend/server/memory.h"
#include "backend/server/page.h"
#include "protocol/atomic.h"
#include "protocol/futex.h"
#include "protocol/ring.h"
#include "common/cleanup.h"

_Static_assert(APIR_RING_HEADER_SIZE == SERVER_PAGE_SIZE, "one page");

int server_ring_map(int fd, uint64_t size, struct apir_ring_header **ret_header)
{
    void *page = NULL;
    int rc = server_memory_reserve(fd, APIR_RING_HEADER_SIZE);
    if (rc == 0)
        rc = server_page_map(fd, &page);
    if (rc < 0)
        return rc;
    struct apir_ring_header *header = page;
    header->magic = APIR_RING_MAGIC;
    header->major = APIR_PROTOCOL_MAJOR;
    header->minor = APIR_PROTOCOL_MINOR;
    header->blob_size = size;
    header->reply_offset = APIR_RING_HEADER_SIZE;
    header->reply_size = apir_ring_reply_size(size);
    header->cmd_offset = apir_ring_cmd_offset(size);
    header->cmd_size = (uint32_t)(size - apir_ring_cmd_offset(size));
    apir_store_release32(&header->state, APIR_STATE_STARTING);
    *ret_header = header;
    return 0;
}

void server_ring_note(struct apir_ring_header *header, const char *text)
{
    char whole[APIR_REASON_MAX] = {0};
    memcpy(whole, text, strnlen(text, sizeof(whole) - 1));
    memcpy(header->reason, whole, sizeof(whole));
}

void server_ring_lose(struct apir_ring_header *header, const char *reason)
{
    if (apir_load_acquire32(&header->state) != APIR_STATE_FATAL) {
        server_ring_note(header, reason);
        apir_store_release32(&header->state, APIR_STATE_LOST); /* after the text */
    }
    apir_add32(&header->wake, 1);
    apir_futex_wake(&header->wake, APIR_RING_WAKES);
}
