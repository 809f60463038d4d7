/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest: the packaged llama.cpp as a guest of `make check-ggml`, and what it computes natively: on
 * APIR0 where it sees that, else on a Vulkan device, else on the CPU. It takes the same settings
 * and prints the same lines as tests/hook/node_llama.cjs, which says what they are. With --judge
 * it says of another one's text how far its tokens are from those that it finds most likely itself
 * (with --judge-plain, while weights stay as the file has them, where the device has a layout of
 * its own for them), and with --logs how likely each token is.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/options/run.h"

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
    if (sscanf(setting, "%7[^:]:%7[^:]:%7s", flash, keys, values) != 3)
        run_fail("%s: not a setting", setting);
    p->n_ctx = CONTEXT;
    p->n_batch = p->n_ubatch = BATCH;
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
    if (decode_last(ctx, tokens, 0, PROMPT) != 0)
        run_fail("llama_decode failed");
}

static void generate(struct llama_context *ctx, llama_token made[GENERATED])
{
    prompt(ctx);
    for (int i = 0; i < GENERATED; i++) {
        made[i] = most_likely(llama_get_logits_ith(ctx, -1), context_vocab(ctx));
        if (decode_last(ctx, &made[i], PROMPT + i, 1) != 0)
            run_fail("llama_decode failed at token %d", i);
    }
}

/* The logarithm of each token's probability, as a list. */
static void show_step(const float *logits, size_t n)
{
    double sum = 0;
    for (size_t t = 0; t < n; t++)
        sum += exp((double)logits[t] - (double)logits[0]);
    for (size_t t = 0; t < n; t++)
        printf("%c%.6f", t ? ',' : '[', (double)logits[t] - (double)logits[0] - log(sum));
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

static void show_setting(const char *setting, bool native)
{
    printf("{\"setting\":\"%s\",\"devices\":[%s]", setting, native ? "" : "\"APIR0\"");
}

static void show_made(const llama_token made[GENERATED])
{
    printf(",\"made\":[");
    for (int i = 0; i < GENERATED; i++)
        printf("%s%d", i ? "," : "", made[i]);
    puts("]}");
}

int main(int argc, char **argv)
{
    const bool plain = argc == 5 && strcmp(argv[2], "--judge-plain") == 0;
    const bool judges = plain || (argc == 5 && strcmp(argv[2], "--judge") == 0);
    const bool logs = argc > 3 && strcmp(argv[2], "--logs") == 0;
    if (argc < 3 || (argv[2][0] == '-' && !judges && !logs)) {
        fputs("usage: guest MODEL [--logs] FLASH:KEYS:VALUES...\n"
              "       guest MODEL --judge|--judge-plain FLASH:KEYS:VALUES TOKEN,...\n",
              stderr);
        return 2;
    }
    struct run r = {.model_file = argv[1]};
    run_init(&r, "CPU");
    r.devices[0] = ggml_backend_dev_by_name("APIR0");
    r.native = !r.devices[0];
    if (r.native)
        r.devices[0] = ggml_backend_dev_by_name("Vulkan0");
    setup_init(&r.setup, &r);
    r.setup.model.use_extra_bufts = !plain;
    r.model = run_model(r.model_file, &r.setup);
    for (int i = judges || logs ? 3 : 2; i < (judges ? 4 : argc); i++) {
        llama_token made[GENERATED];
        setting_apply(argv[i], &r.setup.context);
        r.ctx = run_context(r.model, &r.setup);
        if (judges) {
            printf("%.4f\n", judge(r.ctx, argv[4]));
        } else if (logs) {
            show_setting(argv[i], r.native);
            show_logs(r.ctx);
        } else {
            generate(r.ctx, made);
            show_setting(argv[i], r.native);
            show_made(made);
        }
        llama_free(r.ctx);
        r.ctx = NULL;
    }
    run_end(&r, NULL);
    return 0;
}
