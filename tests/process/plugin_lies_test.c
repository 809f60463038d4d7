/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with the plug-in, whose host lies. Each row has a host of its own that tells one lie,
 * and a program of its own. Whatever the host says, the program goes to its end, or on without the
 * device from the start, and its terminal gets no control characters.
 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <ggml-backend.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/atomic.h"
#include "tests/lib/lying_host.h"
#include "tests/process/plugin_program.h"

#define PROGRAM_SECONDS 100u /* then it hangs */
#define HOST_FOUND      4    /* the host's exit code: it was told what it must not know */

/* ---- lies: what the plug-in is told --------------------------------------------------- */

/* Bytes that no text ends, with what a terminal would obey. */
static void text_spoil(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        text[i] = "\033[31m%s%n"[i % 9];
}

static void no_lie(enum lie_step step, struct lie_data *d)
{
    (void)step;
    (void)d;
}

static void welcome_refuses(enum lie_step step, struct lie_data *d)
{
    struct apir_unix_welcome *w = d->answer;
    if (step != LIE_WELCOME)
        return;
    w->status = APIR_UNIX_REFUSED;
    text_spoil(w->text, sizeof(w->text));
}

static void welcome_is_short(enum lie_step step, struct lie_data *d)
{
    d->size -= step == LIE_WELCOME;
}

static void welcome_is_long(enum lie_step step, struct lie_data *d)
{
    d->size += step == LIE_WELCOME;
}

static void welcome_brings_a_descriptor(enum lie_step step, struct lie_data *d)
{
    if (step == LIE_WELCOME)
        d->fds[d->n_fds++] = lying_host_memory(4096);
}

static void memory_is(struct lie_data *d, int fd)
{
    if (fd < 0)
        _exit(2);
    close(d->fds[0]);
    d->fds[0] = fd;
}

/* Of the size that was asked for, and not for long. */
static void memory_shrinks(enum lie_step step, struct lie_data *d)
{
    static int fd = -1;
    if (step == LIE_MEMORY && d->blob_id == 1) {
        fd = memfd_create("lie", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)d->blob_size) < 0)
            _exit(2);
        memory_is(d, dup(fd));
    }
    if (step == (enum lie_step)APIR_MSG_HELLO && ftruncate(fd, 0) < 0)
        _exit(2);
}

static void memory_is_a_file(enum lie_step step, struct lie_data *d)
{
    if (step != LIE_MEMORY)
        return;
    char path[64];
    snprintf(path, sizeof(path), "%s/file", unit_folder);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || unlink(path) < 0 || ftruncate(fd, (off_t)d->blob_size) < 0)
        _exit(2);
    memory_is(d, fd);
}

static void memory_is_a_pipe(enum lie_step step, struct lie_data *d)
{
    int ends[2];
    if (step != LIE_MEMORY || pipe2(ends, O_CLOEXEC) < 0)
        return;
    memory_is(d, ends[0]);
    close(ends[1]);
}

static void memory_is_a_device(enum lie_step step, struct lie_data *d)
{
    if (step == LIE_MEMORY)
        memory_is(d, open("/dev/zero", O_RDWR | O_CLOEXEC));
}

