/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with more descriptors than common/fdsock.h sends, as a peer may that does not use our
 * code. */
#ifndef APIR_TEST_DESCRIPTORS_H
#define APIR_TEST_DESCRIPTORS_H

#include <stddef.h>
#include <sys/types.h>

#define DESCRIPTORS_MAX 253u /* the kernel's SCM_MAX_FD */

/* One sendmsg without SIGPIPE: what that returns, and errno. n is at most DESCRIPTORS_MAX. */
ssize_t descriptors_send(int sock, const void *data, size_t size, const int *fds, size_t n);

#endif
