/* SPDX-License-Identifier: Apache-2.0 */
/* The unix transport's socket: who may connect, how many, and how the socket comes and goes. */
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/lib/unit.h"
#include "tests/lib/clock.h"
#include "tests/lib/processes.h"
#include "tests/lib/unix_client.h"

/* ---- who may ----------------------------------------------------------------------- */

/* The refusal ("" for none) that a process of these credentials is told. */
static void told_to(uid_t uid, gid_t gid, gid_t further, char *text)
{
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm_patiently(10);
        if (setgroups(1, &further) < 0 || setresgid(gid, gid, gid) < 0 ||
            setresuid(uid, uid, uid) < 0)
            _exit(2);
        int fd = unix_connect();
        if (fd < 0)
            _exit(3);
        const char *refusal = unix_greet(fd);
        if (write(out[1], refusal, strlen(refusal) + 1) < 0)
            _exit(4);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(read(out[0], text, APIR_REASON_MAX) > 0);
    close(out[0]);
    close(out[1]);
}

TEST(configuration_says_who_may)
{
    if (getuid() != 0)
        unit_skip("other users need root, or a user namespace with a range");
    static const struct {
        uid_t uid;
        gid_t gid;
        gid_t further;
        bool may;
    } rows[] = {
        {1001, 500, 500, true},  /* by number */
        {1, 500, 500, true},     /* by name: daemon */
        {1002, 7000, 500, true}, /* by its group */
        {1002, 500, 7000, true}, /* by a further group */
        {1002, 500, 500, false}, /* not at all */
        {0, 500, 500, false},    /* root is no exception */
        {70000, 70000, 0, false},
    };
    unix_start("\"allow_users\": [1001, \"daemon\"], \"allow_groups\": [7000]", NULL);
    assert_int_equal(chmod(unix_host.path, 0666), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[APIR_REASON_MAX] = {0};
        char want[64];
        told_to(rows[i].uid, rows[i].gid, rows[i].further, text);
        snprintf(want, sizeof(want), "user %u may not", rows[i].uid);
        if (rows[i].may)
            assert_string_equal(text, "");
        else
            assert_ptr_equal(strstr(text, want), text);
    }
    unix_expect_nothing_left();
    unix_tear_down(state);
}

TEST(refused_ones_cost_nothing)
{
    unix_start("\"allow_users\": [4000000000]", NULL);
    for (int i = 0; i < 2000; i++) {
        int fd = unix_connect();
        assert_true(fd >= 0);
        /* The last one, too: all others have been heard by then. */
        if (i % 100 == 99)
            assert_non_null(strstr(unix_greet(fd), "may not use the host's GPU"));
        close(fd);
    }
    unix_expect_nothing_left();
    unix_tear_down(state);
}

TEST(contexts_are_limited)
{
    unix_start("\"max_contexts_per_user\": 3, \"max_contexts\": 4", NULL);
    assert_int_equal(chmod(unix_host.path, 0666), 0);
    struct unix_client c[3];
    for (int i = 0; i < 3; i++)
        c[i] = unix_client_open();
    int fd = unix_connect();
    assert_non_null(strstr(unix_greet(fd), "max_contexts_per_user"));
    unix_expect_closed(fd);
    for (int i = 0; i < 3; i++)
        unix_expect_alive(&c[i]);
    if (getuid() == 0) {
        /* Another user gets the last one; held by its silence, and then nobody. */
        char text[APIR_REASON_MAX];
        told_to(1001, 500, 500, text);
        assert_string_equal(text, "");
    }
    unix_client_close(&c[1]);
    unix_expect_alive(&c[0]);
    int64_t end = now_ms() + FIXTURE_WAIT_MS;
    for (;;) { /* until the server has seen its end */
        fd = unix_connect();
        if (*unix_greet(fd) == '\0' || now_ms() > end)
            break;
        close(fd);
    }
    c[1] = (struct unix_client){.fd = fd};
    c[1].ring = unix_map_ring(unix_create_blob(fd, APIR_RING_BLOB_ID, APIR_RING_SIZE));
    unix_expect_alive(&c[1]);
    for (int i = 0; i < 3; i++)
        unix_client_close(&c[i]);
    unix_expect_nothing_left();
    unix_tear_down(state);
}

TEST(broken_configuration_is_told_to_the_client)
{
    static const char *const broken[] = {
        NULL,
        "\"allow_users\": [\"no such user\"]",
        "\"allow_groups\": [\"no such group\"]",
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        setenv("APIR_LOG", "error", 1);
        unix_start(broken[i], NULL);
        int fd = unix_connect();
        assert_non_null(strstr(unix_greet(fd), "configuration is broken"));
        unix_expect_closed(fd);
        unix_tear_down(state);
    }
}

/* The server's processor time, in ticks. */
static unsigned long server_ticks(void)
{
    char stat_path[64];
    unsigned long user = 0;
    unsigned long sys = 0;
    snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", unix_host.f.pid);
    FILE *file = fopen(stat_path, "re");
    assert_non_null(file);
    assert_int_equal(
        fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys),
        2);
    fclose(file);
    return user + sys;
}

