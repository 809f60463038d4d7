/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/soak/soak.h"

#include <math.h>

#include "tests/bench/stats.h"

static const double shares[] = {0.5, 0.9, 0.99, 0.999};
enum { N_SHARES = sizeof(shares) / sizeof(shares[0]) };
static const char *const share_names[N_SHARES] = {"p50", "p90", "p99", "p99.9"};

struct requests {
    uint64_t in[BOARD_BUCKETS];
    uint64_t n;
};

static void requests_add(struct requests *r, const struct board *board, uint32_t phase)
{
    for (int i = 0; i < BOARD_BUCKETS; i++) {
        const uint64_t n = atomic_load(&board->requests[phase][i]);
        r->in[i] += n;
        r->n += n;
    }
}

/* The end of the bucket that holds this share, in milliseconds. */
static double requests_share(const struct requests *r, double share)
{
    uint64_t seen = 0;
    for (int i = 0; i < BOARD_BUCKETS; i++) {
        seen += r->in[i];
        if (seen > 0 && (double)seen >= share * (double)r->n)
            return board_bucket_end(i) / 1000;
    }
    return 0;
}

static void requests_write(const struct requests *r, FILE *json)
{
    fprintf(json, "{\"requests\": %llu", (unsigned long long)r->n);
    for (int i = 0; i < N_SHARES; i++)
        fprintf(json, ", \"%s_ms\": %.3f", share_names[i], requests_share(r, shares[i]));
    fputs("}", json);
}

/* With the bad ones over without, pair by pair: the median. */
static double pairs_median(const struct soak_totals *t, const struct board *board, double share)
{
    static double ratios[BOARD_PHASES];
    size_t n = 0;
    for (uint32_t phase = 0; phase + 1 < t->n_phases; phase += 2) {
        struct requests quiet = {0}, bad = {0};
        requests_add(&quiet, board, phase);
        requests_add(&bad, board, phase + 1);
        if (quiet.n && bad.n)
            ratios[n++] = requests_share(&bad, share) / requests_share(&quiet, share);
    }
    return n ? stats_median(ratios, n) : NAN;
}

static void latency_report(const struct soak_totals *t, const struct board *board, FILE *json)
{
    struct requests sums[2] = {{{0}, 0}};
    for (uint32_t phase = 0; phase < t->n_phases; phase++)
        requests_add(&sums[soak_phase_is_bad(phase)], board, phase);
    fputs("  \"good_alone\": ", json);
    requests_write(&sums[0], json);
    fputs(",\n  \"good_beside_bad\": ", json);
    requests_write(&sums[1], json);
    fputs(",\n  \"ratio_of_pairs\": {", json);
    for (int i = 0; i < N_SHARES; i++) {
        const double ratio = pairs_median(t, board, shares[i]);
        fprintf(stderr,
                "soak: %-5s of a request of the good clients: alone %.2f ms, beside the bad ones "
                "%.2f ms; median ratio of the pairs %.2f\n",
                share_names[i], requests_share(&sums[0], shares[i]),
                requests_share(&sums[1], shares[i]), ratio);
        fprintf(json, "%s\"%s\": ", i ? ", " : "", share_names[i]);
        if (isnan(ratio))
            fputs("null", json);
        else
            fprintf(json, "%.3f", ratio);
    }
    fputs("},\n", json);
}

static void census_write(const struct census *c, FILE *json)
{
    for (int i = 0; i < CENSUS_ITEMS; i++)
        fprintf(json, "%s\"%s\": %ld", i ? ", " : "{", census_name((enum census_item)i),
                c->value[i]);
    fputs("}", json);
}

void soak_report(const struct soak_totals *t, const struct board *board, FILE *json)
{
    fprintf(json,
            "{\n  \"minutes\": %.2f,\n  \"contexts\": %ld,\n  \"most_at_once\": %u,\n"
            "  \"wrong\": %ld,\n  \"leaked\": %ld,\n  \"clients\": {",
            t->minutes, t->contexts, t->most, t->wrong, t->leaked);
    for (int i = 0; i < SOAK_KINDS; i++)
        fprintf(json, "%s\"%s\": %ld", i ? ", " : "", soak_kind_names[i], t->of_kind[i]);
    fputs("},\n", json);
    latency_report(t, board, json);
    fputs("  \"before\": ", json);
    census_write(&t->before, json);
    fputs(",\n  \"after\": ", json);
    census_write(&t->after, json);
    fputs(",\n  \"phases\": [", json);
    for (uint32_t i = 0; i < t->n_phases; i++) {
        fprintf(json, "%s\n    {\"bad\": %s, \"contexts\": %ld, \"held\": ", i ? "," : "",
                soak_phase_is_bad(i) ? "true" : "false", t->contexts_at[i]);
        census_write(&t->phases[i], json);
        fputs("}", json);
    }
    fputs("\n  ]\n}\n", json);
}