/* Pages of it may not be had: a signal. */
static void memory_is_huge_pages(enum lie_step step, struct lie_data *d)
{
    if (step != LIE_MEMORY || d->blob_id != 1)
        return;
    int fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0) {
        memory_is_a_file(step, d); /* a kernel without them */
        return;
    }
    if (ftruncate(fd, (off_t)d->blob_size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        _exit(2);
    memory_is(d, fd);
}

static void memory_is_small(enum lie_step step, struct lie_data *d)
{
    if (step == LIE_MEMORY)
        memory_is(d, lying_host_memory(d->blob_size - 1));
}

static void memory_is_read_only(enum lie_step step, struct lie_data *d)
{
    char path[64];
    if (step != LIE_MEMORY)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", d->fds[0]);
    memory_is(d, open(path, O_RDONLY | O_CLOEXEC));
}

static void memory_is_twice(enum lie_step step, struct lie_data *d)
{
    if (step == LIE_MEMORY)
        d->fds[d->n_fds++] = lying_host_memory(d->blob_size);
}

static void memory_is_none(enum lie_step step, struct lie_data *d)
{
    if (step == LIE_MEMORY)
        close(d->fds[--d->n_fds]);
}

static void memory_is_another(enum lie_step step, struct lie_data *d)
{
    if (step == LIE_MEMORY)
        ((struct apir_unix_answer *)d->answer)->blob_id = 63;
}

static void shared_memory_is_a_file(enum lie_step step, struct lie_data *d)
{
    if (d->blob_id > 1)
        memory_is_a_file(step, d);
}

static void ring_of_another_size(enum lie_step step, struct lie_data *d)
{
    struct apir_ring_header *h = d->answer;
    if (step == LIE_READY)
        h->cmd_size = h->cmd_offset = UINT32_MAX;
}

static void head_is_ahead(enum lie_step step, struct lie_data *d)
{
    struct apir_ring_header *h = d->answer;
    if (step == LIE_READY)
        h->head = UINT64_C(1) << 40;
}

static void ends_with_a_text(enum lie_step step, struct lie_data *d)
{
    struct apir_ring_header *h = lying_host_ring();
    (void)d;
    if (step != (enum lie_step)APIR_MSG_GRAPH_EXEC)
        return;
    text_spoil(h->reason, sizeof(h->reason));
    apir_store_release32(&h->state, 77);
    _exit(0);
}

static void hello_has_no_end(enum lie_step step, struct lie_data *d)
{
    struct apir_reply_hello *r = d->answer;
    if (step != (enum lie_step)APIR_MSG_HELLO)
        return;
    text_spoil(r->host_ggml, sizeof(r->host_ggml));
    memset(&r->shm_limit, 'x', sizeof(r->shm_limit));
}

static void hello_is_not_answered(enum lie_step step, struct lie_data *d)
{
    (void)d;
    while (step == (enum lie_step)APIR_MSG_HELLO)
        pause();
}

static void hello_has_no_device(enum lie_step step, struct lie_data *d)
{
    if (step == (enum lie_step)APIR_MSG_HELLO)
        ((struct apir_reply_hello *)d->answer)->n_devices = 0;
}

static void hello_has_many_devices(enum lie_step step, struct lie_data *d)
{
    if (step == (enum lie_step)APIR_MSG_HELLO)
        ((struct apir_reply_hello *)d->answer)->n_devices = APIR_DEVICES_MAX + 1;
}

#define DEVICE_LIE(name, change)                                                                   \
    static void name(enum lie_step step, struct lie_data *d)                                       \
    {                                                                                              \
        struct apir_reply_device_info *r = d->answer;                                              \
        if (step == (enum lie_step)APIR_MSG_DEVICE_INFO) {                                         \
            change;                                                                                \
        }                                                                                          \
    }
DEVICE_LIE(device_texts_have_no_end, text_spoil(r->name, sizeof(r->name));
           text_spoil(r->description, sizeof(r->description)); text_spoil(r->id, sizeof(r->id)))
DEVICE_LIE(device_aligns_to_nothing, r->alignment = 0)
DEVICE_LIE(device_aligns_to_three, r->alignment = 3)
DEVICE_LIE(device_aligns_to_64k, r->alignment = 65536)
DEVICE_LIE(device_aligns_to_4k, r->alignment = 4096)
DEVICE_LIE(device_has_no_largest, r->max_size = 0)
DEVICE_LIE(device_has_the_largest, r->max_size = UINT64_MAX)
DEVICE_LIE(device_has_many_extras, r->n_extras = UINT32_MAX)
DEVICE_LIE(device_extras_have_no_end, r->n_extras = APIR_EXTRAS_MAX;
           text_spoil(r->extras[0], sizeof(r->extras)))

static void memory_is_negative(enum lie_step step, struct lie_data *d)
{
    if (step == (enum lie_step)APIR_MSG_DEVICE_MEMORY)
        memset(&((struct apir_reply_device_memory *)d->answer)->memory_free, 0xff, 8);
}

/* The name of the op that is asked about; a node is the last of its tensors. */
static const char *op_of(const struct lie_data *d)
{
    const struct apir_tensor *t = &d->graph->tensors[d->graph->n_tensors - 1];
    return d->graph->names[t->op].name;
}

#define QUERY_LIE(name, change)                                                                    \
    static void name(enum lie_step step, struct lie_data *d)                                       \
    {                                                                                              \
        struct apir_reply_op_query *r = d->answer;                                                 \
        if (step == (enum lie_step)APIR_MSG_OP_QUERY) {                                            \
            change;                                                                                \
        }                                                                                          \
    }
QUERY_LIE(tensors_take_a_byte, r->alloc_size = 1)
QUERY_LIE(tensors_take_all_there_is, r->alloc_size = UINT64_MAX)
QUERY_LIE(tensors_take_more_than_all, r->alloc_size = UINT64_MAX - 15)
QUERY_LIE(results_in_place_are_larger, r->alloc_size = strcmp(op_of(d), "SQR") == 0 ? 1 << 20 : 0)
QUERY_LIE(later_results_are_larger, static uint64_t asked; r->alloc_size = ++asked << 16)
QUERY_LIE(copies_are_not_supported, r->flags *= strcmp(op_of(d), "CPY") != 0)
QUERY_LIE(nothing_is_supported_after_a_while, static int asked; r->flags *= asked++ < 4)
QUERY_LIE(answers_are_all_ones, memset(r, 0xff, sizeof(*r)))

/* In the middle of ggml's plans for a graph. */
static void ends_at_a_question(enum lie_step step, struct lie_data *d)
{
    if (step == (enum lie_step)APIR_MSG_OP_QUERY && strcmp(op_of(d), "SQR") == 0)
        _exit(0);
}

static void ends_at_a_copy(enum lie_step step, struct lie_data *d)
{
    if (step == (enum lie_step)APIR_MSG_OP_QUERY && strcmp(op_of(d), "CPY") == 0)
        _exit(0);
}

/* Both were forked from one process: what the program has mapped lies where something of ours does,
 * or not far from it. */
static bool is_address(uint64_t v)
{
    enum { MAPS = 1024 };
    static struct {
        uint64_t first, last;
    } maps[MAPS];
    static size_t n;
    const uint64_t near = UINT64_C(1) << 30, far = UINT64_C(1) << 40;
    char line[512];
    FILE *f = n ? NULL : fopen("/proc/self/maps", "re");
    while (f && n < MAPS && fgets(line, sizeof(line), f)) {
        char *end;
        const uint64_t first = strtoull(line, &end, 16), last = strtoull(end + 1, NULL, 16);
        if (first > 4 * near && last - first < far) { /* no shadow of a sanitizer */
            maps[n].first = first - near;
            maps[n++].last = last + near;
        }
    }
    if (f)
        fclose(f);
    /* Small numbers side by side look like one with many zeros in it. */
    int filled = 0;
    for (uint64_t rest = v; rest; rest >>= 8)
        filled += (rest & 0xff) != 0;
    for (size_t i = 0; filled >= 4 && i < n; i++) {
        if (v >= maps[i].first && v < maps[i].last)
            return true;
    }
    return false;
}

static bool has_address(const void *bytes, size_t size)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= size; at++) {
        uint64_t v;
        memcpy(&v, (const uint8_t *)bytes + at, sizeof(v));
        if (is_address(v))
            return true;
    }
    return false;
}

