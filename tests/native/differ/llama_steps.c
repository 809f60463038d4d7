/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/native/differ/llama_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOTH(s) for (int s = 0; s < SIDES; s++)

static llama_memory_t memory(const struct twin *t, int side)
{
    return llama_get_memory(t->ctx[side]);
}

static void same(const char *what, int64_t native, int64_t remote)
{
    if (native != remote)
        differ_found("%s is %lld natively and %lld remoted", what, (long long)native,
                     (long long)remote);
}

/* ---- contexts ---------------------------------------------------------------------- */

static enum ggml_type cache_type(struct differ_random *r)
{
    static const enum ggml_type types[] = {GGML_TYPE_F16,   GGML_TYPE_F16,  GGML_TYPE_F32,
                                           GGML_TYPE_BF16,  GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                                           GGML_TYPE_IQ4_NL};
    return types[differ_below(r, sizeof(types) / sizeof(types[0]))];
}

/* What llama.cpp would choose by device is fixed, for one of them is the CPU. */
static struct llama_context_params pick_params(struct differ_random *r)
{
    static const uint32_t batches[] = {1, 3, 8, 17, 32, 64, 100};
    struct llama_context_params p = llama_context_default_params();
    const bool flash = differ_chance(r, 60);
    p.n_seq_max = 1 + differ_below(r, SEQUENCES_MAX);
    p.n_ctx = 256 * (1 + differ_below(r, 2)) * (differ_chance(r, 50) ? p.n_seq_max : 1);
    p.n_batch = batches[2 + differ_below(r, 5)]; /* one for each sequence at least */
    p.n_ubatch = batches[differ_below(r, 7)];
    p.n_threads = p.n_threads_batch = 1;
    p.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.type_k = cache_type(r);
    p.type_v = cache_type(r);
    if (!flash && ggml_is_quantized(p.type_v))
        p.type_v = GGML_TYPE_F16;
    p.offload_kqv = differ_chance(r, 65) || differ_left_out("nkvo");
    p.op_offload = differ_chance(r, 70);
    p.swa_full = differ_chance(r, 50);
    p.kv_unified = differ_chance(r, 50);
    p.no_perf = true;
    if (differ_chance(r, 25)) {
        static const enum llama_pooling_type kinds[] = {
            LLAMA_POOLING_TYPE_NONE, LLAMA_POOLING_TYPE_MEAN, LLAMA_POOLING_TYPE_LAST,
            LLAMA_POOLING_TYPE_CLS};
        p.embeddings = true;
        p.pooling_type = kinds[differ_below(r, 4)];
        /* What is pooled is in one piece, and of sequences of the same length; or libllama falls.
         */
        if (p.pooling_type != LLAMA_POOLING_TYPE_NONE) {
            p.n_ubatch = p.n_batch = 64;
            p.n_seq_max = p.n_seq_max == 3 ? 2 : p.n_seq_max;
        }
    }
    return p;
}

bool twin_open(struct twin *t, struct differ_random *r, struct llama_model *const model[SIDES])
{
    *t = (struct twin){.r = r, .params = pick_params(r)};
    const struct llama_context_params *p = &t->params;
    differ_step("a context: ctx %u batch %u ubatch %u seqs %u fa %d k %s v %s kqv %d op %d swa %d "
                "unified %d embeddings %d pooling %d",
                p->n_ctx, p->n_batch, p->n_ubatch, p->n_seq_max, (int)p->flash_attn_type,
                ggml_type_name(p->type_k), ggml_type_name(p->type_v), p->offload_kqv, p->op_offload,
                p->swa_full, p->kv_unified, p->embeddings, (int)p->pooling_type);
    BOTH(s)
    {
        t->model[s] = model[s];
        t->ctx[s] = llama_init_from_model(model[s], t->params);
        /* What has no cache takes a batch at once, or libllama falls. */
        if (t->ctx[s] && !llama_get_memory(t->ctx[s]) && p->n_ubatch < p->n_batch) {
            llama_free(t->ctx[s]);
            t->params.n_ubatch = t->params.n_batch;
            t->ctx[s] = llama_init_from_model(model[s], t->params);
        }
    }
    if (!t->ctx[NATIVE] != !t->ctx[REMOTE])
        differ_found("only one side has made a context");
    if (!t->ctx[NATIVE])
        return false;
    t->batch = llama_batch_init((int32_t)t->params.n_batch, 0, 1);
    return true;
}

