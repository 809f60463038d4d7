/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker with faults, for the tests of the server. FAKE_WORKER says which:
 *   (none)  READY, then completes whatever is written
 *   exit    ends with status 3 before READY
 *   crash   READY, then aborts at the first work
 *   stop    READY, then stops itself at the first work
 *   stuck   never READY, as where a driver hangs
 *   busy    READY, then works on the first message for ever
 *   slow    READY, then works on each message for 0.6 s
 *   gets-on READY, then works on each message for 2.5 s, and shows that it gets on
 *   deaf    READY, then reads nothing any more
 *   rude-…  READY, then breaks the rules of the control socket: nonsense, a wrong size, a
 *           release of what it never had, a descriptor
 *   reserve READY if it is told that there are limits, else 4; then reserves 60 MiB before it
 *           completes; refused: ends with status 6
 *   hoard   READY, then asks and asks, and reads no answer
 *   spare-exit, spare-stuck  as a spare one: ends after a moment in which it can be seen, as stuck;
 *           else as with none
 *   trial-… as the one that tries the devices, GPU0, unless that is left out:
 *           killed, by somebody else; says, prints a lot and ends; rude, nameless, says nonsense;
 *           held, goes on after a SIGTERM, and ends with 7 if the ring comes before what it is
 *           about. As any other: as with none
 *   inherit READY only if it inherited what it should and nothing else; else 4
 * As a stock render server (--socket-fd) it never answers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol/atomic.h"
#include "common/fdsock.h"
#include "common/parent.h"
#include "protocol/shm.h"
#include "tests/lib/fds.h"

enum { CONTROL = 3, STATUS = 4 };

static struct apir_worker_status *status_page;
static struct apir_ring_header *ring;
static bool ring_is_last; /* the arena has to be there before */

static _Noreturn void forever(void)
{
    for (;;)
        pause();
}

/* Behind the slot. */
static bool told_limited(char **argv)
{
    return argv[1] && argv[2] && argv[3] && strcmp(argv[3], "--limited") == 0;
}

static bool inherited_well(char **argv)
{
    if (!argv[1] || strcmp(argv[1], "--spin-slot") != 0)
        return false;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    struct sigaction chld;
    struct sigaction sigpipe;
    sigaction(SIGCHLD, NULL, &chld);
    sigaction(SIGPIPE, NULL, &sigpipe);
    int death = 0;
    prctl(PR_GET_PDEATHSIG, &death);
    /* Elsewhere a worker sees to that itself. */
    const bool dies = death == SIGKILL || getenv("APIR_TEST_POSIX");
    /* the one that counts them, three streams, three descriptors */
    return !told_limited(argv) && fds_count(0) == 7 && !sigismember(&mask, SIGCHLD) &&
           chld.sa_handler == SIG_DFL && sigpipe.sa_handler == SIG_DFL && dies &&
           !getenv("GGML_BACKEND_PATH") && !getenv("GGML_VK_VISIBLE_DEVICES");
}

static bool begins_well(const char *fault, char **argv)
{
    if (strcmp(fault, "inherit") == 0 && !inherited_well(argv))
        return false;
    if (getenv("APIR_TEST_POSIX") && !apir_ends_with_parent(getppid()))
        return false;
    return strcmp(fault, "reserve") != 0 || told_limited(argv);
}

