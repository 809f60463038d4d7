/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Who has connected, or has made the pair of sockets, as the kernel knows it. */
struct apir_fdsock_peer {
    pid_t pid; /* 0: it is of another namespace of processes, or cannot be told */
    uid_t uid;
    gid_t gid;
};
/* False: it cannot be told. */
bool apir_fdsock_peer(int fd, struct apir_fdsock_peer *ret_peer);