static void addresses_are_looked_for(enum lie_step step, struct lie_data *d)
{
    void (*function)(struct ggml_tensor *, const struct ggml_tensor *, int, int, void *) =
        program_function;
    uint64_t address;
    (void)step;
    memcpy(&address, &function, sizeof(address));
    if (!is_address(address))
        _exit(2);
    if (d->msg &&
        (has_address(&d->msg->u, sizeof(d->msg->u)) || has_address(d->payload, d->payload_size)))
        _exit(HOST_FOUND);
}

static void stream_is_refused(enum lie_step step, struct lie_data *d)
{
    struct apir_reply_stream *r = d->answer;
    if (step != (enum lie_step)APIR_MSG_STREAM_OPEN)
        return;
    r->status = UINT32_MAX;
    text_spoil(r->why, sizeof(r->why));
}

static void buffer_is_refused(enum lie_step step, struct lie_data *d)
{
    struct apir_reply_status *r = d->answer;
    if (step != (enum lie_step)APIR_MSG_BUFFER_ALLOC)
        return;
    r->status = APIR_E_LIMIT;
    text_spoil(r->why, sizeof(r->why));
}

static void graphs_fail_with_a_text(enum lie_step step, struct lie_data *d)
{
    static uint32_t at;
    if (step == (enum lie_step)APIR_MSG_STREAM_OPEN)
        at = d->msg->u.stream_open.status;
    if (step != (enum lie_step)APIR_MSG_GRAPH_EXEC)
        return;
    struct apir_stream_status *s =
        (struct apir_stream_status *)(void *)((uint8_t *)lying_host_ring() + APIR_RING_HEADER_SIZE +
                                              at);
    text_spoil(s->why, sizeof(s->why));
    apir_store_release32(&s->failed, 77);
}

#define ORDER_LIE(name, change)                                                                    \
    static void name(enum lie_step step, struct lie_data *d)                                       \
    {                                                                                              \
        struct apir_reply_optimize *r = d->answer;                                                 \
        if (step == (enum lie_step)APIR_MSG_GRAPH_OPTIMIZE) {                                      \
            uint32_t *order = d->order, *deps = order + r->n_nodes;                                \
            (void)deps;                                                                            \
            change;                                                                                \
        }                                                                                          \
    }
