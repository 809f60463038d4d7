/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/limits/limits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/server/session.h"
#include "common/log.h"
#include "protocol/messages.h"

#define LIMITS_FOLDER "/run/apir/limits"

static bool limits_exist(const struct server_limits *limits)
{
    return limits->config->device_memory_mib || limits->config->max_contexts_per_device;
}

bool server_limits_any(const struct server_limits *limits)
{
    const struct apir_config *config = limits->config;
    return limits_exist(limits) || config->class_device_memory_mib ||
           config->context_device_memory_mib || config->context_host_memory_mib;
}

/* ---- the folder ---------------------------------------------------------------- */

/* Below the folder that systemd gives a user's session. */
static int limits_open_own(struct server_limits *limits, struct apir_error *err)
{
    char path[PATH_MAX];
    int rc = server_session_folder("limits", path, sizeof(path));
    return rc < 0 ? apir_error_sys(err, -rc, "XDG_RUNTIME_DIR")
                  : server_claims_open(&limits->claims, path, err);
}

/* With the first thing to write down: a server without contexts of ours leaves no trace. */
static void limits_open(struct server_limits *limits)
{
    limits->tried = true;
    if (limits->config->limits_dir) {
        if (server_claims_open(&limits->claims, limits->config->limits_dir, &limits->broken) < 0)
            apir_log(APIR_LOG_ERROR, "limits_dir: %s", limits->broken.msg);
        return;
    }
    struct apir_error common = {0}, own = {0};
    if (server_claims_open(&limits->claims, LIMITS_FOLDER, &common) == 0 ||
        limits_open_own(limits, &own) == 0)
        return;
    apir_log(limits_exist(limits) ? APIR_LOG_WARN : APIR_LOG_DEBUG,
             "limits of devices hold for the contexts of this server alone: %s; %s", common.msg,
             own.msg);
}

int server_limits_folder(struct server_limits *limits)
{
    if (!limits->tried)
        limits_open(limits);
    return limits->claims.dir_fd < 0 ? -ENOENT : limits->claims.dir_fd;
}

/* ---- our rows ------------------------------------------------------------------ */

static bool row_is_used(const struct server_claim *row)
{
    return row->bytes || row->contexts;
}

/* The device's row, or NULL: nobody of ours has anything of it. */
static struct server_claim *row_find(const struct server_limits *limits, const char *device)
{
    for (uint32_t i = 0; i < limits->n_rows; i++) {
        if (row_is_used(&limits->rows[i]) && strcmp(limits->rows[i].device, device) == 0)
            return &limits->rows[i];
    }
    return NULL;
}

/*
 * A free one for the device; NULL: no memory. There are enough of them, whatever devices workers
 * name: at most 2 * APIR_CONFIG_CONTEXTS_MAX and some processes with APIR_DEVICES_MAX each.
 */
static struct server_claim *row_make(struct server_limits *limits, const char *device)
{
    struct server_claim *unused = NULL;
    for (uint32_t i = 0; i < limits->n_rows && !unused; i++) {
        if (!row_is_used(&limits->rows[i]))
            unused = &limits->rows[i];
    }
    if (!unused && limits->n_rows == limits->room) {
        const uint32_t room = limits->room ? 2 * limits->room : 16;
        struct server_claim *rows =
            room <= SERVER_CLAIMS_ROWS_MAX ? realloc(limits->rows, room * sizeof(*rows)) : NULL;
        if (!rows)
            return NULL;
        limits->rows = rows;
        limits->room = room;
    }
    if (!unused)
        unused = &limits->rows[limits->n_rows++];
    *unused = (struct server_claim){0};
    memcpy(unused->device, device, strlen(device));
    return unused;
}

/* No more than others take for sense: what is beyond is more than any device has, anyway. */
static int row_write(struct server_limits *limits, const struct server_claim *row)
{
    struct server_claim shown = *row;
    if (limits->claims.dir_fd < 0)
        return 0;
    if (shown.bytes > APIR_SIZE_MAX)
        shown.bytes = APIR_SIZE_MAX;
    return server_claims_write(&limits->claims, (uint32_t)(row - limits->rows), limits->n_rows,
                               &shown);
}

/* ---- taking and giving ---------------------------------------------------------- */

static uint64_t mib(uint64_t bytes)
{
    return (bytes >> 20) + (bytes % (1u << 20) != 0);
}

/* What all contexts have, ours in. */
static int limits_used(const struct server_limits *limits, const char *device,
                       struct server_usage *ret_usage)
{
    const struct server_claim *own = row_find(limits, device);
    *ret_usage =
        (struct server_usage){.bytes = own ? own->bytes : 0, .contexts = own ? own->contexts : 0};
    return limits->claims.dir_fd < 0 ? 0
                                     : server_claims_add_others(&limits->claims, device, ret_usage);
}

static uint64_t class_most(const struct server_limits *limits)
{
    return (uint64_t)limits->config->class_device_memory_mib << 20;
}

/* What contexts of this server have. */
static uint64_t class_used(const struct server_limits *limits, const char *device)
{
    const struct server_claim *own = row_find(limits, device);
    return own ? own->bytes : 0;
}

