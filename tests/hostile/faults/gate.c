/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/faults/gate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct gate *gate;
static uint32_t epoch; /* in which this process began */

/* As system calls: the library's own functions may be the gates. */
struct gate *gate_open(void)
{
    const char *path = getenv(GATE_ENV);
    if (gate || !path)
        return gate;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "gate: cannot open %s\n", path);
        abort();
    }
    const long map =
        syscall(SYS_mmap, NULL, sizeof(*gate), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == -1)
        abort();
    syscall(SYS_close, fd);
    gate = (struct gate *)map;
    epoch = __atomic_load_n(&gate->epoch, __ATOMIC_ACQUIRE);
    return gate;
}

__attribute__((constructor)) static void gate_begin(void)
{
    (void)gate_open();
}

/* True for a call that the gate is armed for: one, or all from there on. */
static bool gate_takes(enum gate_point point)
{
    uint32_t armed = (uint32_t)point + 1;
    if (__atomic_load_n(&gate->armed, __ATOMIC_ACQUIRE) != armed)
        return false;
    if (__atomic_load_n(&gate->skip, __ATOMIC_ACQUIRE) > 0) {
        __atomic_sub_fetch(&gate->skip, 1, __ATOMIC_ACQ_REL);
        return false;
    }
    return gate->action == GATE_FAIL_ON ||
           __atomic_compare_exchange_n(&gate->armed, &armed, 0, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

bool gate_fails(enum gate_point point)
{
    if (!gate || __atomic_load_n(&gate->epoch, __ATOMIC_ACQUIRE) != epoch)
        return false;
    __atomic_add_fetch(&gate->passes[point], 1, __ATOMIC_ACQ_REL);
    if (!gate_takes(point))
        return false;
    const enum gate_action action = gate->action;
    __atomic_store_n(&gate->held, (uint32_t)getpid(), __ATOMIC_RELEASE);
    if (action == GATE_ABORT)
        abort();
    const struct timespec nap = {.tv_nsec = 1000000};
    while (action == GATE_HOLD && !__atomic_load_n(&gate->go, __ATOMIC_ACQUIRE))
        nanosleep(&nap, NULL);
    return action == GATE_FAIL || action == GATE_FAIL_ON;
}
