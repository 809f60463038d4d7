# SPDX-License-Identifier: Apache-2.0
#
# Differential fuzzers: the same random steps natively and remoted, in one process. With the host's
# CPU and one thread all results are equal bit for bit.

GGML_DIFFER := $(O)/tests/native/differ/ggml-differ
GGML_DIFFER_SRCS := $(addprefix tests/native/differ/,ggml_differ.c ggml_world.c ggml_transfers.c \
    ggml_copies.c ggml_graphs.c ggml_sched.c ggml_many.c ggml_cross.c ggml_bulk.c ggml_build.c ggml_grow.c ggml_values.c \
    differ.c) tests/hostile/fuzz/graph_ops.c

ALL += $(GGML_DIFFER)

$(GGML_DIFFER): PKGS := ggml
$(GGML_DIFFER): EXTRA_LIBS := -lggml-base -lm -lpthread
$(GGML_DIFFER): $(call objs,$(GGML_DIFFER_SRCS) protocol/graph.c)
	$(link)

LLAMA_DIFFER := $(O)/tests/native/differ/llama-differ
ALL += $(LLAMA_DIFFER)

$(LLAMA_DIFFER): PKGS := llama ggml
$(LLAMA_DIFFER): EXTRA_LIBS := -lggml-base -lm -lpthread
$(LLAMA_DIFFER): $(call objs,$(addprefix tests/native/differ/,llama_differ.c llama_steps.c differ.c))
	$(link)

# A short run from seeds that have found something, when there were no other steps; `make fuzz SECONDS=` looks for new ones.
.PHONY: check-differ fuzz-differ
check-differ: all
	tests/native/differ/run.sh --seconds 32 --without bulk --seed 1 --seed 5 --seed 121 --seed 21509666248 $(O)
fuzz-differ: all
	tests/native/differ/run.sh --seconds $(FUZZ_SECONDS) $(O)
	tests/native/differ/run.sh --seconds $$(($(FUZZ_SECONDS) / 4)) --host lavapipe $(O)
