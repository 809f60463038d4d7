/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/targets.h"
#include "tests/lib/unit.h"

static void assert_close(double a, double b)
{
    assert_true(a - b < 1e-9 && b - a < 1e-9);
}

/* What a test reads. */
static struct samples all;
static struct apir_error err;

static int set_up(void **state)
{
    memset(&err, 0, sizeof(err));
    return unit_setup(state);
}

static int tear_down(void **state)
{
    samples_fini(&all);
    memset(&all, 0, sizeof(all));
    return unit_teardown(state);
}

#define SAMPLES_TEST(name) TEST_WITHIN(name, set_up, tear_down)

static void read_good(const char *text)
{
    if (samples_parse(&all, "f", text, &err))
        fail_msg("%s", err.msg);
}

SAMPLES_TEST(a_line_written_reads_the_same)
{
    const struct sample written[] = {
        {"cpu-135M", "native", "tg64", "", 3, 64, 0.8125, "2026-11-25T14:10:00Z", "5e009a9"},
        {"overhead", "apir", "added-p50", "us", SAMPLE_NO_PAIR, 0, -0.5, "", "5e009a9-dirty"},
        {"memory", "apir", "memory-worker", "MiB", 0, 0, 24.25, "", ""},
    };
    enum { N = sizeof(written) / sizeof(written[0]) };
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(sample_write(f, &written[i]), 0);
    fclose(f);
    read_good(text);
    assert_int_equal(all.n, N);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(all.all[i].name, written[i].name);
        assert_string_equal(all.all[i].side, written[i].side);
        assert_string_equal(all.all[i].metric, written[i].metric);
        assert_string_equal(all.all[i].unit, written[i].unit);
        assert_int_equal(all.all[i].pair, written[i].pair);
        assert_close(all.all[i].n, written[i].n);
        assert_close(all.all[i].value, written[i].value);
        assert_string_equal(all.all[i].time, written[i].time);
        assert_string_equal(all.all[i].commit, written[i].commit);
    }
    assert_close(sample_measure(&all.all[0]), 64 / 0.8125);
    assert_close(sample_measure(&all.all[1]), -0.5);
    free(text);
}

#define GOOD  "{\"case\":\"a\",\"side\":\"b\",\"metric\":\"c\",\"seconds\":1}\n"
#define BEGIN "{\"case\":\"a\",\"side\":\"b\",\"metric\":\"c\","

TEST(a_broken_line_is_named)
{
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
        err = (struct apir_error){0};
        int rc = samples_parse(&read, "file", text, &err);
        if (rc >= 0 || strncmp(err.msg, "file:3: ", 8) != 0 || !strstr(err.msg, cases[i].says))
            fail_msg("%s: %d, \"%s\"", cases[i].line, rc, err.msg);
        assert_int_equal(read.n, 1);
        samples_fini(&read);
    }
}

SAMPLES_TEST(blank_lines_and_ends_of_other_systems_are_fine)
{
    read_good("\n  \n" BEGIN "\"seconds\":1} \t\r\n\r\n" BEGIN "\"seconds\":2}");
    assert_int_equal(all.n, 2);
}

SAMPLES_TEST(a_pair_that_comes_twice_is_refused)
{
    static const char twice[] =
        BEGIN "\"pair\":1,\"seconds\":1}\n" BEGIN "\"pair\":2,\"seconds\":1}\n" BEGIN
              "\"pair\":1,\"seconds\":2}\n";
    read_good(GOOD GOOD); /* without pairs: repetitions */
    assert_true(samples_parse(&all, "f", twice, &err) < 0);
    assert_non_null(strstr(err.msg, "f:3: "));
}

