/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's maps of shared memory, one page each: the first page of a ring, a
 * worker's status, the workers' spin page, the VMM's timelines. Others hold these
 * memfds too. None of them can shrink one (the VMM its own; memory.h has the
 * exception), but a hole can be punched into it, and where the machine has no memory
 * left to fill the hole the kernel answers our next store with SIGBUS. So it does where
 * one was shrunk. That must cost the one context: the
 * page is replaced by one of our own and the store goes on, seen by nobody.
 */
#pragma once

/* Of the contexts: three each, and the pages of spinning and of turns. */
#define SERVER_PAGES_MAX 1600u
#define SERVER_PAGE_SIZE 4096u

/* Maps the first page of fd, to read and write. Returns 0 or -errno. */
int server_page_map(int fd, void **ret_page);
/* NULL is nothing to do. */
void server_page_unmap(void *page);
