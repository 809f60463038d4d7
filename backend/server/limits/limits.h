/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of a device that hold over all contexts of all servers of this machine, for each
 * VM has a server of its own: "device_memory_mib" and "max_contexts_per_device". Where there is
 * room for what is wanted, it is first written down for the others
 * (backend/server/limits/claims.h), then added up again, and taken back where that is too much: two
 * at the same moment may both be refused, but never both granted. What there is no room for is
 * never written down, so nobody is in the way of others by asking.
 *
 * The folder is "limits_dir"; else /run/apir/limits where that can be written in; else
 * $XDG_RUNTIME_DIR/apir/limits. With none of these the limits hold for this server alone. A
 * "limits_dir" that cannot be used is an error: nothing is granted then.
 *
 * "class_device_memory_mib" is the same for the contexts of this server alone: a class has a
 * server.
 *
 * Without such a limit nothing is refused, whatever others have, but what contexts use is still
 * written down, for servers that have one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/config/config.h"
#include "backend/server/limits/claims.h"

struct server_limits {
    const struct apir_config *config;
    bool tried;               /* to open claims */
    struct apir_error broken; /* of limits_dir */
    struct server_claims claims;
    /*
     * Our own, one per device; nothing in use: free. Their sums cannot overflow: an account has
     * APIR_SIZE_MAX (2^46) of a device at most (backend/server/limits/account.c), and there is one
     * for each living worker, of which backend/server/context.c starts no more than twice
     * APIR_CONFIG_CONTEXTS_MAX (256) and some.
     */
    struct server_claim *rows;
    uint32_t n_rows;
    uint32_t room;
};

/* Whether anything that is asked for may be refused for a limit, of a device or of a context. */
bool server_limits_any(const struct server_limits *limits);

void server_limits_init(struct server_limits *limits, const struct apir_config *config);
void server_limits_fini(struct server_limits *limits);

/* The common folder, which is open for as long as *limits lives, or -errno. */
int server_limits_folder(struct server_limits *limits);

/*
 * For an account that has APIR_SIZE_MAX of the device at most, with this. `device` passes
 * server_claims_id_ok. Returns 0, or -errno with why[APIR_WHY_SIZE] set for the
 * user: -EDQUOT where a limit is in the way.
 */
int server_limits_take(struct server_limits *limits, const char *device, uint64_t bytes,
                       uint32_t contexts, char *why);
/* What was taken. */
void server_limits_give(struct server_limits *limits, const char *device, uint64_t bytes,
                        uint32_t contexts);

/* Bytes of the device that could be taken, and the limit; UINT64_MAX: there is none. */
void server_limits_room(struct server_limits *limits, const char *device, uint64_t *ret_free,
                        uint64_t *ret_limit);
