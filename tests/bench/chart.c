/* SPDX-License-Identifier: Apache-2.0 */
/* The chart. Positions are computed here, so that any gnuplot can draw it. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/table.h"

#define BAR 0.2 /* of the distance of two groups */

/* A side of another name is in the table, but has no place here. */
static const struct {
    const char *side, *color;
} known[] = {
    {TABLE_NATIVE, "#9a9a9a"},
    {"apir", "#1b7837"},
    {"rpc", "#d08a2e"},
    {"venus", "#7b6fb0"},
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

/* How fast something is can be drawn; memory and idle time cannot, nor a road that leads nowhere.
 */
static bool is_drawn(const struct row *r)
{
    if (strncmp(r->name, "stamp-", 6) == 0)
        return false;
    bool has_native = false, has_other = false;
    for (size_t k = 0; k < r->n_cells; k++) {
        has_native |= strcmp(r->cells[k].side, TABLE_NATIVE) == 0;
        has_other |= r->cells[k].has_ratio;
    }
    return !r->is_course && has_native && has_other &&
           (strcmp(r->unit, "t/s") == 0 || strcmp(r->unit, "s") == 0);
}

static const struct cell *cell_find(const struct row *r, const char *side)
{
    for (size_t k = 0; k < r->n_cells; k++) {
        if (strcmp(r->cells[k].side, side) == 0)
            return &r->cells[k];
    }
    return NULL;
}

/* As throughput: a load that takes twice as long is half as fast. */
static struct interval relative(const struct row *r, const struct cell *c)
{
    if (!c->has_ratio)
        return (struct interval){.median = 1, .low = 1, .high = 1};
    if (strcmp(r->unit, "s") != 0)
        return c->ratio;
    return (struct interval){
        .median = 1 / c->ratio.median, .low = 1 / c->ratio.high, .high = 1 / c->ratio.low};
}

/* One block for each side, so that the script can name them: "index N". */
static size_t data_write(const struct table *t, FILE *f, bool *ret_has)
{
    size_t groups = 0;
    fputs("# x relative low high label, one block per side; see chart.gp\n", f);
    for (size_t side = 0; side < KNOWN; side++) {
        groups = 0;
        fprintf(f, "# %s\n", known[side].side);
        /* A block may not be empty; a point outside is not seen. */
        fputs("-10 1 1 1 \"\"\n", f);
        for (size_t i = 0; i < t->n; i++) {
            if (!is_drawn(&t->rows[i]))
                continue;
            const struct cell *c = cell_find(&t->rows[i], known[side].side);
            double x = (double)groups + ((double)side - (KNOWN - 1) / 2.0) * BAR;
            groups++;
            if (!c || (side > 0 && !c->has_ratio))
                continue;
            struct interval v = relative(&t->rows[i], c);
            fprintf(f, "%.4f %.6g %.6g %.6g \"%.3f\"\n", x, v.median, v.low, v.high, v.median);
            ret_has[side] = true;
        }
        fputs("\n\n", f);
    }
    return groups;
}

static void script_write(const struct table *t, size_t groups, const bool *has, FILE *f)
{
    fprintf(f,
            "# gnuplot chart.gp, in this directory\n"
            "set terminal svg size %zu,480 font 'sans,12' background 'white'\n"
            "set output 'chart.svg'\n"
            "set title 'Throughput, native = 1 (median and 95%% interval of the pairs)'\n"
            "set ylabel 'relative to native'\n"
            "set yrange [0:*]\nset offsets 0, 0, graph 0.06, 0\nset xrange [-0.6:%.1f]\n"
            "set grid ytics lc '#dddddd'\nset key outside top center horizontal\n"
            "set style fill solid 0.9\nset boxwidth %.2f\nset xtics rotate by -25 noenhanced\n"
            "set xtics (",
            360 + 150 * groups, (double)groups - 0.4, BAR * 0.92);
    size_t at = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (!is_drawn(&t->rows[i]))
            continue;
        fprintf(f, "%s'%s %s' %zu", at ? ", " : "", t->rows[i].name, t->rows[i].metric, at);
        at++;
    }
    fputs(")\nplot 1 lc '#555555' dt 2 notitle", f);
    for (size_t side = 0; side < KNOWN; side++) {
        if (has[side])
            fprintf(f, ", \\\n  'chart.dat' index %zu using 1:2 with boxes lc '%s' title '%s'",
                    side, known[side].color, known[side].side);
    }
    /* After all boxes, which would cover them. */
    for (size_t side = 1; side < KNOWN; side++) {
        if (has[side])
            fprintf(f,
                    ", \\\n  'chart.dat' index %zu using 1:2:3:4 with yerrorbars pt 0"
                    " lc '#222222' notitle"
                    ", \\\n  'chart.dat' index %zu using 1:4:5 with labels offset 0,0.6"
                    " font ',9' notitle",
                    side, side);
    }
    fputc('\n', f);
}

/* NULL, or why there is no picture. */
static const char *gnuplot_run(const char *dir)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(dir) == 0)
            execlp("gnuplot", "gnuplot", "chart.gp", (char *)NULL);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return "gnuplot is not installed here";
    return status == 0 ? NULL : "gnuplot failed";
}

static FILE *create(const char *dir, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    if (!f)
        fail("%s: %m", path);
    return f;
}

static void finish(FILE *f, const char *dir, const char *name)
{
    if (ferror(f) || fclose(f) != 0)
        fail("%s/%s: %m", dir, name);
}

void chart_write(const struct table *t, const char *dir)
{
    bool has[KNOWN] = {false};
    FILE *data = create(dir, "chart.dat");
    size_t groups = data_write(t, data, has);
    finish(data, dir, "chart.dat");
    if (groups == 0) {
        fprintf(stderr, "apir-bench: no chart: no side was measured beside native\n");
        return;
    }
    FILE *script = create(dir, "chart.gp");
    script_write(t, groups, has, script);
    finish(script, dir, "chart.gp");
    const char *why = gnuplot_run(dir);
    if (why)
        fprintf(stderr, "apir-bench: no chart.svg: %s; later: cd %s && gnuplot chart.gp\n", why,
                dir);
}