/* Of this server alone: nobody else grants anything of it, so it is asked once. */
static int class_check(const struct server_limits *limits, const char *device, uint64_t bytes,
                       char *why)
{
    const uint64_t most = class_most(limits), used = class_used(limits, device);
    if (bytes == 0 || most == 0 || (used <= most && bytes <= most - used))
        return 0;
    snprintf(why, APIR_WHY_SIZE,
             "programs of this class have %llu MiB of the device, %llu MiB more would be over the "
             "host's limit (class_device_memory_mib: %u)",
             (unsigned long long)mib(used), (unsigned long long)mib(bytes),
             limits->config->class_device_memory_mib);
    return -EDQUOT;
}

/* Whether that much is allowed beside all else, be it written down already or not. */
static int limits_check(const struct server_limits *limits, const char *device, uint64_t bytes,
                        uint32_t contexts, bool written, char *why)
{
    const uint64_t most = (uint64_t)limits->config->device_memory_mib << 20;
    const uint32_t most_contexts = limits->config->max_contexts_per_device;
    struct server_usage used;
    if (!(bytes && most) && !(contexts && most_contexts))
        return 0;
    int rc = limits_used(limits, device, &used);
    if (rc < 0) {
        snprintf(why, APIR_WHY_SIZE, "the host cannot add up what is in use: %s", strerror(-rc));
        return rc;
    }
    if (written) {
        used.bytes -= bytes;
        used.contexts -= contexts;
    }
    if (contexts && most_contexts &&
        (used.contexts > most_contexts || contexts > most_contexts - used.contexts)) {
        snprintf(why, APIR_WHY_SIZE,
                 "as many programs use the device as the host allows "
                 "(max_contexts_per_device: %u)",
                 most_contexts);
        return -EDQUOT;
    }
    if (bytes && most && (used.bytes > most || bytes > most - used.bytes)) {
        snprintf(why, APIR_WHY_SIZE,
                 "%llu MiB of the device are in use, %llu MiB more would be over the host's limit "
                 "(device_memory_mib: %u)",
                 (unsigned long long)mib(used.bytes), (unsigned long long)mib(bytes),
                 limits->config->device_memory_mib);
        return -EDQUOT;
    }
    return 0;
}

int server_limits_take(struct server_limits *limits, const char *device, uint64_t bytes,
                       uint32_t contexts, char *why)
{
    if (!limits->tried)
        limits_open(limits);
    if (limits->broken.code && limits_exist(limits)) {
        snprintf(why, APIR_WHY_SIZE, "the host's limits_dir cannot be used; its log says why");
        return -EIO;
    }
    /* Others see what is written down: not what there is no room for. */
    int rc = class_check(limits, device, bytes, why);
    if (rc == 0)
        rc = limits_check(limits, device, bytes, contexts, false, why);
    if (rc < 0)
        return rc;
    struct server_claim *row = row_find(limits, device);
    if (!row)
        row = row_make(limits, device);
    if (!row) {
        snprintf(why, APIR_WHY_SIZE, "the host has no memory for its books");
        return -ENOMEM;
    }
    row->bytes += bytes;
    row->contexts += contexts;
    rc = row_write(limits, row);
    if (rc < 0 && limits_exist(limits))
        snprintf(why, APIR_WHY_SIZE, "the host cannot write down what is in use: %s",
                 strerror(-rc));
    else
        rc = limits_check(limits, device, bytes, contexts, true, why);
    if (rc < 0)
        server_limits_give(limits, device, bytes, contexts);
    return rc;
}

void server_limits_give(struct server_limits *limits, const char *device, uint64_t bytes,
                        uint32_t contexts)
{
    struct server_claim *row = row_find(limits, device);
    if (!row || row->bytes < bytes || row->contexts < contexts)
        return;
    row->bytes -= bytes;
    row->contexts -= contexts;
    (void)row_write(limits, row); /* in place: it takes no room */
}

static uint64_t left_of(uint64_t most, uint64_t used)
{
    return used < most ? most - used : 0;
}

void server_limits_room(struct server_limits *limits, const char *device, uint64_t *ret_free,
                        uint64_t *ret_limit)
{
    const uint64_t most = (uint64_t)limits->config->device_memory_mib << 20;
    const uint64_t most_of_class = class_most(limits);
    struct server_usage used = {0};
    *ret_limit = most ? most : UINT64_MAX;
    *ret_free = *ret_limit;
    if (most) {
        if (!limits->tried)
            limits_open(limits);
        *ret_free = limits_used(limits, device, &used) == 0 ? left_of(most, used.bytes) : 0;
    }
    if (most_of_class && most_of_class < *ret_limit)
        *ret_limit = most_of_class;
    if (most_of_class && left_of(most_of_class, class_used(limits, device)) < *ret_free)
        *ret_free = left_of(most_of_class, class_used(limits, device));
}

/* ---- life ----------------------------------------------------------------------- */

void server_limits_init(struct server_limits *limits, const struct apir_config *config)
{
    *limits = (struct server_limits){
        .config = config,
        .claims = {.dir_fd = -1, .fd = -1},
    };
}

void server_limits_fini(struct server_limits *limits)
{
    server_claims_close(&limits->claims);
    free(limits->rows);
    limits->rows = NULL;
    limits->n_rows = limits->room = 0;
}
