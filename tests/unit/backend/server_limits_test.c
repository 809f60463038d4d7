/* SPDX-License-Identifier: Apache-2.0 */
/* Limits over all servers: real processes and files, honest and other ones. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "backend/server/limits/limits.h"
#include "common/parent.h"
#include "protocol/messages.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"

#define MIB (UINT64_C(1) << 20)
#define GPU "0123-gpu"

static struct apir_config config;
static struct server_limits a, b; /* two servers of this configuration */

static int setup(void **state)
{
    config = (struct apir_config){.limits_dir = unit_folder, .device_memory_mib = 100};
    server_limits_init(&a, &config);
    server_limits_init(&b, &config);
    return unit_folder_setup(state);
}

static int teardown(void **state)
{
    server_limits_fini(&a);
    server_limits_fini(&b);
    return unit_folder_teardown(state);
}

#define LIMITS_TEST(name) TEST_WITHIN(name, setup, teardown)

/* Also whether anything is left that should not be. */
static int files(void)
{
    return folder_entries(unit_folder);
}

static int take(struct server_limits *limits, uint64_t mib)
{
    char why[APIR_WHY_SIZE] = "";
    int rc = server_limits_take(limits, GPU, mib * MIB, 0, why);
    assert_int_equal(rc < 0, *why != '\0');
    return rc;
}

static void expect_room(struct server_limits *limits, uint64_t mib)
{
    uint64_t room, most;
    server_limits_room(limits, GPU, &room, &most);
    assert_int_equal(room, mib * MIB);
    assert_int_equal(most, 100 * MIB);
}

/* ---- honest servers ------------------------------------------------------------ */

/* As many accounts as a server can have, each with all that one may have: nobody is refused for it,
 * and what others read of it makes sense to them. */
LIMITS_TEST(without_a_limit_nothing_is_refused_for_others)
{
    enum { ACCOUNTS = 2 * APIR_CONFIG_CONTEXTS_MAX + APIR_CONFIG_SPARES_MAX + 3 };
    const struct apir_config none = {.limits_dir = unit_folder};
    char why[APIR_WHY_SIZE];
    server_limits_init(&a, &none);
    for (int i = 0; i < ACCOUNTS; i++)
        assert_int_equal(server_limits_take(&a, GPU, APIR_SIZE_MAX, 1, why), 0);
    assert_int_equal(take(&b, 1), -EDQUOT);
    for (int i = 0; i < ACCOUNTS; i++) {
        assert_int_equal(a.rows[0].contexts, ACCOUNTS - i);
        server_limits_give(&a, GPU, APIR_SIZE_MAX, 1);
    }
    assert_int_equal(a.rows[0].bytes, 0);
    assert_int_equal(take(&b, 100), 0);
}

LIMITS_TEST(rows_are_used_again)
{
    char why[APIR_WHY_SIZE];
    assert_int_equal(take(&a, 7), 0);
    for (int i = 0; i < 5000; i++) {
        char id[APIR_ID_SIZE];
        snprintf(id, sizeof(id), "device-%d", i);
        assert_int_equal(server_limits_take(&a, id, MIB, 1, why), 0);
        server_limits_give(&a, id, MIB, 1);
    }
    assert_true(a.n_rows >= 2 && a.n_rows <= 16);
    expect_room(&a, 93);
}

