/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/targets.h"
#include "tests/lib/unit.h"

static void assert_close(double a, double b)
{
    assert_true(a - b < 1e-9 && b - a < 1e-9);
}

static void a_line_written_reads_the_same(void **state)
{
    (void)state;
    const struct sample all[] = {
        {"cpu-135M", "native", "tg64", "", 3, 64, 0.8125},
        {"overhead", "apir", "added-p50", "us", SAMPLE_NO_PAIR, 0, -0.5},
        {"memory", "apir", "memory-worker", "MiB", 0, 0, 24.25},
    };
    enum { N = sizeof(all) / sizeof(all[0]) };
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(sample_write(f, &all[i]), 0);
    fclose(f);
    struct samples read = {0};
    struct apir_error err = {0};
    assert_int_equal(samples_parse(&read, "f", text, &err), 0);
    assert_int_equal(read.n, N);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(read.all[i].name, all[i].name);
        assert_string_equal(read.all[i].side, all[i].side);
        assert_string_equal(read.all[i].metric, all[i].metric);
        assert_string_equal(read.all[i].unit, all[i].unit);
        assert_int_equal(read.all[i].pair, all[i].pair);
        assert_close(read.all[i].n, all[i].n);
        assert_close(read.all[i].value, all[i].value);
    }
    assert_close(sample_measure(&read.all[0]), 64 / 0.8125);
    assert_close(sample_measure(&read.all[1]), -0.5);
    samples_fini(&read);
    free(text);
}

#define GOOD  "{\"case\":\"a\",\"side\":\"b\",\"metric\":\"c\",\"seconds\":1}\n"
#define BEGIN "{\"case\":\"a\",\"side\":\"b\",\"metric\":\"c\","

static void a_broken_line_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"{", "ends too early"},
        {BEGIN "\"seconds\":1", "ends too early"},
        {BEGIN "\"seconds\":1} {}", "unexpected character"},
        {"[1]", "not a JSON object"},
        {"7", ""},
        {"nonsense", ""},
        {"{\"case\":\"a\",\"side\":\"b\",\"seconds\":1}", "must all be there"},
        {"{\"case\":\"\",\"side\":\"b\",\"metric\":\"c\",\"seconds\":1}", "\"case\""},
        {"{\"case\":\"a b\",\"side\":\"b\",\"metric\":\"c\",\"seconds\":1}", "\"case\""},
        {"{\"case\":\"a\",\"side\":\"x\\u0000y\",\"metric\":\"c\",\"seconds\":1}", ""},
        {"{\"case\":1,\"side\":\"b\",\"metric\":\"c\",\"seconds\":1}", "\"case\""},
        {"{\"case\":\"0123456789012345678901234567890123456789012345678\",\"side\":\"b\","
         "\"metric\":\"c\",\"seconds\":1}",
         "\"case\""},
        {BEGIN "\"value\":1}", "with \"unit\""},
        {BEGIN "\"seconds\":1,\"unit\":\"us\"}", "with \"unit\""},
        {BEGIN "\"seconds\":1,\"value\":1,\"unit\":\"us\"}", "either"},
        {BEGIN "\"unit\":\"us\"}", "either"},
        {BEGIN "\"seconds\":0}", "more than 0"},
        {BEGIN "\"seconds\":-1}", "more than 0"},
        {BEGIN "\"seconds\":\"1\"}", "must be a number"},
        {BEGIN "\"value\":NaN,\"unit\":\"us\"}", ""},
        {BEGIN "\"value\":1e999,\"unit\":\"us\"}", ""},
        {BEGIN "\"seconds\":1,\"pair\":-1}", "\"pair\""},
        {BEGIN "\"seconds\":1,\"pair\":1.5}", "\"pair\""},
        {BEGIN "\"seconds\":1,\"n\":0}", "\"n\""},
        {BEGIN "\"seconds\":1,\"speed\":2}", "unknown key \"speed\""},
        {"{\"facts\":[1]}", "\"facts\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), GOOD "\n%s\n" GOOD, cases[i].line);
        struct samples read = {0};
        struct apir_error err = {0};
        int ret = samples_parse(&read, "file", text, &err);
        if (ret >= 0 || strncmp(err.msg, "file:3: ", 8) != 0 || !strstr(err.msg, cases[i].says))
            fail_msg("%s: %d, \"%s\"", cases[i].line, ret, err.msg);
        assert_int_equal(read.n, 1);
        samples_fini(&read);
    }
}

static void blank_lines_and_ends_of_other_systems_are_fine(void **state)
{
    (void)state;
    struct samples read = {0};
    struct apir_error err = {0};
    assert_int_equal(
        samples_parse(&read, "f", "\n  \n" BEGIN "\"seconds\":1} \t\r\n\r\n" BEGIN "\"seconds\":2}",
                      &err),
        0);
    assert_int_equal(read.n, 2);
    samples_fini(&read);
}