TEST(running_out_of_descriptors_is_survived)
{
    const struct rlimit few = {32, 32};
    unix_make_dir();
    fixture_start_listening(&unix_host.f, "", NULL, unix_host.path, &few);
    unix_host.n_fds = fixture_count_fds(&unix_host.f);
    struct unix_client first = unix_client_open();
    int waiting[40];
    for (int i = 0; i < 40; i++)
        waiting[i] = unix_connect(); /* in the backlog, at least */
    unix_expect_alive(&first);
    /* Those that wait must not keep it busy: half a second of that would be 50 ticks. */
    const unsigned long ticks = server_ticks();
    poll(NULL, 0, 500);
    assert_true(server_ticks() - ticks < 10);
    for (int i = 0; i < 40; i++)
        close(waiting[i]);
    /* Until the accepted silent ones are gone it is as before. */
    WAIT_FOR(fixture_count_fds(&unix_host.f) <= unix_host.n_fds + 8, FIXTURE_WAIT_MS);
    struct unix_client next = unix_client_open();
    unix_expect_alive(&next);
    unix_expect_alive(&first);
    unix_client_close(&next);
    unix_client_close(&first);
    unix_expect_nothing_left();
    unix_tear_down(state);
}

/* ---- the socket itself --------------------------------------------------------------- */

static void quiet(void *user)
{
    (void)user;
    alarm_patiently(10); /* one that listens would wait for ever */
    setenv("APIR_CONFIG", unix_host.f.config, 1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDERR_FILENO);
    dup2(null, STDOUT_FILENO);
}

/* A server that is to listen there ends with 1. */
static void expect_no_listening(const char *where)
{
    const char *const argv[] = {process_built("backend/apir-render-server"), "--listen", where,
                                NULL};
    const int status = process_end(process_spawn(argv, NULL, quiet, NULL), FIXTURE_WAIT_MS);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

TEST_WITHIN(what_is_no_socket_is_left_alone, unix_set_up, unix_tear_down)
{
    char file[96];
    snprintf(file, sizeof(file), "%s/file", unix_host.dir);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    char deep[200];
    memset(deep, 'a', sizeof(deep));
    deep[0] = '/';
    deep[sizeof(deep) - 1] = '\0';
    const char *const bad[] = {file, "relative.sock", "/nonexistent-apir/a.sock", deep};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_no_listening(bad[i]);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(unlink(file), 0);
}

TEST_WITHIN(socket_of_a_successor_is_left_alone, unix_set_up, unix_tear_down)
{
    struct stat st;
    /* Somebody has removed ours and put another there: not ours to remove. */
    assert_int_equal(unlink(unix_host.path), 0);
    assert_int_equal(mkfifo(unix_host.path, 0600), 0);
    fixture_stop(&unix_host.f);
    assert_int_equal(lstat(unix_host.path, &st), 0);
    assert_int_equal(unlink(unix_host.path), 0);
    fixture_start_listening(&unix_host.f, "", NULL, unix_host.path, NULL);
}

static int listening_socket(int type, bool listens)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, unix_host.path);
    unlink(unix_host.path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    if (listens)
        assert_int_equal(listen(fd, 8), 0);
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 20);
    close(fd);
    return high;
}

TEST(passed_socket_is_served)
{
    unix_make_dir();
    int fd = listening_socket(SOCK_SEQPACKET, true);
    fixture_start_with_fds(&unix_host.f, "", &fd, 1, 0);
    struct unix_client c = unix_client_open();
    unix_client_wait_state(&c, APIR_STATE_READY);
    unix_expect_alive(&c);
    unix_host.n_fds = fixture_count_fds(&unix_host.f);
    unix_client_close(&c);
    fixture_wait_childless(&unix_host.f);
    /* Stopped, it leaves the socket to systemd, which starts the next one: nobody is refused. */
    fixture_stop(&unix_host.f);
    assert_int_equal(access(unix_host.path, F_OK), 0);
    int early = unix_connect();
    fixture_start_with_fds(&unix_host.f, "", &fd, 1, 0);
    assert_string_equal(unix_greet(early), "");
    close(early);
    fixture_stop(&unix_host.f);
    close(fd);
    unlink(unix_host.path);
    rmdir(unix_host.dir);
}

static void expect_fds_refused(const int *fds, int n, pid_t listen_pid)
{
    fixture_start_with_fds(&unix_host.f, "", fds, n, listen_pid);
    assert_int_equal(WEXITSTATUS(fixture_wait_exit(&unix_host.f)), 1);
}

TEST(passed_descriptors_are_checked)
{
    unix_make_dir();
    int good = listening_socket(SOCK_SEQPACKET, true);
    const int two[] = {good, good};
    /* For another process; two of them; none. */
    expect_fds_refused(&good, 1, 1);
    expect_fds_refused(two, 2, 0);
    expect_fds_refused(two, 0, 0);
    close(good);
    /* Not listening; a stream; no socket. */
    int bad[3] = {listening_socket(SOCK_SEQPACKET, false), listening_socket(SOCK_STREAM, true),
                  open("/dev/null", O_RDWR | O_CLOEXEC)};
    for (int i = 0; i < 3; i++) {
        int high = fcntl(bad[i], F_DUPFD_CLOEXEC, 20);
        expect_fds_refused(&high, 1, 0);
        close(high);
        close(bad[i]);
    }
    unlink(unix_host.path);
    rmdir(unix_host.dir);
}
