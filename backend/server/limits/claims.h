/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the servers of this machine tell each other: each has one file in a common folder,
 * with a row per device that its contexts use. Only its owner writes a file, and holds a
 * write lock on it for as long as it lives; the others read it, and only ask whether the
 * lock is there. So nobody waits for anybody, nobody changes another's numbers, and those
 * of a server that was killed count no more, whatever became of its process id.
 *
 * Who may write in the folder may claim what there is: its permissions are the rule of who
 * counts. What a file of another holds is checked, and counts for nothing where it makes no
 * sense.
 */
#pragma once

#include <stdint.h>

#include "common/error.h"
#include "protocol/shm.h"

#define SERVER_CLAIMS_MAGIC    UINT64_C(0x314d494c43524950) /* "PIRCLIM1" as bytes */
#define SERVER_CLAIMS_ROWS_MAX 16384u
#define SERVER_CLAIMS_CONTEXTS 65536u /* of one row */
/* Of a folder, so that nobody can keep servers busy with it: where there is more, nothing is had.
 * Rows are read twice, and an honest server has one per device. */
#define SERVER_CLAIMS_FILES     4096u
#define SERVER_CLAIMS_LOOKED_AT (1u << 17)
#define SERVER_CLAIMS_PREFIX    "server-"

/* The file: a head, then rows. In the byte order of the machine, which it never leaves. */
struct server_claims_head {
    uint64_t magic;
    uint32_t n_rows;
    uint32_t zero;
};

struct server_claim {
    char device[APIR_ID_SIZE]; /* NUL-padded */
    uint64_t bytes;            /* at most APIR_SIZE_MAX */
    uint32_t contexts;
    uint32_t zero;
};

struct server_claims {
    int dir_fd; /* -1: not open, and then all of this is */
    int fd;
    char name[32];
};

struct server_usage {
    uint64_t bytes;
    uint64_t contexts;
};

/* Characters of an id: a-z 0-9 . : @ _ -, one at least, then NULs up to the end. */
int server_claims_id_ok(const char id[APIR_ID_SIZE]);

/* Makes a file of our own in the folder. Returns 0 or -errno with *err. */
int server_claims_open(struct server_claims *claims, const char *folder, struct apir_error *err);
/* Removes it. */
void server_claims_close(struct server_claims *claims);

/* Row `index` of n_rows, which may be one more than before. Returns 0 or -errno. */
int server_claims_write(struct server_claims *claims, uint32_t index, uint32_t n_rows,
                        const struct server_claim *row);

/*
 * Adds what all other servers have of the device to *usage. Removes files of dead servers, where
 * it may. Returns 0 or -errno; -EUSERS: there is too much to look at.
 */
int server_claims_add_others(const struct server_claims *claims, const char *device,
                             struct server_usage *usage);
