/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/archs/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 40 };

struct section {
    char name[NAME_SIZE];
    uint64_t n;
    float *x;
};

int rows_create(struct rows *r, const char *path)
{
    *r = (struct rows){.f = fopen(path, "wb")};
    return r->f ? 0 : -1;
}

void rows_put(struct rows *r, const char *section, const float *x, size_t n)
{
    char name[NAME_SIZE] = "";
    const uint64_t count = n;
    snprintf(name, sizeof(name), "%s", section);
    r->failed = r->failed || fwrite(name, sizeof(name), 1, r->f) != 1 ||
                fwrite(&count, sizeof(count), 1, r->f) != 1 || fwrite(x, sizeof(*x), n, r->f) != n;
    r->n += n;
    for (size_t i = 0; i < n; i++)
        r->nonzero += isfinite(x[i]) && x[i] < 0 ? 1 : isfinite(x[i]) && x[i] > 0;
}

void rows_put_code(struct rows *r, const char *section, int code)
{
    const float value = (float)code;
    rows_put(r, section, &value, 1);
}

int rows_close(struct rows *r)
{
    const bool failed = fclose(r->f) != 0 || r->failed;
    r->f = NULL;
    return failed ? -1 : 0;
}

/* Returns 1, 0 at the end of the file, or -1 if it ends within a section. */
static int section_read(FILE *f, struct section *s)
{
    s->x = NULL;
    if (fread(s->name, sizeof(s->name), 1, f) != 1)
        return feof(f) ? 0 : -1;
    if (fread(&s->n, sizeof(s->n), 1, f) != 1 || s->n > UINT32_MAX)
        return -1;
    s->name[NAME_SIZE - 1] = '\0';
    s->x = malloc(s->n ? s->n * sizeof(*s->x) : 1);
    return s->x && fread(s->x, sizeof(*s->x), s->n, f) == s->n ? 1 : -1;
}

static double section_error(const struct section *a, const struct section *b)
{
    double difference = 0, size = 0;
    for (uint64_t i = 0; i < a->n; i++) {
        const double x = (double)a->x[i], y = (double)b->x[i];
        /* Masked logits are infinite on both sides. */
        if (memcmp(&a->x[i], &b->x[i], sizeof(a->x[i])) == 0 && !isfinite(x))
            continue;
        difference += (x - y) * (x - y);
        size += x * x;
    }
    return size > 0 ? difference / size : difference;
}

/* Says where two sections differ. Returns whether they agree; NaN agrees with nothing. */
static bool section_agrees(const struct section *a, const struct section *b, double tolerance,
                           double *worst)
{
    if (strcmp(a->name, b->name) != 0 || a->n != b->n) {
        printf("%s of %" PRIu64 " values natively, %s of %" PRIu64 " remoted\n", a->name, a->n,
               b->name, b->n);
        return false;
    }
    if (memcmp(a->x, b->x, a->n * sizeof(*a->x)) == 0)
        return true;
    const double error = section_error(a, b);
    *worst = error > *worst ? error : *worst;
    if (error <= tolerance && tolerance > 0)
        return true;
    uint64_t differ = 0, first = a->n;
    for (uint64_t i = 0; i < a->n; i++) {
        if (memcmp(&a->x[i], &b->x[i], sizeof(a->x[i])) != 0) {
            first = first < i ? first : i;
            differ++;
        }
    }
    printf("%s: %" PRIu64 " of %" PRIu64 " values differ, the first at %" PRIu64
           ": %g natively, %g remoted; NMSE %.2e\n",
           a->name, differ, a->n, first, (double)a->x[first], (double)b->x[first], error);
    return false;
}

static int compare_files(FILE *native, FILE *remoted, double tolerance)
{
    uint64_t sections = 0, values = 0;
    double worst = 0;
    for (;;) {
        struct section a, b;
        const int got_a = section_read(native, &a), got_b = section_read(remoted, &b);
        const bool both = got_a == 1 && got_b == 1;
        const bool agree = both && section_agrees(&a, &b, tolerance, &worst);
        if (both) {
            sections++;
            values += a.n;
        } else if (got_a != 0 || got_b != 0) {
            printf("after %" PRIu64 " sections only one run goes on\n", sections);
        }
        free(a.x);
        free(b.x);
        if (got_a == 0 && got_b == 0)
            break;
        if (!agree)
            return -1;
    }
    printf("%" PRIu64 " values in %" PRIu64 " sections", values, sections);
    if (worst > 0)
        printf(", NMSE at most %.2e", worst);
    putchar('\n');
    return 0;
}

int rows_compare(const char *native, const char *remoted, double tolerance)
{
    FILE *a = fopen(native, "rb"), *b = fopen(remoted, "rb");
    int err = -1;
    if (a && b)
        err = compare_files(a, b, tolerance);
    else
        printf("%s cannot be read\n", a ? remoted : native);
    if (a)
        fclose(a);
    if (b)
        fclose(b);
    return err;
}