static void a_pair_that_comes_twice_is_refused(void **state)
{
    (void)state;
    struct samples read = {0};
    struct apir_error err = {0};
    assert_int_equal(samples_parse(&read, "f", GOOD GOOD, &err),
                     0); /* without pairs: repetitions */
    assert_true(samples_parse(&read, "f",
                              BEGIN "\"pair\":1,\"seconds\":1}\n" BEGIN
                                    "\"pair\":2,\"seconds\":1}\n" BEGIN
                                    "\"pair\":1,\"seconds\":2}\n",
                              &err) < 0);
    assert_non_null(strstr(err.msg, "f:3: "));
    samples_fini(&read);
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct samples read = {0};
    struct apir_error err = {0};
    assert_true(samples_read(&read, "/nowhere/samples", &err) < 0);
    assert_non_null(strstr(err.msg, "/nowhere/samples"));
    samples_fini(&read);
}

static const struct target *target_find(const char *name)
{
    for (size_t i = 0; i < targets_n; i++) {
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    }
    fail_msg("no target %s", name);
    return NULL;
}

static struct judgement judge(const struct samples *all, const char *target)
{
    struct judgement j;
    struct apir_error err = {0};
    assert_int_equal(target_judge(target_find(target), all, &j, &err), 0);
    return j;
}

/* `n` pairs of seconds, of which each side has its own. */
static void add_pairs(struct samples *all, const char *name, const char *metric, int n,
                      const char *side, double seconds)
{
    struct apir_error err = {0};
    for (int i = 0; i < n; i++) {
        char line[256];
        snprintf(line, sizeof(line),
                 "{\"case\":\"%s\",\"side\":\"%s\",\"metric\":\"%s\",\"pair\":%d,\"n\":64,"
                 "\"seconds\":%.9g}",
                 name, side, metric, i, seconds * (1 + 0.001 * (i % 3)));
        assert_int_equal(samples_parse(all, "pairs", line, &err), 0);
    }
}

static void targets_without_samples_were_not_run(void **state)
{
    (void)state;
    struct samples all = {0};
    for (size_t i = 0; i < targets_n; i++) {
        assert_false(judge(&all, targets[i].name).was_run);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(targets[i].name, targets[k].name);
    }
    /* One side alone is nothing to compare. */
    add_pairs(&all, "cpu-135M", "tg64", 20, "apir", 1);
    assert_false(judge(&all, "cpu-135M-tg").was_run);
    samples_fini(&all);
}

static void ratios_are_of_throughput_and_of_load_times(void **state)
{
    (void)state;
    struct samples all = {0};
    struct apir_error err = {0};
    add_pairs(&all, "cpu-135M", "tg64", 20, "native", 1);
    add_pairs(&all, "cpu-135M", "tg64", 20, "apir", 1.01);
    add_pairs(&all, "cpu-135M", "tg64", 20, "rpc", 1.2);
    add_pairs(&all, "cpu-135M", "pp512-at-once", 5, "native", 1);
    add_pairs(&all, "cpu-135M", "pp512-at-once", 5, "apir", 1);
    struct judgement j = judge(&all, "cpu-135M-tg");
    assert_true(j.was_run);
    assert_close(j.found.median, 1 / 1.01);
    assert_int_equal(j.found.n, 20);
    assert_int_equal(j.verdict, STATS_MET);
    assert_close(judge(&all, "cpu-135M-tg-rpc").found.median, 1.2 / 1.01);
    assert_int_equal(judge(&all, "cpu-135M-pp512").verdict, STATS_UNDECIDED);
    for (int i = 0; i < 8; i++) {
        char lines[256];
        snprintf(lines, sizeof(lines),
                 "{\"case\":\"gpu-1B\",\"side\":\"native\",\"metric\":\"load\",\"pair\":%d,"
                 "\"seconds\":1}\n"
                 "{\"case\":\"gpu-1B\",\"side\":\"apir\",\"metric\":\"load\",\"pair\":%d,"
                 "\"seconds\":1.2}",
                 i, i);
        assert_int_equal(samples_parse(&all, "load", lines, &err), 0);
    }
    j = judge(&all, "gpu-1B-load");
    assert_close(j.found.median, 1.2);
    assert_int_equal(j.verdict, STATS_MISSED);
    samples_fini(&all);
}

static void added_time_is_in_milliseconds_per_token(void **state)
{
    (void)state;
    struct samples all = {0};
    add_pairs(&all, "vm-135M", "tg64", 7, "native", 0.064);
    add_pairs(&all, "vm-135M", "tg64", 7, "apir", 0.064 + 0.0192);
    struct judgement j = judge(&all, "vm-135M-added");
    assert_true(j.found.median > 0.299 && j.found.median < 0.301);
    assert_int_equal(j.verdict, STATS_MET);
    samples_fini(&all);
}

