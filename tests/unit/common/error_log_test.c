/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "common/error.h"
#include "common/log.h"

/* ---- error ------------------------------------------------------------------ */

TEST(set_formats_and_gives_the_negative_code)
{
    struct apir_error err = {0};
    assert_int_equal(apir_error_set(&err, ENOENT, "no %s in %d places", "file", 3), -ENOENT);
    assert_int_equal(err.code, ENOENT);
    assert_string_equal(err.msg, "no file in 3 places");
}

TEST(sys_appends_what_the_system_says)
{
    struct apir_error err = {0};
    char want[128];
    snprintf(want, sizeof(want), "cannot open x: %s", strerror(EACCES));
    assert_int_equal(apir_error_sys(&err, EACCES, "cannot open %s", "x"), -EACCES);
    assert_int_equal(err.code, EACCES);
    assert_string_equal(err.msg, want);
}

TEST(wrap_puts_context_in_front_and_keeps_the_code)
{
    struct apir_error err = {0};
    apir_error_set(&err, EIO, "cause");
    assert_int_equal(apir_error_wrap(&err, -EIO, "inner %d", 1), -EIO);
    assert_int_equal(apir_error_wrap(&err, -EIO, "outer"), -EIO);
    assert_int_equal(err.code, EIO);
    assert_string_equal(err.msg, "outer: inner 1: cause");
}

TEST(every_call_takes_no_error_object)
{
    assert_int_equal(apir_error_set(NULL, EINVAL, "x"), -EINVAL);
    assert_int_equal(apir_error_sys(NULL, EPERM, "x"), -EPERM);
    assert_int_equal(apir_error_wrap(NULL, -EPERM, "x"), -EPERM);
}

TEST(long_texts_are_cut_and_terminated)
{
    struct {
        struct apir_error err;
        char guard[16];
    } s;
    char text[2000];
    /* Every length around the size of the buffer, as message and as context. */
    for (size_t n = sizeof(s.err.msg) - 8; n <= sizeof(s.err.msg) + 8; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        for (int way = 0; way < 3; way++) {
            memset(&s, 0x55, sizeof(s));
            if (way == 0) {
                apir_error_set(&s.err, EIO, "%s", text);
            } else if (way == 1) {
                apir_error_sys(&s.err, EIO, "%s", text);
            } else {
                apir_error_set(&s.err, EIO, "cause");
                apir_error_wrap(&s.err, -EIO, "%s", text);
            }
            assert_int_equal(s.err.code, EIO);
            size_t len = strnlen(s.err.msg, sizeof(s.err.msg));
            assert_true(len >= sizeof(s.err.msg) - 8 && len < sizeof(s.err.msg));
            assert_memory_equal(s.err.msg, text, sizeof(s.err.msg) - 8);
            for (size_t i = 0; i < sizeof(s.guard); i++)
                assert_int_equal(s.guard[i], 0x55);
        }
    }
}

TEST(wrapping_for_ever_keeps_a_terminated_text)
{
    struct apir_error err = {0};
    apir_error_set(&err, EIO, "cause");
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(apir_error_wrap(&err, -EIO, "layer %d", i), -EIO);
        assert_true(strnlen(err.msg, sizeof(err.msg)) < sizeof(err.msg));
    }
    assert_memory_equal(err.msg, "layer 999: layer 998: ", 22);
}

/* ---- log -------------------------------------------------------------------- */

static struct {
    int count;
    enum apir_log_level level;
    char last[2048];
} lines; /* what the sink got */

static void keep_line(enum apir_log_level level, const char *line, void *user)
{
    assert_ptr_equal(user, &lines);
    lines.count++;
    lines.level = level;
    snprintf(lines.last, sizeof(lines.last), "%s", line);
}

static int log_keep(void **state)
{
    lines.count = 0;
    apir_log_set_sink(keep_line, &lines);
    return unit_setup(state);
}