/* A process that has taken so much. */
static pid_t owner(uint64_t mib)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct server_limits limits;
        server_limits_init(&limits, &config);
        char ok = take(&limits, mib) == 0;
        if (write(ready[1], &ok, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char ok = 0;
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_int_equal(ok, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* Below that of the device, and without one. */
LIMITS_TEST(a_class_has_a_limit_of_its_own)
{
    config.class_device_memory_mib = 50;
    for (int i = 0; i < 2; i++) {
        char why[APIR_WHY_SIZE];
        uint64_t room, most;
        assert_int_equal(take(&a, 30), 0);
        assert_int_equal(server_limits_take(&a, GPU, 21 * MIB, 0, why), -EDQUOT);
        assert_non_null(strstr(why, "programs of this class have 30 MiB"));
        assert_non_null(strstr(why, "(class_device_memory_mib: 50)"));
        server_limits_room(&a, GPU, &room, &most);
        assert_int_equal(room, 20 * MIB);
        assert_int_equal(most, 50 * MIB);
        assert_int_equal(take(&a, 20), 0);
        assert_int_equal(take(&a, 1), -EDQUOT);
        /* Another server is another class, and another device has as much again. */
        assert_int_equal(take(&b, 50), 0);
        assert_int_equal(server_limits_take(&a, "other-gpu", 50 * MIB, 0, why), 0);
        server_limits_give(&a, "other-gpu", 50 * MIB, 0);
        server_limits_give(&b, GPU, 50 * MIB, 0);
        server_limits_give(&a, GPU, 50 * MIB, 0);
        config.device_memory_mib = 0;
    }
    config.device_memory_mib = 40;
    assert_int_equal(take(&a, 41), -EDQUOT);
    uint64_t room, most;
    server_limits_room(&a, GPU, &room, &most);
    assert_int_equal(room, 40 * MIB);
    assert_int_equal(most, 40 * MIB);
}

/* Also where nobody has a limit, and so nobody adds up. */
LIMITS_TEST(a_new_server_removes_what_killed_ones_left)
{
    config.device_memory_mib = 0;
    for (int i = 0; i < 3; i++) {
        pid_t pid = owner(60);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(files(), 1);
    }
    assert_int_equal(take(&a, 1), 0);
    assert_int_equal(files(), 1);
}

/* Two at once may both be refused, but what is granted is never too much. */
LIMITS_TEST(races_are_lost_together_at_most)
{
    enum { PROCESSES = 4, ROUNDS = 2000 };
    struct shared {
        unsigned holders, granted, wrong;
    } *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid)
            continue;
        struct server_limits limits;
        server_limits_init(&limits, &config);
        for (int k = 0; k < ROUNDS; k++) {
            char why[APIR_WHY_SIZE];
            if (server_limits_take(&limits, GPU, 51 * MIB, 0, why) < 0)
                continue;
            bool alone = __atomic_add_fetch(&shared->holders, 1, __ATOMIC_SEQ_CST) == 1;
            /* Long enough for another that was granted it at the same time. */
            for (int n = 0; n < 20 && alone; n++) {
                sched_yield();
                alone = __atomic_load_n(&shared->holders, __ATOMIC_SEQ_CST) == 1;
            }
            if (!alone)
                __atomic_add_fetch(&shared->wrong, 1, __ATOMIC_SEQ_CST);
            __atomic_add_fetch(&shared->granted, 1, __ATOMIC_SEQ_CST);
            __atomic_sub_fetch(&shared->holders, 1, __ATOMIC_SEQ_CST);
            server_limits_give(&limits, GPU, 51 * MIB, 0);
        }
        server_limits_fini(&limits);
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(shared->wrong, 0);
    assert_true(shared->granted > 0);
    munmap(shared, sizeof(*shared));
}

/* ---- others ------------------------------------------------------------------------- */

/* A file with this content, as of a living server; its descriptor holds the lock. */
static int living(const char *name, const void *data, size_t size)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", unit_folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
    return fd;
}

struct file {
    struct server_claims_head head;
    struct server_claim rows[200];
};

static struct file file_of(uint32_t n)
{
    struct file file = {.head = {.magic = SERVER_CLAIMS_MAGIC, .n_rows = n}};
    for (uint32_t i = 0; i < n; i++) {
        memcpy(file.rows[i].device, GPU, sizeof(GPU));
        file.rows[i].bytes = MIB;
        file.rows[i].contexts = 1;
    }
    return file;
}

#define SIZE(n) (sizeof(struct server_claims_head) + (n) * sizeof(struct server_claim))

static void expect_ignored(const struct file *file, size_t size)
{
    server_limits_init(&a, &config);
    int fd = living("server-x", file, size);
    assert_int_equal(take(&a, 100), 0);
    server_limits_fini(&a);
    close(fd);
    char path[96];
    snprintf(path, sizeof(path), "%s/server-x", unit_folder);
    assert_int_equal(unlink(path), 0);
}

LIMITS_TEST(what_makes_no_sense_counts_for_nothing)
{
    struct file file = file_of(3);
    /* So that it is not the rest of the file that is wrong. */
    int fd = living("server-right", &file, SIZE(3));
    assert_int_equal(take(&a, 98), -EDQUOT);
    assert_int_equal(take(&a, 97), 0);
    server_limits_fini(&a);
    close(fd);

    expect_ignored(&file, 0);
    expect_ignored(&file, sizeof(file.head) - 1);
    expect_ignored(&file, SIZE(3) - 1);
#define EXPECT_IGNORED(change)                                                                     \
    do {                                                                                           \
        file = file_of(3);                                                                         \
        change;                                                                                    \
        expect_ignored(&file, SIZE(3));                                                            \
    } while (0)
    EXPECT_IGNORED(file.head.magic ^= 1);
    EXPECT_IGNORED(file.head.n_rows = 4);
    EXPECT_IGNORED(file.head.n_rows = SERVER_CLAIMS_ROWS_MAX + 1);
    EXPECT_IGNORED(file.head.zero = 1);
    EXPECT_IGNORED(file.rows[2].bytes = APIR_SIZE_MAX + 1);
    EXPECT_IGNORED(file.rows[2].contexts = SERVER_CLAIMS_CONTEXTS + 1);
    EXPECT_IGNORED(file.rows[2].zero = 1);
    EXPECT_IGNORED(memset(file.rows[0].device, 'a', APIR_ID_SIZE));
    EXPECT_IGNORED(file.rows[0].device[0] = '\0');
    EXPECT_IGNORED(file.rows[0].device[2] = '\n');
    EXPECT_IGNORED(file.rows[0].device[APIR_ID_SIZE - 1] = 'a');
}

LIMITS_TEST(sums_do_not_wrap)
{
    struct file file = file_of(200);
    for (int i = 0; i < 200; i++)
        file.rows[i].bytes = APIR_SIZE_MAX;
    int fds[40];
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof(name), "server-%d", i);
        fds[i] = living(name, &file, sizeof(file));
    }
    assert_int_equal(take(&a, 1), -EDQUOT);
    expect_room(&a, 0);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    assert_int_equal(take(&a, 100), 0);
}

