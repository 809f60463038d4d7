/* SPDX-License-Identifier: Apache-2.0 */
#include "common/peer.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool apir_fdsock_peer(int fd, struct apir_fdsock_peer *ret_peer)
{
    struct apir_fdsock_peer peer = {.pid = 0};
    socklen_t size = sizeof(peer.pid);
    *ret_peer = (struct apir_fdsock_peer){.uid = (uid_t)-1, .gid = (gid_t)-1};
    if (getpeereid(fd, &peer.uid, &peer.gid) < 0)
        return false;
    if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &peer.pid, &size) < 0)
        peer.pid = 0;
    *ret_peer = peer;
    return true;
}