static void forget(struct saved *s)
{
    BOTH(side)
    {
        free(s->data[side]);
        s->data[side] = NULL;
        s->size[side] = 0;
    }
}

void twin_close(struct twin *t)
{
    forget(&t->whole);
    forget(&t->sequence);
    if (t->batch.token)
        llama_batch_free(t->batch);
    BOTH(s)
    {
        if (t->ctx[s])
            llama_free(t->ctx[s]);
    }
}

/* ---- batches ------------------------------------------------------------------------ */

static int32_t vocab_size(const struct twin *t)
{
    return llama_vocab_n_tokens(llama_model_get_vocab(t->model[NATIVE]));
}

/* Each sequence goes on where it ends. The tokens of one may be apart. */
static void fill_batch(struct twin *t)
{
    struct differ_random *r = t->r;
    struct llama_batch *b = &t->batch;
    llama_pos next[SEQUENCES_MAX];
    const int32_t most = (int32_t)t->params.n_batch;
    const bool all = t->params.embeddings && t->params.pooling_type != LLAMA_POOLING_TYPE_NONE;
    for (unsigned s = 0; s < t->params.n_seq_max; s++)
        next[s] = llama_memory_seq_pos_max(memory(t, NATIVE), (llama_seq_id)s) + 1;
    b->n_tokens = differ_chance(r, 40) ? 1 : 1 + (int32_t)differ_below(r, (uint32_t)most);
    unsigned seq = differ_below(r, t->params.n_seq_max);
    for (int32_t i = 0; i < b->n_tokens; i++) {
        if (differ_chance(r, 20))
            seq = differ_below(r, t->params.n_seq_max);
        b->token[i] = (llama_token)differ_below(r, (uint32_t)vocab_size(t));
        b->pos[i] = next[seq]++;
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = (llama_seq_id)seq;
        b->logits[i] = all || i + 1 == b->n_tokens || differ_chance(r, 30);
    }
}

static void compare_floats(const char *what, float *const rows[SIDES], int32_t n)
{
    if (!rows[NATIVE] != !rows[REMOTE])
        differ_found("%s: only one side has any", what);
    if (rows[NATIVE])
        differ_compare(what, GGML_TYPE_F32, rows[NATIVE], rows[REMOTE], (size_t)n * sizeof(float));
}

static void compare_outputs(struct twin *t)
{
    const int32_t embd = llama_model_n_embd_out(t->model[NATIVE]);
    const bool pooled = t->params.embeddings && t->params.pooling_type != LLAMA_POOLING_TYPE_NONE;
    char what[64];
    for (int32_t i = 0; i < t->batch.n_tokens; i++) {
        float *rows[SIDES];
        if (!t->batch.logits[i])
            continue;
        if (pooled) {
            BOTH(s) rows[s] = llama_get_embeddings_seq(t->ctx[s], t->batch.seq_id[i][0]);
            compare_floats("embeddings of a sequence", rows, embd);
            continue;
        }
        snprintf(what, sizeof(what), "logits of token %d", (int)i);
        BOTH(s) rows[s] = llama_get_logits_ith(t->ctx[s], i);
        compare_floats(what, rows, vocab_size(t));
        if (!t->params.embeddings)
            continue;
        BOTH(s) rows[s] = llama_get_embeddings_ith(t->ctx[s], i);
        compare_floats("embeddings of a token", rows, embd);
    }
}

static void do_decode(struct twin *t)
{
    int32_t status[SIDES];
    fill_batch(t);
    differ_step("decode %d tokens", (int)t->batch.n_tokens);
    BOTH(s) status[s] = llama_decode(t->ctx[s], t->batch);
    same("llama_decode", status[NATIVE], status[REMOTE]);
    if (status[NATIVE] == 0)
        compare_outputs(t);
    else if (differ_chance(t->r, 50))
        BOTH(s) llama_memory_clear(memory(t, s), true); /* full, and so to the end */
}

/* ---- memory --------------------------------------------------------------------------- */