static int log_reset(void **state)
{
    apir_log_set_sink(NULL, NULL);
    apir_log_set_level(APIR_LOG_WARN);
    return unit_teardown(state);
}

TEST_WITHIN(sink_gets_whole_lines_with_their_level, log_keep, log_reset)
{
    apir_log(APIR_LOG_ERROR, "worker %d is gone", 7);
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.level, APIR_LOG_ERROR);
    assert_string_equal(lines.last, "apir: worker 7 is gone\n");
}

TEST_WITHIN(lines_above_the_level_are_dropped, log_keep, log_reset)
{
    for (int at = APIR_LOG_ERROR; at <= APIR_LOG_DEBUG; at++) {
        lines.count = 0;
        apir_log_set_level((enum apir_log_level)at);
        for (int i = APIR_LOG_ERROR; i <= APIR_LOG_DEBUG; i++)
            apir_log((enum apir_log_level)i, "x");
        assert_int_equal(lines.count, at + 1);
        assert_int_equal((int)lines.level, at);
    }
}

TEST_WITHIN(the_level_is_warn_unless_told, log_keep, log_reset)
{
    apir_log(APIR_LOG_INFO, "x");
    assert_int_equal(lines.count, 0);
    apir_log(APIR_LOG_WARN, "x");
    assert_int_equal(lines.count, 1);
}

TEST_WITHIN(a_limit_holds_for_warnings_and_says_that_more_is_left_out, log_keep, log_reset)
{
    apir_log_set_level(APIR_LOG_INFO);
    apir_log_set_limit(10);
    for (int i = 0; i < 50; i++)
        apir_log(i % 2 ? APIR_LOG_WARN : APIR_LOG_ERROR, "x");
    assert_int_equal(lines.count, 11);
    assert_non_null(strstr(lines.last, "left out"));
    apir_log(APIR_LOG_INFO, "y"); /* who wants to see these wants all of them */
    assert_string_equal(lines.last, "apir: y\n");
    apir_log_set_limit(0);
    apir_log(APIR_LOG_WARN, "x");
    assert_int_equal(lines.count, 13);
}

TEST_WITHIN(long_lines_are_cut_and_end_with_a_newline, log_keep, log_reset)
{
    char text[1500];
    for (size_t n = 1000; n < sizeof(text) - 1; n++) {
        memset(text, 'y', n);
        text[n] = '\0';
        apir_log(APIR_LOG_ERROR, "%s", text);
        size_t len = strlen(lines.last);
        assert_true(len > 1000 && len < 1024);
        assert_int_equal(lines.last[len - 1], '\n');
        assert_int_equal(lines.last[len - 2], 'y');
    }
}

TEST_WITHIN(without_a_sink_a_line_is_one_write_to_stderr, unit_setup, log_reset)
{
    int ends[2], saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    apir_log(APIR_LOG_ERROR, "to %s", "stderr");
    dup2(saved, STDERR_FILENO);
    char got[64] = {0};
    ssize_t n = read(ends[0], got, sizeof(got) - 1);
    close(ends[0]);
    close(ends[1]);
    close(saved);
    assert_int_equal(n, strlen("apir: to stderr\n"));
    assert_string_equal(got, "apir: to stderr\n");
}

TEST_WITHIN(level_names_are_exact, log_keep, log_reset)
{
    static const struct {
        const char *name;
        enum apir_log_level level;
    } good[] = {
        {"error", APIR_LOG_ERROR},
        {"warn", APIR_LOG_WARN},
        {"info", APIR_LOG_INFO},
        {"debug", APIR_LOG_DEBUG},
    };
    enum apir_log_level level = APIR_LOG_DEBUG;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(apir_log_parse_level(good[i].name, &level), 0);
        assert_int_equal(level, good[i].level);
    }
    static const char *const bad[] = {NULL, "", "Error", "warning", "debug ", "0"};
    level = APIR_LOG_INFO;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(apir_log_parse_level(bad[i], &level), -EINVAL);
        assert_int_equal(level, APIR_LOG_INFO);
    }
}
