/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/options/record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 1 << 28, ITEMS_MAX = 1 << 20 };

struct file_header {
    char magic[8];
    uint64_t n;
};

static const char magic[8] = {'A', 'P', 'I', 'R', 'O', 'P', 'T', '1'};

static void *allocated(void *p)
{
    if (!p) {
        fputs("a record: out of memory\n", stderr);
        abort();
    }
    return p;
}

void record_fini(struct record *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->items[i].values);
    free(r->items);
    *r = (struct record){0};
}

static void add(struct record *r, const char *name, enum record_kind kind, const void *x, size_t n)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 64;
        r->items = allocated(reallocarray(r->items, r->cap, sizeof(*r->items)));
    }
    struct record_item *item = &r->items[r->n++];
    *item = (struct record_item){.kind = kind, .n = (uint32_t)n};
    snprintf(item->name, sizeof(item->name), "%s", name);
    item->values = allocated(malloc(n * sizeof(*item->values) + 1));
    if (n)
        memcpy(item->values, x, n * sizeof(*item->values));
}

void record_floats(struct record *r, const char *name, const float *x, size_t n)
{
    add(r, name, RECORD_FLOATS, x, n);
}

void record_masked(struct record *r, const char *name, const float *x, size_t n)
{
    add(r, name, RECORD_MASKED, x, n);
}

void record_int(struct record *r, const char *name, int64_t x)
{
    const int32_t halves[2] = {(int32_t)(x & 0xffffffff), (int32_t)(x >> 32)};
    add(r, name, RECORD_INTS, halves, 2);
}

int record_save(const struct record *r, const char *path)
{
    struct file_header h = {.n = r->n};
    FILE *f = fopen(path, "wbe");

    if (!f)
        return -1;
    memcpy(h.magic, magic, sizeof(magic));
    int ok = fwrite(&h, sizeof(h), 1, f) == 1;
    for (size_t i = 0; ok && i < r->n; i++) {
        const struct record_item *item = &r->items[i];
        ok = fwrite(item->name, sizeof(item->name), 1, f) == 1 &&
             fwrite(&item->kind, sizeof(item->kind), 1, f) == 1 &&
             fwrite(&item->n, sizeof(item->n), 1, f) == 1 &&
             fwrite(item->values, sizeof(*item->values), item->n, f) == item->n;
    }
    ok = fclose(f) == 0 && ok;
    return ok ? 0 : -1;
}

static int item_load(struct record *r, FILE *f)
{
    struct record_item item = {0};
    if (fread(item.name, sizeof(item.name), 1, f) != 1 ||
        fread(&item.kind, sizeof(item.kind), 1, f) != 1 ||
        fread(&item.n, sizeof(item.n), 1, f) != 1 || item.n > VALUES_MAX)
        return -1;
    item.name[sizeof(item.name) - 1] = '\0';
    uint32_t *values = allocated(malloc(item.n * sizeof(*values) + 1));
    bool whole = fread(values, sizeof(*values), item.n, f) == item.n;
    if (whole)
        add(r, item.name, (enum record_kind)item.kind, values, item.n);
    free(values);
    return whole ? 0 : -1;
}

int record_load(struct record *ret_record, const char *path)
{
    struct file_header h;
    struct record r = {0};
    FILE *f = fopen(path, "rbe");

    if (!f)
        return -1;
    bool ok = fread(&h, sizeof(h), 1, f) == 1 && memcmp(h.magic, magic, sizeof(magic)) == 0 &&
              h.n <= ITEMS_MAX;
    for (uint64_t i = 0; ok && i < h.n; i++)
        ok = item_load(&r, f) == 0;
    fclose(f);
    if (!ok) {
        record_fini(&r);
        errno = EPROTO;
        return -1;
    }
    *ret_record = r;
    return 0;
}