struct span {
    llama_seq_id seq;
    llama_pos first, end;
};

static struct span pick_span(struct twin *t)
{
    struct span at = {.seq = (llama_seq_id)differ_below(t->r, t->params.n_seq_max), .end = -1};
    const llama_pos last = llama_memory_seq_pos_max(memory(t, NATIVE), at.seq);
    at.first = (llama_pos)differ_below(t->r, (uint32_t)last + 2);
    if (differ_chance(t->r, 40))
        at.first = -1;
    if (differ_chance(t->r, 50))
        at.end = at.first + 1 + (llama_pos)differ_below(t->r, (uint32_t)last + 2);
    return at;
}

static void do_remove(struct twin *t)
{
    const struct span at = pick_span(t);
    bool done[SIDES];
    differ_step("remove %d to %d of sequence %d", at.first, at.end, at.seq);
    BOTH(s) done[s] = llama_memory_seq_rm(memory(t, s), at.seq, at.first, at.end);
    same("llama_memory_seq_rm", done[NATIVE], done[REMOTE]);
}

static void do_copy(struct twin *t)
{
    struct span at = pick_span(t);
    const llama_seq_id to = (llama_seq_id)differ_below(t->r, t->params.n_seq_max);
    if (to == at.seq)
        return;
    /* Where sequences have memory of their own, and where a state sums up all, it is all. */
    at.first = at.end = -1;
    differ_step("copy sequence %d to %d", at.seq, to);
    BOTH(s)
    {
        llama_memory_seq_rm(memory(t, s), to, -1, -1);
        llama_memory_seq_cp(memory(t, s), at.seq, to, at.first, at.end);
    }
}

/* Positions move: the keys are turned with the next batch. */
static void do_shift(struct twin *t)
{
    const struct span at = pick_span(t);
    /* The CPU turns no keys of BF16. */
    if (!llama_memory_can_shift(memory(t, NATIVE)) || t->params.type_k == GGML_TYPE_BF16)
        return;
    if (differ_chance(t->r, 30)) {
        const int divisor = 2 + (int)differ_below(t->r, 3);
        differ_step("divide positions of sequence %d by %d", at.seq, divisor);
        BOTH(s) llama_memory_seq_div(memory(t, s), at.seq, -1, -1, divisor);
        return;
    }
    /* As a context shift does: some go, those behind them follow. */
    const llama_pos last = llama_memory_seq_pos_max(memory(t, NATIVE), at.seq);
    if (last < 4)
        return;
    const llama_pos first = (llama_pos)differ_below(t->r, (uint32_t)last / 2);
    const llama_pos n = 1 + (llama_pos)differ_below(t->r, (uint32_t)last / 3);
    bool done[SIDES];
    differ_step("shift sequence %d behind %d by %d", at.seq, first, n);
    BOTH(s) done[s] = llama_memory_seq_rm(memory(t, s), at.seq, first, first + n);
    same("llama_memory_seq_rm", done[NATIVE], done[REMOTE]);
    if (done[NATIVE])
        BOTH(s) llama_memory_seq_add(memory(t, s), at.seq, first + n, -1, -n);
}

static void do_forget(struct twin *t)
{
    const bool data = differ_chance(t->r, 50);
    if (differ_chance(t->r, 60)) {
        const llama_seq_id seq = (llama_seq_id)differ_below(t->r, t->params.n_seq_max);
        differ_step("keep sequence %d alone", seq);
        BOTH(s) llama_memory_seq_keep(memory(t, s), seq);
        return;
    }
    differ_step("clear the memory%s", data ? " and its data" : "");
    BOTH(s) llama_memory_clear(memory(t, s), data);
}

/* ---- states ------------------------------------------------------------------------------ */

enum { WHOLE = -1 /* in the place of a sequence */ };

static const char *state_name(llama_seq_id seq, char name[32])
{
    if (seq == WHOLE)
        return strcpy(name, "the state");
    snprintf(name, 32, "sequence %d", seq);
    return name;
}

