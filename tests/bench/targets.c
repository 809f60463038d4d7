/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/targets.h"

#include <errno.h>

#include "common/cleanup.h"

/* Any length of generation: the time of a token hardly depends on it. Prompts have their size. */
#define TG "tg*"

#define RATIO(case_, name_, text_, metric_, other_, comparison_, limit_)                           \
    {.name = case_ "-" name_,                                                                      \
     .text = case_ ": " text_ " " other_,                                                          \
     .kind = TARGET_RATIO,                                                                         \
     .of = {case_, "apir", metric_},                                                               \
     .other = {case_, other_, metric_},                                                            \
     .comparison = (comparison_),                                                                  \
     .limit = (limit_)}

#define GPU(case_, tg_)                                                                            \
    RATIO(case_, "tg", "generation, of", TG, "native", STATS_AT_LEAST, tg_),                       \
        RATIO(case_, "pp512", "prompt of 512, of", "pp512", "native", STATS_AT_LEAST, 0.99),       \
        RATIO(case_, "load", "seconds to load, of", "load", "native", STATS_AT_MOST, 1.1)

#define DEFAULT(case_, pp_)                                                                        \
    RATIO(case_, "tg", "generation, of", TG, "native", STATS_AT_LEAST, 0.95),                      \
        RATIO(case_, "pp", "prompt, of", pp_, "native", STATS_AT_LEAST, 0.95)

#define USER(case_, name_, text_, metric_)                                                         \
    RATIO(case_, name_, text_ ", of", metric_, "native", STATS_AT_LEAST, 0.95)

#define VALUE(name_, text_, case_, metric_, comparison_, limit_)                                   \
    {.name = name_,                                                                                \
     .text = text_,                                                                                \
     .kind = TARGET_VALUE,                                                                         \
     .of = {case_, "apir", metric_},                                                               \
     .comparison = (comparison_),                                                                  \
     .limit = (limit_)}

#define ADDED(case_, limit_)                                                                       \
    {.name = case_ "-added",                                                                       \
     .text = case_ ": ms added per token",                                                         \
     .kind = TARGET_ADDED,                                                                         \
     .of = {case_, "apir", TG},                                                                    \
     .other = {case_, "native", TG},                                                               \
     .comparison = STATS_AT_MOST,                                                                  \
     .limit = (limit_)}

#define LINK_RATE(metric_)                                                                         \
    {.name = "vm-link-" metric_,                                                                   \
     .text = "rate of " metric_ ", of memcpy's up to 9 GB/s",                                      \
     .kind = TARGET_RATIO,                                                                         \
     .of = {"vm-link", "apir", metric_},                                                           \
     .other = {"vm-link", "apir", "memcpy"},                                                       \
     .comparison = STATS_AT_LEAST,                                                                 \
     .limit = 1,                                                                                   \
     .enough = 9 /* three times 3 GB/s */}

const struct target targets[] = {
    VALUE("overhead-p50", "us added per token, median", "overhead", "added-p50", STATS_AT_MOST, 10),
    VALUE("overhead-p99", "us added per token, p99", "overhead", "added-p99", STATS_AT_MOST, 50),
    VALUE("overhead-bytes", "bytes per token", "overhead", "bytes", STATS_AT_MOST, 512),
    RATIO("against", "p50", "us added per token, of", "added-p50", "before", STATS_AT_MOST, 1.2),
    RATIO("stamp-135M", "tg-rpc", "generation without computing, of", TG, "rpc", STATS_ABOVE, 1),
    RATIO("stamp-135M", "pp512-rpc", "prompt without computing, of", "pp512", "rpc", STATS_ABOVE,
          1),
    RATIO("cpu-135M", "tg", "generation, of", TG, "native", STATS_AT_LEAST, 0.98),
    RATIO("cpu-135M", "pp512", "prompt of 512, of", "pp512-at-once", "native", STATS_AT_LEAST,
          0.99),
    RATIO("cpu-135M", "tg-rpc", "generation, of", TG, "rpc", STATS_ABOVE, 1),
    RATIO("cpu-135M", "pp512-rpc", "prompt of 512, of", "pp512-at-once", "rpc", STATS_ABOVE, 1),
    GPU("gpu-135M", 0.98),
    GPU("gpu-1B", 0.99),
    GPU("gpu-8B", 0.99),
    RATIO("start", "first", "seconds to the first token, of", "start", "native", STATS_AT_MOST, 1),
    DEFAULT("default-q4_0", "pp128"),
    DEFAULT("default-q4_k", "pp128"),
    DEFAULT("default-q8_0", "pp16"),
    USER("server-1", "tokens", "tokens per second", "server"),
    USER("server-8", "tokens", "tokens per second", "server"),
    USER("server-16", "tokens", "tokens per second", "server"),
    USER("draft", "tokens", "tokens per second", "server"),
    USER("embeddings", "tokens", "tokens per second", "server"),
    USER("batched", "tg", "8 generations at once", "tg-8"),
    USER("batched", "pp", "8 prompts at once", "pp-8"),
    USER("depth", "tg", "generation after 32k", TG),
    USER("depth", "pp", "prompt after 32k", "pp64"),
    RATIO("together-8", "sum", "eight at once, of", "together", "native", STATS_AT_LEAST, 0.97),
    RATIO("gpu-together", "sum", "four at once, of", "together", "native", STATS_AT_LEAST, 0.97),
    ADDED("vm-135M", 1.1),
    RATIO("vm-135M", "pp64", "prompt of 64, of", "pp64-at-once", "native", STATS_AT_LEAST, 0.98),
    VALUE("vm-link-graph1", "us, graph of one node there and back", "vm-link", "graph1",
          STATS_AT_MOST, 40),
    LINK_RATE("set"),
    LINK_RATE("get"),
    VALUE("idle", "cores burnt by an idle container", "idle", "idle", STATS_BELOW, 0.005),
    VALUE("vm-idle", "the same, in the VM", "vm-idle", "idle", STATS_BELOW, 0.005),
    {
        .name = "memory-beyond",
        .text = "MiB of the worker beyond a native process",
        .kind = TARGET_BEYOND,
        .of = {"memory", "apir", "memory-worker"},
        .other = {"memory", "native", "memory-process"},
        .comparison = STATS_AT_MOST,
        .limit = 32,
    },
    {
        .name = "memory-growth",
        .text = "MiB that the worker grew after the first tenth",
        .kind = TARGET_GROWTH,
        .of = {"memory", "apir", "memory-worker"},
        .comparison = STATS_AT_MOST,
        .limit = 1,
    },
};
const size_t targets_n = sizeof(targets) / sizeof(targets[0]);