/* Rounds of the link, in GB/s. */
static void add_rates(struct samples *all, const char *metric, double rate)
{
    struct apir_error err = {0};
    for (int i = 0; i < 10; i++) {
        char line[160];
        snprintf(line, sizeof(line),
                 "{\"case\":\"vm-link\",\"side\":\"apir\",\"metric\":\"%s\",\"pair\":%d,"
                 "\"value\":%g,\"unit\":\"GB/s\"}",
                 metric, i, rate * (i + 1));
        assert_int_equal(samples_parse(all, "link", line, &err), 0);
    }
}

/* However fast the machine was in a round. */
static void rates_are_compared_with_memcpys_of_the_same_round(void **state)
{
    (void)state;
    struct samples all = {0};
    add_rates(&all, "memcpy", 0.5);
    add_rates(&all, "set", 0.51);
    add_rates(&all, "get", 0.4);
    struct judgement j = judge(&all, "vm-link-set");
    assert_close(j.found.median, 1.02);
    assert_int_equal(j.found.n, 10);
    assert_int_equal(j.verdict, STATS_MET);
    assert_int_equal(judge(&all, "vm-link-get").verdict, STATS_MISSED);
    samples_fini(&all);
}

static void a_rate_need_not_exceed_nine(void **state)
{
    (void)state;
    struct samples all = {0};
    add_rates(&all, "memcpy", 100);
    add_rates(&all, "set", 9);
    add_rates(&all, "get", 0.89);
    assert_int_equal(judge(&all, "vm-link-set").verdict, STATS_MET);
    assert_int_equal(judge(&all, "vm-link-get").verdict, STATS_MISSED);
    samples_fini(&all);
}

static void memory_is_judged_by_its_course(void **state)
{
    (void)state;
    struct samples all = {0};
    struct apir_error err = {0};
#define STEP(side, metric, pair, n, value)                                                         \
    "{\"case\":\"memory\",\"side\":\"" side "\",\"metric\":\"" metric "\",\"pair\":" #pair n       \
    ",\"value\":" #value ",\"unit\":\"MiB\"}\n"
    const char *text = STEP("native", "memory-process", 0, "", 70)
        STEP("native", "memory-process", 1, ",\"n\":10", 80)
            STEP("native", "memory-process", 2, ",\"n\":20", 80)
                STEP("apir", "memory-worker", 0, "", 60)
                    STEP("apir", "memory-worker", 1, ",\"n\":10", 90)
                        STEP("apir", "memory-worker", 2, ",\"n\":20", 92);
    assert_int_equal(samples_parse(&all, "soak", text, &err), 0);
    assert_close(judge(&all, "memory-beyond").found.median, 12);
    assert_int_equal(judge(&all, "memory-beyond").verdict, STATS_MET);
    assert_close(judge(&all, "memory-growth").found.median, 2);
    assert_int_equal(judge(&all, "memory-growth").verdict, STATS_MISSED);
    samples_fini(&all);
}

static void a_table_has_a_row_for_each_metric(void **state)
{
    (void)state;
    struct samples all = {0};
    struct table t = {0};
    struct apir_error err = {0};
    add_pairs(&all, "cpu-135M", "tg64", 6, "native", 1);
    add_pairs(&all, "cpu-135M", "tg64", 6, "apir", 2);
    add_pairs(&all, "cpu-135M", "pp64", 6, "apir", 2);
    assert_int_equal(table_init(&t, &all, &err), 0);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.rows[0].n_cells, 2);
    assert_false(t.rows[0].cells[0].has_ratio);
    assert_true(t.rows[0].cells[1].has_ratio);
    assert_close(t.rows[0].cells[1].ratio.median, 0.5);
    assert_false(t.rows[1].cells[0].has_ratio);
    table_fini(&t);
    samples_fini(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(a_line_written_reads_the_same),
        UNIT(a_broken_line_is_named),
        UNIT(blank_lines_and_ends_of_other_systems_are_fine),
        UNIT(a_pair_that_comes_twice_is_refused),
        UNIT(a_file_that_is_not_there_is_named),
        UNIT(targets_without_samples_were_not_run),
        UNIT(ratios_are_of_throughput_and_of_load_times),
        UNIT(added_time_is_in_milliseconds_per_token),
        UNIT(rates_are_compared_with_memcpys_of_the_same_round),
        UNIT(a_rate_need_not_exceed_nine),
        UNIT(memory_is_judged_by_its_course),
        UNIT(a_table_has_a_row_for_each_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