static void save(struct twin *t, struct saved *to, llama_seq_id seq)
{
    char name[32];
    differ_step("save %s", state_name(seq, name));
    forget(to);
    BOTH(s)
    {
        struct llama_context *ctx = t->ctx[s];
        const size_t size =
            seq == WHOLE ? llama_state_get_size(ctx) : llama_state_seq_get_size(ctx, seq);
        to->data[s] = differ_alloc(size);
        memset(to->data[s], 0, size);
        to->size[s] = seq == WHOLE ? llama_state_get_data(ctx, to->data[s], size)
                                   : llama_state_seq_get_data(ctx, to->data[s], size, seq);
    }
    same(name, (int64_t)to->size[NATIVE], (int64_t)to->size[REMOTE]);
    if (differ_options.tolerance <= 0)
        differ_compare_bytes(name, to->data[NATIVE], to->data[REMOTE], to->size[NATIVE]);
}

/* Returns whether anything was taken. */
static bool restore(struct twin *t, const struct saved *from, llama_seq_id seq)
{
    size_t n[SIDES];
    char name[32];
    if (!from->data[NATIVE])
        return true;
    /* Each gets its own, or what the other has saved. */
    const bool swap = differ_chance(t->r, 50);
    differ_step("restore %s%s", state_name(seq, name), swap ? " of the other side" : "");
    BOTH(s)
    {
        const uint8_t *data = from->data[swap ? !s : s];
        const size_t size = from->size[swap ? !s : s];
        n[s] = seq == WHOLE ? llama_state_set_data(t->ctx[s], data, size)
                            : llama_state_seq_set_data(t->ctx[s], data, size, seq);
    }
    same("what was restored", (int64_t)n[NATIVE], (int64_t)n[REMOTE]);
    return n[NATIVE] != 0;
}

static llama_seq_id pick_sequence(struct twin *t)
{
    return (llama_seq_id)differ_below(t->r, t->params.n_seq_max);
}

static void do_save(struct twin *t)
{
    save(t, &t->whole, WHOLE);
}

static void do_restore(struct twin *t)
{
    restore(t, &t->whole, WHOLE);
}

static void do_save_sequence(struct twin *t)
{
    save(t, &t->sequence, pick_sequence(t));
}

static void do_restore_sequence(struct twin *t)
{
    if (!restore(t, &t->sequence, pick_sequence(t)))
        BOTH(s) llama_memory_clear(memory(t, s), true);
}

/* ---- others ------------------------------------------------------------------------------ */

static void do_control(struct twin *t)
{
    const int32_t embd = llama_model_n_embd(t->model[NATIVE]);
    const int32_t layers = llama_model_n_layer(t->model[NATIVE]);
    const size_t n = (size_t)embd * (size_t)layers;
    int32_t status[SIDES];
    if (differ_chance(t->r, 40)) {
        differ_step("no control vector");
        BOTH(s) llama_set_adapter_cvec(t->ctx[s], NULL, 0, embd, 0, 0);
        return;
    }
    differ_step("a control vector");
    float *data = differ_alloc(n * sizeof(*data));
    for (size_t i = 0; i < n; i++)
        data[i] = 0.1f * differ_float(t->r);
    BOTH(s) status[s] = llama_set_adapter_cvec(t->ctx[s], data, n, embd, 1, layers);
    same("llama_set_adapter_cvec", status[NATIVE], status[REMOTE]);
    free(data);
}

static void compare_positions(struct twin *t)
{
    for (unsigned i = 0; i < t->params.n_seq_max; i++) {
        const llama_seq_id seq = (llama_seq_id)i;
        same("the first position", llama_memory_seq_pos_min(memory(t, NATIVE), seq),
             llama_memory_seq_pos_min(memory(t, REMOTE), seq));
        same("the last position", llama_memory_seq_pos_max(memory(t, NATIVE), seq),
             llama_memory_seq_pos_max(memory(t, REMOTE), seq));
    }
}

void twin_step(struct twin *t)
{
    static void (*const steps[])(struct twin *t) = {
        do_remove,           do_copy,    do_shift,   do_shift,
        do_forget,           do_save,    do_restore, do_save_sequence,
        do_restore_sequence, do_control,
    };
    const uint32_t which = differ_below(t->r, 24);
    if (which < sizeof(steps) / sizeof(steps[0]))
        steps[which](t);
    else
        do_decode(t);
    compare_positions(t);
}