static int judge_value(const struct target *t, const struct samples *all, struct judgement *j)
{
    cleanup_free double *values = NULL;
    bool paired;
    ssize_t n = table_values(all, &t->of, &values, &paired);
    if (n <= 0)
        return (int)n;
    j->was_run = true;
    if (paired)
        return stats_interval(values, (size_t)n, &j->found);
    double median = stats_median(values, (size_t)n);
    j->found = (struct interval){median, median, median, (size_t)n, true};
    return 0;
}

static int judge_pairs(const struct target *t, const struct samples *all, struct judgement *j)
{
    cleanup_free double *a = NULL;
    cleanup_free double *b = NULL;
    bool added = t->kind == TARGET_ADDED;
    ssize_t n = table_pairs(all, &t->of, &t->other, added, &a, &b);
    if (n <= 0)
        return (int)n;
    j->was_run = true;
    for (ssize_t i = 0; i < n; i++) {
        if (added) {
            a[i] *= 1000;
            b[i] *= 1000;
        } else {
            a[i] /= t->enough > 0 && b[i] > t->enough ? t->enough : b[i];
        }
    }
    return added ? stats_interval_added(a, b, (size_t)n, &j->found)
                 : stats_interval(a, (size_t)n, &j->found);
}

static void judge_course(const struct target *t, const struct samples *all, struct judgement *j)
{
    const struct sample *last = table_step(all, &t->of, -1);
    const struct sample *from =
        t->kind == TARGET_GROWTH ? table_step(all, &t->of, 1) : table_step(all, &t->other, -1);
    if (!last || !from)
        return;
    double x = last->value - from->value;
    j->was_run = true;
    j->found = (struct interval){x, x, x, 1, true};
}

int target_judge(const struct target *t, const struct samples *all, struct judgement *ret_judgement,
                 struct apir_error *err)
{
    struct judgement j = {0};
    int rc = 0;
    switch (t->kind) {
    case TARGET_VALUE:
        rc = judge_value(t, all, &j);
        break;
    case TARGET_RATIO:
    case TARGET_ADDED:
        rc = judge_pairs(t, all, &j);
        break;
    case TARGET_BEYOND:
    case TARGET_GROWTH:
        judge_course(t, all, &j);
        break;
    }
    if (rc < 0)
        return apir_error_sys(err, -rc, "target %s", t->name);
    if (j.was_run)
        j.verdict = stats_judge(&j.found, t->comparison, t->limit);
    *ret_judgement = j;
    return 0;
}

const char *target_sign(const struct target *t)
{
    static const char *const signs[] = {
        [STATS_AT_LEAST] = ">=", [STATS_ABOVE] = ">", [STATS_AT_MOST] = "<=", [STATS_BELOW] = "<"};
    return signs[t->comparison];
}

const char *target_verdict(const struct judgement *j)
{
    static const char *const verdicts[] = {
        [STATS_MET] = "met", [STATS_MISSED] = "missed", [STATS_UNDECIDED] = "undecided"};
    return j->was_run ? verdicts[j->verdict] : "not run here";
}
