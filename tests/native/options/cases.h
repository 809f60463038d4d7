/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of cases: cases.c. Each is one line for tests/native/options/run.sh, which runs it once
 * on the host itself and once remoted.
 */
#ifndef APIR_TESTS_OPTIONS_CASES_H
#define APIR_TESTS_OPTIONS_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include <ggml.h>

struct run;
struct setup;

enum options_flash { FLASH_ON, FLASH_OFF, FLASH_AUTO };

/* How the script runs a case. */
enum options_kind {
    KIND_PAIR,    /* natively and remoted, and the records are compared */
    KIND_ALONE,   /* only remoted: it judges itself, since natively there is nothing like it */
    KIND_LIMITED, /* with a limit of the device's memory on the host */
    KIND_TWO,     /* on two devices of Vulkan, natively too */
    KIND_MIXED    /* the host's CPU and Vulkan are two devices; natively it is the CPU alone */
};

/* Changes of the usual setup; 0 leaves everything as it is. */
struct tuning {
    enum ggml_type type_k, type_v; /* F32 is 0 and so cannot be asked for */
    enum options_flash flash;
    bool kv_on_cpu;     /* -nkvo */
    int gpu_layers;     /* -ngl; NO_LAYERS for none */
    const char *on_cpu; /* -ot PATTERN=CPU */
    bool no_op_offload, no_host;
    uint32_t batch, ubatch;
    int split;    /* enum llama_split_mode plus 1 */
    int load;     /* enum llama_load_mode plus 1 */
    bool streams; /* a cache for each sequence instead of one for all */
    int pooling;  /* enum llama_pooling_type plus 1; with embeddings */
    bool embeddings;
    size_t moe_cache;
};

enum { NO_LAYERS = -1 };

struct options_case {
    const char *name;
    const char *model; /* a name that tests/native/options/run.sh knows how to make */
    const char *extra; /* likewise, or NULL */
    void (*run)(struct run *r);
    struct tuning tuning;
    enum options_kind kind;
    bool part;        /* also in the short run */
    const char *says; /* an expression that a line of the remoted run's stderr must match */
};

const struct options_case *case_find(const char *name);

/* One line each: name, model, extra or "-", kind, "part" or "full", and what it says. */
void cases_list(void);

/* The usual setup with the case's own changes. */
void setup_case(struct setup *s, const struct run *r);

/* ---- what the table names: one file each ------------------------------------------ */

void case_logits(struct run *r);    /* case_logits.c: a prompt, then token by token */
void case_sequences(struct run *r); /* case_sequences.c */
void case_copy(struct run *r);
void case_remove(struct run *r);
void case_shift(struct run *r);
void case_divide(struct run *r);
void case_keep(struct run *r);
void case_state_whole(struct run *r); /* case_state.c */
void case_state_file(struct run *r);
void case_state_sequence(struct run *r);
void case_state_sequence_file(struct run *r);
void case_state_on_device(struct run *r);
void case_lora(struct run *r); /* case_adapters.c */
void case_lora_swap(struct run *r);
void case_control_vector(struct run *r);
void case_embeddings(struct run *r); /* case_embeddings.c */
void case_embeddings_in(struct run *r);
void case_eval_callback(struct run *r); /* case_callbacks.c */
void case_abort(struct run *r);
void case_sampler_device(struct run *r); /* case_samplers.c */
void case_sampler_swap(struct run *r);
void case_sampler_host(struct run *r);
void case_grammar(struct run *r);
void case_two_contexts(struct run *r); /* case_several.c */
void case_draft(struct run *r);
void case_reload(struct run *r); /* case_memory.c */
void case_load_cancel(struct run *r);
void case_no_memory_model(struct run *r);
void case_no_memory_context(struct run *r);
void case_thread_contexts(struct run *r); /* case_threads.c */
void case_thread_models(struct run *r);
void case_error_graph(struct run *r); /* case_errors.c */
void case_error_decode(struct run *r);

#endif