LIMITS_TEST(odd_files_hold_nobody_up)
{
    char path[96], to[96];
    snprintf(path, sizeof(path), "%s/server-fifo", unit_folder);
    assert_int_equal(mkfifo(path, 0644), 0);
    snprintf(path, sizeof(path), "%s/server-dir", unit_folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/server-link", unit_folder);
    snprintf(to, sizeof(to), "%s/elsewhere", unit_folder);
    assert_int_equal(symlink(to, path), 0);
    const struct file file = file_of(200);
    int elsewhere = living("elsewhere", &file, sizeof(file));
    snprintf(path, sizeof(path), "%s/server-large", unit_folder);
    int large = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(ftruncate(large, 1ll << 40), 0);
    assert_int_equal(take(&a, 100), 0);
    close(large);
    close(elsewhere);
}

LIMITS_TEST(a_reader_keeps_no_dead_server_alive)
{
    pid_t pid = owner(60);
    char path[320] = "";
    DIR *dir = opendir(unit_folder);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof(path), "%s/%s", unit_folder, entry->d_name);
    }
    closedir(dir);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    /* What anybody can do who may only read. */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
    assert_int_equal(take(&a, 100), 0);
    close(fd);
}

static void expect_unusable(const char *says)
{
    char why[APIR_WHY_SIZE];
    server_limits_init(&a, &config);
    assert_true(server_limits_take(&a, GPU, MIB, 1, why) < 0);
    assert_non_null(strstr(why, "limits_dir"));
    assert_non_null(strstr(a.broken.msg, says));
    server_limits_fini(&a);
    /* Without a limit there is nothing to refuse for. */
    const struct apir_config none = {.limits_dir = config.limits_dir};
    server_limits_init(&a, &none);
    assert_int_equal(server_limits_take(&a, GPU, MIB, 1, why), 0);
    server_limits_give(&a, GPU, MIB, 1);
    server_limits_fini(&a);
}

