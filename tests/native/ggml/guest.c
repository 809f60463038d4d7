/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest: the packaged llama.cpp as a guest of `make check-ggml`, and what it computes natively: on
 * APIR0 where it sees that, else on a Vulkan device, else on the CPU. It takes the same arguments
 * and prints the same lines as tests/system/hook/node_llama.cjs, which says what they are, and ends
 * at a model that it cannot run. With --judge-plain the judge's weights stay as the file has them,
 * where the device has a layout of its own for them.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/native/options/run.h"

enum { PROMPT = 19, GENERATED = 24, ASKED = 4, CONTEXT = 256, BATCH = 64 };

static enum ggml_type cache_type(const char *name)
{
    if (strcmp(name, "q8_0") == 0)
        return GGML_TYPE_Q8_0;
    if (strcmp(name, "f16") != 0)
        run_fail("%s: not a type of cache", name);
    return GGML_TYPE_F16;
}

static void setting_apply(const char *setting, struct llama_context_params *p)
{
    char flash[8], keys[8], values[8];
    unsigned batch = BATCH;
    if (sscanf(setting, "%7[^:]:%7[^:]:%7[^:]:%u", flash, keys, values, &batch) < 3)
        run_fail("%s: not a setting", setting);
    p->n_ctx = CONTEXT;
    p->n_batch = p->n_ubatch = batch;
    p->flash_attn_type =
        strcmp(flash, "on") == 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p->type_k = cache_type(keys);
    p->type_v = cache_type(values);
}

/* The made-up prompt; then what follows it is asked for. */
static void prompt(struct llama_context *ctx)
{
    llama_token tokens[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = 3 + i * 37 % 120;
    const int batch = (int)llama_n_batch(ctx);
    for (int i = 0; i < PROMPT; i += batch) {
        if (decode_last(ctx, tokens + i, i, PROMPT - i < batch ? PROMPT - i : batch) != 0)
            run_fail("llama_decode failed");
    }
}

static void show_text(struct llama_context *ctx)
{
    prompt(ctx);
    printf(",\"made\":");
    for (int i = 0; i < GENERATED; i++) {
        const llama_token made = most_likely(llama_get_logits_ith(ctx, -1), context_vocab(ctx));
        printf("%c%d", i ? ',' : '[', made);
        if (decode_last(ctx, &made, PROMPT + i, 1) != 0)
            run_fail("llama_decode failed at token %d", i);
    }
    puts("]}");
}

/* The logarithm of each token's probability, as a list; null: not a number. */
static void show_step(const float *logits, size_t n)
{
    double sum = 0;
    for (size_t t = 0; t < n; t++)
        sum += exp((double)logits[t] - (double)logits[0]);
    for (size_t t = 0; t < n; t++) {
        const double l = (double)logits[t] - (double)logits[0] - log(sum);
        putchar(t ? ',' : '[');
        if (isfinite(l))
            printf("%.6f", l);
        else
            printf("null");
    }
    putchar(']');
}

/* After the prompt, and after each of some more tokens. */
static void show_logs(struct llama_context *ctx)
{
    printf(",\"logs\":");
    prompt(ctx);
    for (int i = 0; i < ASKED; i++) {
        const llama_token next = 5 + i * 11;
        putchar(i ? ',' : '[');
        show_step(llama_get_logits_ith(ctx, -1), context_vocab(ctx));
        if (decode_last(ctx, &next, PROMPT + i, 1) != 0)
            run_fail("llama_decode failed at token %d", i);
    }
    puts("]}");
}

/* How much less likely than the most likely token this one is, in standard deviations. */
static double distance(const float *logits, size_t n, llama_token token)
{
    double sum = 0, squares = 0;
    if (token < 0 || (size_t)token >= n)
        run_fail("no token %d", token);
    for (size_t i = 0; i < n; i++) {
        sum += (double)logits[i];
        squares += (double)logits[i] * (double)logits[i];
    }
    const double mean = sum / (double)n, deviation = sqrt(squares / (double)n - mean * mean);
    return (double)(logits[most_likely(logits, n)] - logits[token]) / deviation;
}

/* The largest distance of a text's tokens, each where the text has it. */
static double judge(struct llama_context *ctx, const char *text)
{
    double worst = 0;
    prompt(ctx);
    for (int i = 0; i < GENERATED; i++) {
        char *end;
        const llama_token token = (llama_token)strtol(text, &end, 10);
        if (end == text || *end != (i + 1 < GENERATED ? ',' : '\0'))
            run_fail("not a text of %d tokens", GENERATED);
        text = end + 1;
        const double d = distance(llama_get_logits_ith(ctx, -1), context_vocab(ctx), token);
        if (!(d <= worst))
            worst = d;
        if (decode_last(ctx, &token, PROMPT + i, 1) != 0)
            run_fail("llama_decode failed at token %d", i);
    }
    return worst;
}

static bool on_apir(const struct run *r)
{
    return r->devices[0] && strcmp(ggml_backend_dev_name(r->devices[0]), "APIR0") == 0;
}

static void show_setting(struct run *r, const char *model, const char *setting, bool logs)
{
    setting_apply(setting, &r->setup.context);
    r->ctx = run_context(r->model, &r->setup);
    printf("{\"model\":\"%s\",\"setting\":\"%s\",\"devices\":[%s]", model, setting,
           on_apir(r) ? "\"APIR0\"" : "");
    if (logs)
        show_logs(r->ctx);
    else
        show_text(r->ctx);
    llama_free(r->ctx);
    r->ctx = NULL;
}

static void show_models(struct run *r, const char *settings, char **models, bool logs)
{
    for (; *models; models++) {
        printf("{\"model\":\"%s\",\"begins\":true}\n", *models);
        r->model = run_model(*models, &r->setup);
        for (const char *s = settings; *s; s += strcspn(s, ","), s += *s == ',') {
            char setting[32];
            snprintf(setting, sizeof(setting), "%.*s", (int)strcspn(s, ","), s);
            show_setting(r, *models, setting, logs);
        }
        run_close(r);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    const bool plain = strcmp(how, "--judge-plain") == 0;
    const bool judges = plain || strcmp(how, "--judge") == 0, logs = strcmp(how, "--logs") == 0;
    if (judges ? argc != 5 : argc < 4 || (!logs && strcmp(how, "--texts") != 0)) {
        fputs("usage: guest --texts|--logs FLASH:KEYS:VALUES[:BATCH],... MODEL...\n"
              "       guest --judge|--judge-plain FLASH:KEYS:VALUES[:BATCH] TOKEN,... MODEL\n",
              stderr);
        return 2;
    }
    /* What it has said counts, wherever it ends. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct run r = {0};
    run_init(&r, "CPU");
    r.devices[0] = ggml_backend_dev_by_name("APIR0");
    if (!r.devices[0])
        r.devices[0] = ggml_backend_dev_by_name("Vulkan0");
    setup_init(&r.setup, &r);
    r.setup.model.use_extra_bufts = !plain;
    if (judges) {
        setting_apply(argv[2], &r.setup.context);
        r.model = run_model(argv[4], &r.setup);
        r.ctx = run_context(r.model, &r.setup);
        printf("%.4f\n", judge(r.ctx, argv[3]));
    } else {
        show_models(&r, argv[2], argv + 3, logs);
    }
    run_end(&r, NULL);
    return 0;
}
