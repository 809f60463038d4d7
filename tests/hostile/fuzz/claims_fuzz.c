/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What another server, of another user perhaps, says that it has of a device. Input: its file.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "backend/server/limits/claims.h"
#include "protocol/messages.h"

const char fuzz_corpus[] = "claims";

static char folder[64], theirs[128];
static struct server_claims claims;

static void remove_all(void)
{
    server_claims_close(&claims);
    (void)unlink(theirs);
    (void)rmdir(folder);
}

static void set_up(void)
{
    struct apir_error err;
    fuzz_folder(folder);
    snprintf(theirs, sizeof(theirs), "%s/" SERVER_CLAIMS_PREFIX "0123456789abcdef", folder);
    FUZZ_CHECK(server_claims_open(&claims, folder, &err) == 0);
    atexit(remove_all);
}

/* Sums of what each row may say, and no more rows than there are bytes for. */
static void check_usage(const struct server_usage *usage, size_t size)
{
    uint64_t rows = size / sizeof(struct server_claim);
    FUZZ_CHECK(rows < SERVER_CLAIMS_ROWS_MAX && usage->bytes <= rows * APIR_SIZE_MAX);
    FUZZ_CHECK(usage->contexts <= rows * SERVER_CLAIMS_CONTEXTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct server_usage usage = {0};
    if (!folder[0])
        set_up();
    int fd = open(theirs, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    FUZZ_CHECK(fcntl(fd, F_OFD_SETLK, &all) == 0);
    /* Rows that it says to have and has not are looked for again, until there were enough looks. */
    const int ret = server_claims_add_others(&claims, "cpu", &usage);
    FUZZ_CHECK(ret == 0 || ret == -EUSERS);
    check_usage(&usage, size);
    /* Its server has ended: it counts no more, and is removed. */
    close(fd);
    usage = (struct server_usage){0};
    FUZZ_CHECK(server_claims_add_others(&claims, "cpu", &usage) == 0);
    FUZZ_CHECK(usage.bytes == 0 && usage.contexts == 0 && access(theirs, F_OK) < 0);
    return 0;
}
