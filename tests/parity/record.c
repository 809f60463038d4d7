/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/parity/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file_header {
    char magic[8];
    uint32_t n_vocab, n_prompt, n_gen, zero;
    double perplexity;
};

static const char magic[8] = {'A', 'P', 'I', 'R', 'L', 'G', 'T', '1'};

int record_init(struct record *r, uint32_t n_vocab, uint32_t n_prompt, uint32_t n_gen)
{
    *r = (struct record){.n_vocab = n_vocab, .n_prompt = n_prompt, .n_gen = n_gen};
    r->tokens = calloc(record_rows(r), sizeof(*r->tokens));
    r->logits = calloc(record_rows(r), n_vocab * sizeof(*r->logits));
    if (!r->tokens || !r->logits) {
        record_fini(r);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

void record_fini(struct record *r)
{
    free(r->tokens);
    free(r->logits);
    *r = (struct record){0};
}

uint64_t record_hash(const struct record *r)
{
    const unsigned char *p = (const unsigned char *)r->logits;
    const size_t n = record_rows(r) * r->n_vocab * sizeof(*r->logits);
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

int record_save(const struct record *r, const char *path)
{
    struct file_header h = {.n_vocab = r->n_vocab,
                            .n_prompt = r->n_prompt,
                            .n_gen = r->n_gen,
                            .perplexity = r->perplexity};
    const size_t rows = record_rows(r);
    FILE *f = fopen(path, "wbe");

    if (!f)
        return -1;
    memcpy(h.magic, magic, sizeof(magic));
    int ok = fwrite(&h, sizeof(h), 1, f) == 1 &&
             fwrite(r->tokens, sizeof(*r->tokens), rows, f) == rows &&
             fwrite(r->logits, sizeof(*r->logits) * r->n_vocab, rows, f) == rows;
    ok = fclose(f) == 0 && ok;
    return ok ? 0 : -1;
}

int record_load(struct record *ret_record, const char *path)
{
    struct file_header h;
    struct record r = {0};
    FILE *f = fopen(path, "rbe");

    if (!f)
        return -1;
    if (fread(&h, sizeof(h), 1, f) != 1 || memcmp(h.magic, magic, sizeof(magic)) != 0)
        goto bad;
    if (record_init(&r, h.n_vocab, h.n_prompt, h.n_gen) < 0)
        goto fail;
    r.perplexity = h.perplexity;
    const size_t rows = record_rows(&r);
    if (fread(r.tokens, sizeof(*r.tokens), rows, f) != rows ||
        fread(r.logits, sizeof(*r.logits) * r.n_vocab, rows, f) != rows)
        goto bad;
    fclose(f);
    *ret_record = r;
    return 0;
bad:
    errno = EPROTO;
fail:
    record_fini(&r);
    fclose(f);
    return -1;
}
