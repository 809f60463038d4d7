/* SPDX-License-Identifier: Apache-2.0 */
/* Memory where the system has no memfd: this program, and the servers that it starts, have none. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/server/memory.h"
#include "backend/server/page.h"
#include "backend/server/shm.h"
#include "backend/server/spin.h"
#include "tests/lib/unix_client.h"
#include "tests/lib/unit.h"

/* memfd_create does not exist. */
static int without_memfd(void **state)
{
    (void)state;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
BEFORE_ALL_TESTS(without_memfd)

TEST(there_is_no_memfd_here)
{
    assert_int_equal(memfd_create("test", MFD_CLOEXEC), -1);
    assert_int_equal(errno, ENOSYS);
}

TEST(memory_is_anonymous_and_zeroed)
{
    struct stat st;
    int fd = server_memory_create("apir-test", 3 << 16);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 3 << 16);
    assert_int_equal(st.st_nlink, 0); /* its name is gone */
    assert_int_equal(st.st_mode & 0777, 0600);
    uint8_t *map = mmap(NULL, 3 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    for (size_t i = 0; i < 3 << 16; i++)
        assert_int_equal(map[i], 0);
    munmap(map, 3 << 16);
    assert_int_equal(server_memory_reserve(fd, 3 << 16), 0);
    /* Nothing to seal, which is no failure; and it is known. */
    assert_int_equal(server_memory_seal(fd), 0);
    assert_false(server_memory_is_sealed(fd));
    close(fd);
    assert_int_equal(server_memory_create("apir-test", UINT64_MAX), -EFBIG);
}

TEST(three_files_of_one_memory)
{
    struct server_shm_fds fds;
    uint32_t value = 7;
    assert_int_equal(server_shm_create("apir-test", 65536, &fds), 0);
    assert_int_equal(pwrite(fds.guest, &value, sizeof(value), 100), sizeof(value));
    value = 0;
    assert_int_equal(pread(fds.worker, &value, sizeof(value), 100), sizeof(value));
    assert_int_equal(value, 7);
    /* Files of their own: who holds them can be told (shm.h). */
    assert_int_equal(fcntl(fds.own, F_SETLEASE, F_WRLCK), -1);
    assert_int_equal(errno, EAGAIN);
    close(fds.guest);
    close(fds.worker);
    fds.guest = fds.worker = -1;
    assert_int_equal(fcntl(fds.own, F_SETLEASE, F_WRLCK), 0);
    server_shm_close(&fds);
}

TEST(workers_share_no_page)
{
    struct server_spin spin;
    struct stat own, one, two;
    struct apir_spin_page page;
    assert_int_equal(server_spin_init(&spin), 0);
    int fds[2] = {server_spin_share(&spin), server_spin_share(&spin)};
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    assert_int_equal(fstat(spin.fd, &own) | fstat(fds[0], &one) | fstat(fds[1], &two), 0);
    assert_true(own.st_ino != one.st_ino && own.st_ino != two.st_ino && one.st_ino != two.st_ino);
    assert_int_equal(pread(fds[0], &page, sizeof(page), 0), sizeof(page));
    assert_int_equal(page.limit, 0); /* so it does not look for work, but is woken for it */
    close(fds[0]);
    close(fds[1]);
    server_spin_fini(&spin);
}

/* ---- a server ---------------------------------------------------------------------- */

UNIX_TEST(context_works)
{
    unix_take_blob(c->fd, 1, ARENA_SIZE);
    unix_request(c->fd, APIR_UNIX_BLOB_DESTROY, 1, 0);
    unix_take_blob(c->fd, 1, ARENA_SIZE);
    unix_expect_alive(c);
}

/* The ring is cut off under server and worker: that is the end of this context, and of nothing
 * else. */
UNIX_TEST(ring_that_is_cut_off_ends_its_context_alone)
{
    struct unix_client other = {.fd = unix_connect_greeted()};
    int fd = unix_create_blob(other.fd, APIR_RING_BLOB_ID, APIR_RING_SIZE);
    other.ring = unix_map_ring(dup(fd));
    unix_client_wait_state(&other, APIR_STATE_READY);
    unsigned workers = 0;
    fixture_child(&unix_host.f, "fake_worker", &workers);
    assert_int_equal(workers, 2);
    assert_int_equal(ftruncate(fd, 0), 0);
    /* All that the server ever does to a ring: ping, kick, and the loss of the context. */
    for (int i = 0; i < 100; i++) {
        unix_request(other.fd, APIR_UNIX_PING, 0, 9);
        unix_request(other.fd, APIR_UNIX_KICK, 0, 0);
    }
    close(fd);
    munmap(other.ring, APIR_RING_HEADER_SIZE);
    close(other.fd);
    do {
        fixture_child(&unix_host.f, "fake_worker", &workers);
    } while (workers != 1);
    unix_expect_alive(c);
}
