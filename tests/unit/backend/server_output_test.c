/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker prints: how much of it is read, be there lines in it or not. */
#include "backend/server/output.h"

#include <string.h>

#include "common/log.h"
#include "tests/lib/unit.h"

static struct server_loop loop;
static struct server_outputs all;
static struct server_output output;
static int end = -1; /* the worker's */
static unsigned lines;

static void count(enum apir_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
    lines++;
}

static int set_up(void **state)
{
    lines = 0;
    all = (struct server_outputs){0};
    apir_log_set_sink(count, NULL);
    return unit_setup(state) || server_loop_init(&loop) ||
           server_output_open(&output, &loop, &all, "worker of context 1", &end);
}

static int tear_down(void **state)
{
    server_output_close(&output);
    close(end);
    server_loop_fini(&loop);
    apir_log_set_sink(NULL, NULL);
    return unit_teardown(state);
}

/* Prints this so often, and has the server read as long as it does. Returns the bytes read. */
static size_t say(const char *text, unsigned times)
{
    const size_t size = strlen(text);
    size_t all_read = 0;
    for (unsigned i = 0; i < times; i++) {
        assert_int_equal(write(end, text, size), (ssize_t)size);
        const int n = server_loop_turn(&loop, 0);
        assert_true(n >= 0);
        if (n == 0)
            break;
        all_read += size;
    }
    return all_read;
}

TEST_WITHIN(empty_lines_have_an_end, set_up, tear_down)
{
    assert_int_equal(say("\n", 10 * SERVER_OUTPUT_LINES), SERVER_OUTPUT_LINES + 1);
    assert_int_equal(lines, 1);
}

TEST_WITHIN(one_that_is_not_read_can_end, set_up, tear_down)
{
    (void)say("\n", 10 * SERVER_OUTPUT_LINES);
    close(end);
    end = -1;
    assert_int_equal(server_loop_turn(&loop, 0), 1);
    assert_null(output.loop);
    assert_int_equal(server_loop_turn(&loop, 0), 0);
}

TEST_WITHIN(one_that_is_not_read_stays_so_under_another_name, set_up, tear_down)
{
    struct server_output other = {0};
    (void)say("a line\n", 10 * SERVER_OUTPUT_LINES);
    server_output_move(&output, &other, "worker of context 2");
    assert_int_equal(write(end, "a line\n", 7), 7);
    assert_int_equal(server_loop_turn(&loop, 0), 0);
    server_output_close(&other);
    assert_int_equal(lines, SERVER_OUTPUT_LINES + 1);
}