ORDER_LIE(order_is_long, r->n_nodes = UINT32_MAX)
ORDER_LIE(order_has_many_dependencies, r->n_deps = UINT32_MAX)
ORDER_LIE(order_keeps_until_a_leaf, r->n_deps = 1; deps[0] = order[0]; deps[1] = 0)
/* Every second one to the end, the others nearly so: ggml's list of free places has an end. */
ORDER_LIE(
    order_keeps_everything, for (; r->n_deps < r->n_nodes - 8; r->n_deps++) {
        deps[2 * r->n_deps] = order[r->n_deps];
        deps[2 * r->n_deps + 1] = order[r->n_nodes - (r->n_deps % 2 ? 6 : 1)];
    })

/* ---- the rows ------------------------------------------------------------------------- */

static const struct row {
    const char *name;
    lie *tell;
    enum program_end end;
    const char *says; /* what the user must read; NULL: nothing particular */
} rows[] = {
#define ROW(tell, end, says) {#tell, tell, end, says}
    ROW(no_lie, TO_THE_END, "device APIR0: A GPU"),
    ROW(welcome_refuses, WITHOUT_US, "?[31m"),
    ROW(welcome_is_short, WITHOUT_US, "no apir-render-server answers"),
    ROW(welcome_is_long, WITHOUT_US, "no apir-render-server answers"),
    ROW(welcome_brings_a_descriptor, TO_THE_END, NULL),
    ROW(memory_shrinks, WITHOUT_US, "window: Protocol error"),
    ROW(memory_is_a_file, WITHOUT_US, "the host gives no shared memory"),
    ROW(memory_is_a_pipe, WITHOUT_US, "the host gives no shared memory"),
    ROW(memory_is_a_device, WITHOUT_US, "the host gives no shared memory"),
    ROW(memory_is_huge_pages, WITHOUT_US, "window: Protocol error"),
    ROW(memory_is_small, WITHOUT_US, "the host gives no shared memory"),
    ROW(memory_is_read_only, WITHOUT_US, "the host gives no shared memory"),
    ROW(memory_is_twice, WITHOUT_US, "the host gives no shared memory"),
    ROW(memory_is_none, WITHOUT_US, "the host gives no shared memory"),
    ROW(memory_is_another, WITHOUT_US, "the host gives no shared memory"),
    ROW(shared_memory_is_a_file, TO_THE_END, "it does not answer a request for memory"),
    ROW(ring_of_another_size, WITHOUT_US, "ring has another layout"),
    ROW(head_is_ahead, WITHOUT_US, "its ring makes no sense"),
    ROW(ends_with_a_text, TO_THE_END, "is lost: ?[31m"),
    ROW(ends_at_a_question, TO_THE_END, "is lost: "),
    ROW(ends_at_a_copy, TO_THE_END, "is lost: "),
    ROW(hello_has_no_end, TO_THE_END, "there ?[31m"),
    ROW(hello_is_not_answered, WITHOUT_US, "is lost: it does not answer"),
    ROW(hello_has_no_device, WITHOUT_US, "the host offers no device"),
    ROW(hello_has_many_devices, WITHOUT_US, "the host has 17 devices"),
    ROW(device_texts_have_no_end, TO_THE_END, "device APIR0: ?[31m"),
    ROW(device_aligns_to_nothing, WITHOUT_US, "has an alignment of 0"),
    ROW(device_aligns_to_three, WITHOUT_US, "has an alignment of 3"),
    ROW(device_aligns_to_64k, WITHOUT_US, "has an alignment of 65536"),
    ROW(device_aligns_to_4k, TO_THE_END, NULL),
    ROW(device_has_no_largest, TO_THE_END, NULL),
    ROW(device_has_the_largest, TO_THE_END, NULL),
    ROW(device_has_many_extras, WITHOUT_US, "extra buffer types"),
    ROW(device_extras_have_no_end, TO_THE_END, "weights in APIR0_?[31m"),
    ROW(memory_is_negative, TO_THE_END, NULL),
    ROW(tensors_take_a_byte, TO_THE_END, NULL),
    ROW(tensors_take_all_there_is, TO_THE_END, NULL),
    ROW(tensors_take_more_than_all, TO_THE_END, NULL),
    ROW(results_in_place_are_larger, TO_THE_END, NULL),
    ROW(later_results_are_larger, TO_THE_END, NULL),
    ROW(copies_are_not_supported, TO_THE_END, NULL),
    ROW(nothing_is_supported_after_a_while, TO_THE_END, NULL),
    ROW(answers_are_all_ones, TO_THE_END, NULL),
    ROW(addresses_are_looked_for, TO_THE_END, NULL),
    ROW(stream_is_refused, TO_THE_END, "opens no further backend: ?[31m"),
    ROW(buffer_is_refused, TO_THE_END, "has no buffer of"),
    ROW(graphs_fail_with_a_text, TO_THE_END, "a graph failed on the host: ?[31m"),
    ROW(order_is_long, TO_THE_END, NULL),
    ROW(order_has_many_dependencies, TO_THE_END, NULL),
    ROW(order_keeps_until_a_leaf, TO_THE_END, NULL),
    ROW(order_keeps_everything, TO_THE_END, NULL),
#undef ROW
};