LIMITS_TEST(unusable_folders_are_named)
{
    char none[64];
    assert_int_equal(chmod(unit_folder, 0777), 0);
    expect_unusable("sticky");
    assert_int_equal(chmod(unit_folder, 01777), 0);
    server_limits_init(&a, &config);
    assert_int_equal(take(&a, 100), 0);
    server_limits_fini(&a);
    snprintf(none, sizeof(none), "%s/none", unit_folder);
    config.limits_dir = none;
    expect_unusable("No such file");
    if (geteuid() == 0) {
        config.limits_dir = unit_folder;
        assert_int_equal(chown(unit_folder, 12345, 12345), 0);
        expect_unusable("another user");
        assert_int_equal(chown(unit_folder, 0, 0), 0);
    }
}

LIMITS_TEST(folder_is_found)
{
    const bool common = access("/run/apir/limits", W_OK) == 0;
    config.limits_dir = NULL;
    assert_int_equal(setenv("XDG_RUNTIME_DIR", unit_folder, 1), 0);
    assert_int_equal(take(&a, 60), 0);
    assert_int_equal(take(&b, 60), -EDQUOT);
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", common ? "/run/apir/limits" : unit_folder,
             common ? a.claims.name : "apir/limits");
    assert_int_equal(access(path, F_OK), 0);
    server_limits_fini(&a);
    server_limits_fini(&b);
    if (!common) {
        assert_int_equal(rmdir(path), 0);
        *strrchr(path, '/') = '\0';
        assert_int_equal(rmdir(path), 0);
    }
    /* Another user's, as su may leave it to root: nothing is made there. */
    if (!common && geteuid() == 0) {
        assert_int_equal(chown(unit_folder, 4321, 4321), 0);
        server_limits_init(&a, &config);
        assert_int_equal(take(&a, 60), 0);
        server_limits_fini(&a);
        assert_int_equal(folder_entries(unit_folder), 0);
        assert_int_equal(chown(unit_folder, 0, 0), 0);
    }
    /* None: what the server itself has counts all the same. */
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    server_limits_init(&a, &config);
    assert_int_equal(take(&a, 60), 0);
    assert_int_equal(take(&a, 60), -EDQUOT);
    server_limits_give(&a, GPU, 60 * MIB, 0);
    assert_int_equal(take(&a, 100), 0);
}

/* Of whatever names. */
LIMITS_TEST(a_folder_that_is_too_full_grants_nothing)
{
    for (unsigned i = 0; i <= SERVER_CLAIMS_FILES; i++) {
        char path[96];
        snprintf(path, sizeof(path), "%s/%s%u", unit_folder, i % 2 ? "." : "", i);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    assert_int_equal(take(&a, 1), -EUSERS);
}

LIMITS_TEST(files_with_too_many_rows_grant_nothing)
{
    static struct server_claim rows[SERVER_CLAIMS_ROWS_MAX];
    struct server_claims_head head = file_of(0).head;
    for (uint32_t i = 0; i < SERVER_CLAIMS_ROWS_MAX; i++)
        memcpy(rows[i].device, "other", sizeof("other"));
    int fds[8], n = 0;
    for (int ret = 0; ret == 0; n++) {
        assert_true(n < 8);
        char name[32];
        snprintf(name, sizeof(name), "server-%d", n);
        fds[n] = living(name, &head, sizeof(head));
        head.n_rows = SERVER_CLAIMS_ROWS_MAX;
        assert_int_equal(pwrite(fds[n], rows, sizeof(rows), sizeof(head)), sizeof(rows));
        assert_int_equal(pwrite(fds[n], &head, sizeof(head), 0), sizeof(head));
        head.n_rows = 0;
        ret = take(&a, 1);
        assert_true(ret == 0 || ret == -EUSERS);
    }
    assert_true(n >= 4); /* what is still reasonable is looked at */
    while (n > 0)
        close(fds[--n]);
    assert_int_equal(take(&a, 1), 0);
}