/* One message, or false where there is none (flags: MSG_DONTWAIT). */
static bool receive_control(int flags)
{
    struct apir_control control;
    size_t size = 0;
    size_t n_fds = 0;
    int fd = -1;
    int rc = apir_fdsock_recv(CONTROL, &control, sizeof(control), &size, &fd, 1, &n_fds, flags);
    if (rc == -EAGAIN)
        return false;
    if (rc < 0 || size == 0)
        exit(0);
    if (control.op == APIR_CONTROL_ADD_BLOB && control.blob_id == APIR_ARENA_BLOB_ID)
        ring_is_last = false;
    if (control.op == APIR_CONTROL_ADD_BLOB && control.blob_id == APIR_RING_BLOB_ID) {
        if (ring_is_last)
            exit(7);
        ring = mmap(NULL, APIR_RING_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (ring == MAP_FAILED)
            exit(5);
        apir_store_release32(&status_page->ready, 1);
        apir_store_release32(&ring->state, APIR_STATE_READY);
    }
    if (n_fds)
        close(fd);
    return true;
}

static void drain_control(void)
{
    while (receive_control(MSG_DONTWAIT)) {
    }
}

static void complete(void)
{
    uint64_t tail = apir_load_acquire64(&ring->tail);
    apir_store_release64(&status_page->head, tail);
    apir_store_release64(&ring->head, tail);
}

static void be_rude(const char *how)
{
    struct apir_ask ask = {.op = APIR_ASK_RESERVE, .size = 1, .device = "gpu"};
    int fd = STDERR_FILENO;
    if (strcmp(how, "op") == 0)
        ask.op = 4;
    else if (strcmp(how, "flags") == 0)
        ask.flags = 2;
    else if (strcmp(how, "huge") == 0)
        ask.size = UINT64_MAX;
    else if (strcmp(how, "id") == 0)
        memset(ask.device, 'a', sizeof(ask.device));
    else if (strcmp(how, "release") == 0)
        ask.op = APIR_ASK_RELEASE;
    const bool is_short = strcmp(how, "short") == 0;
    int rc = apir_fdsock_send(CONTROL, &ask, is_short ? 8 : sizeof(ask), &fd,
                              strcmp(how, "fd") == 0 ? 1 : 0);
    if (rc == -EPERM) /* Linux 6.16: no descriptor gets there, so this is as rude as it can be */
        (void)apir_fdsock_send(CONTROL, &ask, 8, NULL, 0);
    forever();
}

static void reserve(void)
{
    const struct apir_ask ask = {.op = APIR_ASK_RESERVE, .size = 60u << 20, .device = "gpu"};
    struct apir_control_answer answer = {0};
    size_t size = 0;
    if (apir_fdsock_send(CONTROL, &ask, sizeof(ask), NULL, 0) < 0 ||
        apir_fdsock_recv(CONTROL, &answer, sizeof(answer), &size, NULL, 0, NULL, 0) < 0 ||
        size != sizeof(answer) || answer.op != APIR_CONTROL_ANSWER)
        exit(5);
    if (answer.refused)
        exit(strstr(answer.why, "device_memory_mib: 100") ? 6 : 5);
}

static void hoard(void)
{
    const struct apir_ask ask = {.op = APIR_ASK_ROOM, .device = "gpu"};
    while (apir_fdsock_send(CONTROL, &ask, sizeof(ask), NULL, 0) == 0) {
    }
    forever();
}

/* Until that has seen what it wants to. */
static void wait_for_test(void)
{
    sigset_t told;
    int signal;
    sigemptyset(&told);
    sigaddset(&told, SIGTERM);
    sigprocmask(SIG_BLOCK, &told, NULL);
    prctl(PR_SET_NAME, "fake_waits"); /* from here on the signal ends nothing */
    sigwait(&told, &signal);
}

/* Ready before it has a ring, and called so from then on, or not. */
static void be_spare(const char *fault)
{
    if (strcmp(fault, "spare-exit") == 0) {
        wait_for_test();
        exit(3);
    }
    if (strcmp(fault, "spare-stuck") == 0)
        return;
    apir_store_release32(&status_page->ready, 1);
    prctl(PR_SET_NAME, "fake_spare");
}

static void tried(uint64_t devices)
{
    const struct apir_ask ask = {.op = APIR_ASK_TRIED, .size = devices};
    if (apir_fdsock_send(CONTROL, &ask, sizeof(ask), NULL, 0) < 0)
        exit(5);
}

static void say_much(void)
{
    dprintf(STDERR_FILENO, "ggml: out of\033[2J luck\n");
    for (int i = 0; i < 100; i++)
        dprintf(STDERR_FILENO, "line %d of a trace\n", i);
    exit(1);
}

static void be_trial(const char *fault, bool left_out)
{
    const char *how = strncmp(fault, "trial-", 6) == 0 ? fault + 6 : "";
    struct apir_ask ask = {.op = APIR_ASK_TRY, .device = "GPU0"};
    struct apir_control_answer answer;
    size_t size = 0;
    if (strcmp(how, "rude") == 0)
        ask.op = APIR_ASK_RESERVE;
    if (strcmp(how, "nameless") == 0)
        memset(ask.device, 'a', sizeof(ask.device));
    if (left_out) {
        tried(0);
        exit(1);
    }
    if (apir_fdsock_send(CONTROL, &ask, sizeof(ask), NULL, 0) < 0 ||
        apir_fdsock_recv(CONTROL, &answer, sizeof(answer), &size, NULL, 0, NULL, 0) < 0 ||
        size != sizeof(answer) || answer.op != APIR_CONTROL_ANSWER)
        exit(5);
    if (strcmp(how, "killed") == 0)
        raise(SIGKILL);
    if (strcmp(how, "says") == 0)
        say_much();
    if (strcmp(how, "held") == 0) {
        ring_is_last = true;
        wait_for_test();
    }
    apir_store_release32(&status_page->ready, 1);
    tried(1);
}

/* Before there is a ring. */
static void be_early(const char *fault, char **argv, int argc)
{
    const char *as = argv[argc - 1], *before = argv[argc - 2];
    if (strcmp(as, "--spare") == 0)
        be_spare(fault);
    if (strcmp(as, "--try-devices") == 0)
        be_trial(fault, strcmp(before, "GPU0") == 0);
}

int main(int argc, char **argv)
{
    const char *fault = getenv("FAKE_WORKER");
    if (!fault)
        fault = "";
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (argc > 1 && strcmp(argv[1], "--socket-fd") == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        forever();
    }
    if (!begins_well(fault, argv))
        return 4;
    status_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, STATUS, 0);
    if (status_page == MAP_FAILED)
        return 5;
    if (strcmp(fault, "exit") == 0)
        return 3;
    if (strcmp(fault, "stuck") == 0)
        forever();
    be_early(fault, argv, argc);
    while (!ring)
        receive_control(0);
    if (strcmp(fault, "deaf") == 0)
        forever();
    for (;;) {
        apir_store_release32(&ring->idle, 1);
        apir_full_fence();
        drain_control();
        if (apir_load_acquire64(&ring->tail) == apir_load_acquire64(&ring->head))
            syscall(SYS_futex, &ring->idle, FUTEX_WAIT, 1, NULL, NULL, 0);
        /* All of it before the work: the test counts on that. */
        drain_control();
        if (apir_load_acquire64(&ring->tail) == apir_load_acquire64(&ring->head))
            continue;
        if (strcmp(fault, "crash") == 0)
            abort();
        if (strcmp(fault, "stop") == 0)
            raise(SIGSTOP);
        apir_store_release64(&status_page->taken, apir_load_acquire64(&ring->tail));
        if (strncmp(fault, "rude-", 5) == 0)
            be_rude(fault + 5);
        if (strcmp(fault, "reserve") == 0)
            reserve();
        if (strcmp(fault, "hoard") == 0)
            hoard();
        if (strcmp(fault, "busy") == 0)
            forever();
        if (strcmp(fault, "slow") == 0)
            usleep(600000);
        for (int i = 0; i < 45 && strcmp(fault, "gets-on") == 0; i++) {
            usleep(100000);
            apir_store_release64(&status_page->progress, status_page->progress + 1);
        }
        complete();
    }
}