/* What the program has written to its terminal. */
static const char *text_read(int fd, size_t *ret_size)
{
    static char text[1 << 16];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    *ret_size = (size_t)n;
    return text;
}

static void row_run(const struct row *row, const char *path)
{
    static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), status[2];
    int terminal = memfd_create("terminal", MFD_CLOEXEC);
    strcpy(address.sun_path, path);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i])
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (i == 0)
            lying_host_serve(listener, row->tell);
        /* cmocka's handlers would end it with a number. */
        for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++)
            signal(faults[k], SIG_DFL);
        alarm(PROGRAM_SECONDS);
        dup2(terminal, STDERR_FILENO);
        _exit((int)program_run());
    }
    close(listener);
    assert_int_equal(waitpid(pids[1], &status[1], 0), pids[1]);
    /* It ends when the program has gone, or never. */
    kill(pids[0], SIGKILL);
    assert_int_equal(waitpid(pids[0], &status[0], 0), pids[0]);
    if (WIFSIGNALED(status[0]) && WTERMSIG(status[0]) == SIGKILL)
        status[0] = 0;
    unlink(path);
    size_t size;
    const char *text = text_read(terminal, &size);
    close(terminal);
    bool clean = true;
    for (size_t i = 0; i < size; i++)
        clean = clean && ((unsigned char)text[i] >= ' ' || text[i] == '\n' || text[i] == '\t');
    if (status[0] == 0 && WIFEXITED(status[1]) && WEXITSTATUS(status[1]) == (int)row->end &&
        clean && (!row->says || strstr(text, row->says)))
        return;
    fail_msg("%s: the host ended with %#x, the program with %#x%s, and said:\n%s", row->name,
             (unsigned)status[0], (unsigned)status[1], clean ? "" : ", not clean", text);
}

/* Once: it takes longer than a row. */
static int backends_load(void **state)
{
    (void)state;
    setenv("GGML_VK_VISIBLE_DEVICES", "", 1);
    unsetenv("GGML_BACKEND_PATH");
    ggml_backend_load_all();
    return 0;
}
BEFORE_ALL_TESTS(backends_load)

/* The socket's path. */
static const char *environment(void)
{
    static char path[64];
    char transport[80];
    snprintf(path, sizeof(path), "%s/socket", unit_folder);
    snprintf(transport, sizeof(transport), "unix:%s", path);
    setenv("APIR_TRANSPORT", transport, 1);
    setenv("APIR_LOG", "info", 1);
    setenv("APIR_SILENCE_SECONDS", "5", 1);
    return path;
}

FOLDER_TEST(whatever_the_host_says_the_program_ends_well)
{
    const char *only = getenv("LIE"), *path = environment();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!only || strcmp(only, rows[i].name) == 0)
            row_run(&rows[i], path);
    }
}

/* The host's own end, with a message of this code and no answer. */
static enum apir_msg_code last;

static void ends_at_last(enum lie_step step, struct lie_data *d)
{
    (void)d;
    if (step == (enum lie_step)last)
        _exit(0);
}

FOLDER_TEST(whenever_the_host_ends_the_program_ends_well)
{
    static const enum apir_msg_code codes[] = {
#define M(NAME, name, code, states, tail) APIR_MSG_##NAME,
        APIR_MESSAGES(M)
#undef M
    };
    const char *path = environment();
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        last = codes[i];
        const bool at_once =
            last == APIR_MSG_HELLO || last == APIR_MSG_DEVICE_INFO || last == APIR_MSG_OP_QUERY;
        const struct row row = {.name = apir_msg_name(last),
                                .tell = ends_at_last,
                                .end = at_once ? WITHOUT_US : TO_THE_END};
        row_run(&row, path);
    }
}
