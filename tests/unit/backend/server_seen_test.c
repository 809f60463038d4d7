/* SPDX-License-Identifier: Apache-2.0 */
/* The socket for who looks, with as many contexts as there can be: readers that read, and not. */
#include "backend/server/seen/seen.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/json.h"
#include "tests/lib/unit.h"

#define READERS 5

static struct server_loop loop;
static struct server_contexts contexts;
static struct apir_config config;
static struct server_seen seen;
static struct server_context *made;
static int readers[READERS];

static void fill(void)
{
    char reason[APIR_REASON_MAX];
    memset(reason, 'r', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    made = calloc(SERVER_CONTEXTS_MAX, sizeof(*made));
    assert_non_null(made);
    for (uint32_t i = 0; i < SERVER_CONTEXTS_MAX; i++)
        server_context_init(&made[i], &contexts, i + 1, server_users_get(&contexts.users, 1000), 0,
                            reason, NULL);
    for (uint32_t i = 0; i < SERVER_EVENTS_KEPT; i++) {
        snprintf(reason, sizeof(reason), "%u\033", i);
        reason[strlen(reason)] = 'r';
        server_events_add(&contexts.events, SERVER_EVENT_LOST, i + 1, 1000, 1, reason);
    }
}

static int set_up(void **state)
{
    if (unit_folder_setup(state) || setenv("XDG_RUNTIME_DIR", unit_folder, 1) ||
        server_loop_init(&loop))
        return -1;
    contexts = (struct server_contexts){.env = {.loop = &loop, .config = &config}};
    for (int i = 0; i < READERS; i++)
        readers[i] = -1;
    fill();
    server_seen_init(&seen, &contexts, "/run/apir/host-a/apir.sock");
    return seen.loop ? 0 : -1;
}

static int tear_down(void **state)
{
    char path[64];
    for (int i = 0; i < READERS; i++) {
        if (readers[i] >= 0)
            close(readers[i]);
    }
    server_seen_fini(&seen);
    server_loop_fini(&loop);
    free(made);
    server_users_fini(&contexts.users);
    snprintf(path, sizeof(path), "%s/apir/top", unit_folder);
    assert_int_equal(rmdir(path), 0); /* empty: our own file is gone */
    snprintf(path, sizeof(path), "%s/apir", unit_folder);
    rmdir(path);
    return unit_folder_teardown(state);
}

static int reader_open(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)(const void *)&seen.address, sizeof(seen.address)), 0);
    return fd;
}

static void turns(void)
{
    while (server_loop_turn(&loop, 0) > 0) {
    }
}

static unsigned in_use(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < SERVER_SEEN_READERS; i++)
        n += seen.readers[i].source.added;
    return n;
}

/* All that comes up to the end, as JSON. */
static struct json_object *read_all(int fd)
{
    static char text[4 << 20];
    size_t size = 0;
    for (ssize_t n = -1; n != 0;) {
        turns();
        n = recv(fd, text + size, sizeof(text) - size, 0);
        assert_true(n >= 0 || errno == EAGAIN);
        size += n > 0 ? (size_t)n : 0;
    }
    assert_true(size > 0 && text[size - 1] == '\n');
    text[--size] = '\0';
    struct json_object *object = NULL;
    struct apir_error err = {0};
    assert_int_equal(apir_json_parse(text, size, &object, &err), 0);
    return object;
}

TEST_WITHIN(who_reads_gets_all_of_it, set_up, tear_down)
{
    readers[0] = reader_open();
    struct json_object *object = read_all(readers[0]);
    assert_int_equal(apir_json_length(apir_json_array(object, "contexts")), SERVER_CONTEXTS_MAX);
    struct json_object *list = apir_json_array(object, "events");
    assert_int_equal(apir_json_length(list), SERVER_EVENTS_KEPT);
    assert_true(apir_json_string(json_object_array_get_idx(list, 0), "reason")[1] == '?');
    assert_string_equal(apir_json_string(apir_json_object(object, "server"), "socket"),
                        "/run/apir/host-a/apir.sock");
    json_object_put(object);
    assert_int_equal(in_use(), 0);
}

TEST_WITHIN(who_does_not_read_is_one_of_few_and_not_for_long, set_up, tear_down)
{
    for (int i = 0; i < READERS; i++)
        readers[i] = reader_open();
    turns();
    assert_int_equal(in_use(), SERVER_SEEN_READERS);
    /* The others wait in the kernel, where they cost the loop nothing. */
    assert_int_equal(server_loop_turn(&loop, 0), 0);
    /* One that goes makes room. */
    close(readers[0]);
    readers[0] = -1;
    turns();
    assert_int_equal(in_use(), SERVER_SEEN_READERS);
    /* In the end none is left: each has its seconds, by a timer and nothing else. */
    for (int i = 0; in_use() > 0; i++) {
        assert_true(i < 100000);
        assert_true(server_loop_turn(&loop, 100) >= 0);
    }
    readers[0] = reader_open();
    json_object_put(read_all(readers[0]));
}
