/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed by a thread: everybody's turn comes. */
#include "backend/server/closer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "protocol/atomic.h"
#include "tests/lib/unit.h"

#define LINGER_S 30 /* nothing is waited for as long, but where the test fails */

/* First, while there is no other thread. In a process of its own, of a user who may have no more
 * threads. */
static _Noreturn void free_without_threads(void)
{
    const struct rlimit none = {0, 0};
    uint32_t done = 0;
    const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || setrlimit(RLIMIT_NPROC, &none) < 0 || (geteuid() == 0 && setuid(4321) < 0))
        _exit(2);
    const bool taken = server_free_later(fd, 1000, &done);
    _exit(taken || fcntl(fd, F_GETFD) < 0);
}

TEST(where_there_is_no_thread_the_memory_stays_its_owners)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0)
        free_without_threads();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A socket whose last close waits until the other end is closed. Returns it; *ret_other is that. */
static int gate_make(int *ret_other)
{
    static const char bytes[65536];
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0 && fd >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    *ret_other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*ret_other >= 0);
    close(listener);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    return fd;
}

static void wait_for(const uint32_t *done)
{
    while (!apir_load_acquire32(done))
        sched_yield();
}

TEST(who_has_much_does_not_wait_for_all_who_have_little)
{
    static uint32_t little[3], much;
    int fds[3], others[3];
    for (int i = 0; i < 3; i++)
        fds[i] = gate_make(&others[i]);
    const int large = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(server_free_later(fds[0], 1, &little[0]));
    assert_true(server_free_later(large, 1000, &much));
    assert_true(server_free_later(fds[1], 2, &little[1]));
    assert_true(server_free_later(fds[2], 3, &little[2]));
    close(others[0]);
    /* Of those who came later the first may go before, and not the other. */
    close(others[1]);
    wait_for(&much);
    const bool in_time = !apir_load_acquire32(&little[2]);
    close(others[2]);
    for (int i = 0; i < 3; i++)
        wait_for(&little[i]);
    assert_true(in_time);
}
