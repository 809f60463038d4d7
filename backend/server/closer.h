/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What takes as long as a stranger likes, done by threads of its own. Whoever closes the last
 * descriptor of a file may wait for it: a socket that lingers, a file system in user space. A
 * connection is such a file as well, for what lies in it unread. Memory takes the longer to free
 * the more of it a guest has written.
 *
 * These threads do nothing else: a child that is forked meanwhile needs none of their locks. Where
 * all of a kind are busy, the rest waits for them: that costs descriptors or memory, and nobody's
 * time. Where there is no memory for the note of it, nothing is done: to wait would be worse.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For what may wait; one more frees memory, which takes a core, and one removes folders. */
#define SERVER_CLOSERS_MAX 64u

/* Takes the descriptors over, and does not wait. */
void server_close_later(const int *fds, size_t n);

/*
 * The same for memory of this size (backend/server/memory.h): it is freed, then closed, and then
 * *done is 1 (a release store); it must stay there until then, or be NULL. By turns who has little
 * goes before who has much, and who came first before all. False: there is no memory for the note
 * of it, and fd stays the caller's.
 */
bool server_free_later(int fd, uint64_t size, uint32_t *done);

/* A folder is removed that is empty by now, or soon (backend/server/cgroup.h): one after the other,
 * and each is waited for for a second at most. */
void server_remove_later(const char *folder);