SAMPLES_TEST(a_file_that_is_not_there_is_named)
{
    assert_true(samples_read(&all, "/nowhere/samples", &err) < 0);
    assert_non_null(strstr(err.msg, "/nowhere/samples"));
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

static struct judgement judge(const char *target)
{
    struct judgement j;
    assert_int_equal(target_judge(target_find(target), &all, &j, &err), 0);
    return j;
}

/* `n` pairs of seconds, of which each side has its own. */
static void add_pairs(const char *name, const char *metric, int n, const char *side, double seconds)
{
    for (int i = 0; i < n; i++) {
        char line[256];
        snprintf(line, sizeof(line),
                 "{\"case\":\"%s\",\"side\":\"%s\",\"metric\":\"%s\",\"pair\":%d,\"n\":64,"
                 "\"seconds\":%.9g}",
                 name, side, metric, i, seconds * (1 + 0.001 * (i % 3)));
        read_good(line);
    }
}

SAMPLES_TEST(targets_without_samples_were_not_run)
{
    for (size_t i = 0; i < targets_n; i++) {
        assert_false(judge(targets[i].name).was_run);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(targets[i].name, targets[k].name);
    }
    /* One side alone is nothing to compare. */
    add_pairs("cpu-135M", "tg64", 20, "apir", 1);
    assert_false(judge("cpu-135M-tg").was_run);
}

SAMPLES_TEST(ratios_are_of_throughput_and_of_load_times)
{
    add_pairs("cpu-135M", "tg64", 20, "native", 1);
    add_pairs("cpu-135M", "tg64", 20, "apir", 1.01);
    add_pairs("cpu-135M", "tg64", 20, "rpc", 1.2);
    add_pairs("cpu-135M", "pp512-at-once", 5, "native", 1);
    add_pairs("cpu-135M", "pp512-at-once", 5, "apir", 1);
    struct judgement j = judge("cpu-135M-tg");
    assert_true(j.was_run);
    assert_close(j.found.median, 1 / 1.01);
    assert_int_equal(j.found.n, 20);
    assert_int_equal(j.verdict, STATS_MET);
    assert_close(judge("cpu-135M-tg-rpc").found.median, 1.2 / 1.01);
    assert_int_equal(judge("cpu-135M-pp512").verdict, STATS_UNDECIDED);
    for (int i = 0; i < 8; i++) {
        char lines[256];
        snprintf(lines, sizeof(lines),
                 "{\"case\":\"gpu-1B\",\"side\":\"native\",\"metric\":\"load\",\"pair\":%d,"
                 "\"seconds\":1}\n"
                 "{\"case\":\"gpu-1B\",\"side\":\"apir\",\"metric\":\"load\",\"pair\":%d,"
                 "\"seconds\":1.2}",
                 i, i);
        read_good(lines);
    }
    j = judge("gpu-1B-load");
    assert_close(j.found.median, 1.2);
    assert_int_equal(j.verdict, STATS_MISSED);
}

SAMPLES_TEST(added_time_is_in_milliseconds_per_token)
{
    add_pairs("vm-135M", "tg64", 7, "native", 0.064);
    add_pairs("vm-135M", "tg64", 7, "apir", 0.064 + 0.0192);
    struct judgement j = judge("vm-135M-added");
    assert_true(j.found.median > 0.299 && j.found.median < 0.301);
    assert_int_equal(j.verdict, STATS_MET);
}

/* Rounds of the link, in GB/s. */
static void add_rates(const char *metric, double rate)
{
    for (int i = 0; i < 10; i++) {
        char line[160];
        snprintf(line, sizeof(line),
                 "{\"case\":\"vm-link\",\"side\":\"apir\",\"metric\":\"%s\",\"pair\":%d,"
                 "\"value\":%g,\"unit\":\"GB/s\"}",
                 metric, i, rate * (i + 1));
        read_good(line);
    }
}

/* However fast the machine was in a round. */
SAMPLES_TEST(rates_are_compared_with_memcpys_of_the_same_round)
{
    add_rates("memcpy", 0.5);
    add_rates("set", 0.51);
    add_rates("get", 0.4);
    struct judgement j = judge("vm-link-set");
    assert_close(j.found.median, 1.02);
    assert_int_equal(j.found.n, 10);
    assert_int_equal(j.verdict, STATS_MET);
    assert_int_equal(judge("vm-link-get").verdict, STATS_MISSED);
}

SAMPLES_TEST(a_rate_need_not_exceed_nine)
{
    add_rates("memcpy", 100);
    add_rates("set", 9);
    add_rates("get", 0.89);
    assert_int_equal(judge("vm-link-set").verdict, STATS_MET);
    assert_int_equal(judge("vm-link-get").verdict, STATS_MISSED);
}

SAMPLES_TEST(memory_is_judged_by_its_course)
{
#define STEP(side, metric, pair, n, value)                                                         \
    "{\"case\":\"memory\",\"side\":\"" side "\",\"metric\":\"" metric "\",\"pair\":" #pair n       \
    ",\"value\":" #value ",\"unit\":\"MiB\"}\n"
    const char *text = STEP("native", "memory-process", 0, "", 70)
        STEP("native", "memory-process", 1, ",\"n\":10", 80)
            STEP("native", "memory-process", 2, ",\"n\":20", 80)
                STEP("apir", "memory-worker", 0, "", 60)
                    STEP("apir", "memory-worker", 1, ",\"n\":10", 90)
                        STEP("apir", "memory-worker", 2, ",\"n\":20", 92);
    read_good(text);
    assert_close(judge("memory-beyond").found.median, 12);
    assert_int_equal(judge("memory-beyond").verdict, STATS_MET);
    assert_close(judge("memory-growth").found.median, 2);
    assert_int_equal(judge("memory-growth").verdict, STATS_MISSED);
}

SAMPLES_TEST(a_table_has_a_row_for_each_metric)
{
    struct table t = {0};
    add_pairs("cpu-135M", "tg64", 6, "native", 1);
    add_pairs("cpu-135M", "tg64", 6, "apir", 2);
    add_pairs("cpu-135M", "pp64", 6, "apir", 2);
    assert_int_equal(table_init(&t, &all, &err), 0);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.rows[0].n_cells, 2);
    assert_false(t.rows[0].cells[0].has_ratio);
    assert_true(t.rows[0].cells[1].has_ratio);
    assert_close(t.rows[0].cells[1].ratio.median, 0.5);
    assert_false(t.rows[1].cells[0].has_ratio);
    table_fini(&t);
}
