/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/attacks/hijacked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fdsock.h"
#include "protocol/atomic.h"
#include "protocol/messages.h"
#include "protocol/shm.h"
#include "tests/hostile/attacks/attack.h"
#include "tests/hostile/attacks/own.h"
#include "tests/lib/processes.h"

#define VARIABLE "APIR_ATTACKS_HIJACKED" /* the file with the device's id */

enum { CONTROL = 3, STATUS = 4 };

/* ---- the worker -------------------------------------------------------------------------- */

bool hijacked_is_worker(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--spin-slot") == 0;
}

static struct apir_ring_header *ring_receive(void)
{
    struct apir_control control;
    size_t size = 0, n_fds = 0;
    int fd = -1;
    if (apir_fdsock_recv(CONTROL, &control, sizeof(control), &size, &fd, 1, &n_fds, 0) || !n_fds)
        exit(1);
    void *ring = mmap(NULL, APIR_RING_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED)
        exit(1);
    return ring;
}

static const char *claim(const char *device, uint64_t bytes)
{
    struct apir_ask ask = {.op = APIR_ASK_RESERVE, .size = bytes};
    struct apir_control_answer answer = {0};
    size_t size = 0;
    memcpy(ask.device, device, strnlen(device, sizeof(ask.device) - 1));
    if (apir_fdsock_send(CONTROL, &ask, sizeof(ask), NULL, 0) < 0 ||
        apir_fdsock_recv(CONTROL, &answer, sizeof(answer), &size, NULL, 0, NULL, 0) < 0 ||
        size != sizeof(answer))
        exit(1);
    return answer.refused ? "refused" : "granted";
}

static _Noreturn void hijacked(const char *device)
{
    struct apir_worker_status *status =
        mmap(NULL, sizeof(*status), PROT_READ | PROT_WRITE, MAP_SHARED, STATUS, 0);
    if (status == MAP_FAILED)
        exit(1);
    struct apir_ring_header *ring = ring_receive();
    const char *all = claim(device, APIR_SIZE_MAX), *more = claim(device, 1);
    snprintf(ring->reason, sizeof(ring->reason), "%s, %s", all, more);
    apir_store_release32(&status->ready, 1);
    apir_store_release32(&ring->state, APIR_STATE_READY);
    for (;;)
        pause();
}

int hijacked_main(char **argv)
{
    char device[APIR_ID_SIZE] = "", real[4096];
    const char *file = getenv(VARIABLE);
    const int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t n = fd < 0 ? -1 : read(fd, device, sizeof(device) - 1);
    if (n > 0 && unlink(file) == 0)
        hijacked(device);
    if (fd >= 0)
        close(fd);
    snprintf(real, sizeof(real), "%s", process_built("backend/apir-worker"));
    argv[0] = real;
    execv(real, argv);
    return 127;
}

/* ---- the row ----------------------------------------------------------------------------- */

static char folder[32], named[64], program[4096];

void hijacked_begin(void)
{
    snprintf(folder, sizeof(folder), "/tmp/apir-hijacked-XXXXXX");
    WANT(mkdtemp(folder));
    snprintf(named, sizeof(named), "%s/next", folder);
    setenv(VARIABLE, named, 1);
    snprintf(program, sizeof(program), "%s", process_built("tests/hostile/attacks/apir-attacks"));
    own_worker = program;
}

void hijacked_next(const char *device_id)
{
    char made[80];
    snprintf(made, sizeof(made), "%s.made", named);
    const int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    WANT(fd >= 0 && write(fd, device_id, strlen(device_id)) == (ssize_t)strlen(device_id));
    close(fd);
    WANT(rename(made, named) == 0);
}

void hijacked_end(void)
{
    own_worker = NULL;
    WANT(rmdir(folder) == 0); /* empty: there was the one that was told of */
}
