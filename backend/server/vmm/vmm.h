/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM's connection: its requests make and destroy contexts, ours and (by the
 * stock server) all others. Requests are served in order; while the stock server
 * owes a reply no further one is read, but the contexts go on.
 */
#pragma once

#include "backend/config/config.h"
#include "backend/server/child.h"
#include "backend/server/context.h"
#include "backend/server/loop.h"
#include "backend/server/peer.h"
#include "backend/server/quota.h"
#include "backend/server/seen/seen.h"
#include "backend/server/vmm/framing.h"
#include "backend/server/vmm/stock.h"

struct server_vmm {
    struct server_peer peer;
    struct server_framing framing;
    struct server_contexts contexts;
    struct server_stock stock;
    struct server_quota log_quota;
    struct server_seen seen;
};

/*
 * Takes socket_fd over (also when it fails). The loop stops when the VMM closes its end. Returns 0
 * or -errno.
 */
int server_vmm_init(struct server_vmm *vmm, const struct server_env *env, int socket_fd);
void server_vmm_fini(struct server_vmm *vmm);
