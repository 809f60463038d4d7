/* SPDX-License-Identifier: Apache-2.0 */
#include "common/peer.h"

#include <sys/socket.h>

bool apir_fdsock_peer(int fd, struct apir_fdsock_peer *ret_peer)
{
    struct ucred cred;
    socklen_t size = sizeof(cred);
    *ret_peer = (struct apir_fdsock_peer){.uid = (uid_t)-1, .gid = (gid_t)-1};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 || size != sizeof(cred))
        return false;
    *ret_peer = (struct apir_fdsock_peer){.pid = cred.pid, .uid = cred.uid, .gid = cred.gid};
    return true;
}
