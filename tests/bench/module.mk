# SPDX-License-Identifier: Apache-2.0
#
# Measurements. Nothing here runs in `make check`: figures want a quiet machine.

BENCH_STAMP := $(O)/tests/bench/libggml-stamp.so
# The same file for the worker, in a directory of its own (so the worker's ggml loads nothing
# else) under a name that ggml's loader looks for and no Linux machine has.
BENCH_STAMP_HOST := $(O)/tests/bench/backends/libggml-metal.so

ALL += $(BENCH_STAMP_HOST)

$(BENCH_STAMP): $(call objs,tests/bench/stamp_backend.c) $(call objs,protocol/ggml_probe.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS) -lggml-base

$(BENCH_STAMP_HOST): $(BENCH_STAMP)
	@mkdir -p $(@D)
	@cp $< $@

APIR_BENCH := $(O)/tests/bench/apir-bench
ALL += $(APIR_BENCH)

$(APIR_BENCH): PKGS := ggml
$(APIR_BENCH): EXTRA_LIBS := -lggml-base -lm
$(APIR_BENCH): $(call objs,$(addprefix tests/bench/,apir_bench.c link.c overhead.c model.c \
                 traffic.c stats.c)) $(TEST_LIB)
	$(link)

# By path what files read after this one name: prerequisites are expanded at once.
BENCH_ALL := $(APIR_BENCH) $(RENDER_SERVER) $(WORKER) $(PLUGIN)
.PHONY: bench bench-all bench-overhead bench-link bench-shares bench-vm
bench: $(BENCH_STAMP_HOST) $(O)/tests/lib/models/gguf-write $(O)/cdi/apir $(BENCH_ALL)
	@BENCH_AGAINST='$(BENCH_AGAINST)' tests/bench/bench.sh $(O) $(BENCH_ARGS)
bench-all: $(BENCH_STAMP_HOST) $(O)/tests/lib/models/gguf-write $(O)/cdi/apir $(BENCH_ALL)
	@BENCH_AGAINST='$(BENCH_AGAINST)' tests/bench/bench.sh $(O) --all $(BENCH_ARGS)
bench-overhead: $(BENCH_STAMP_HOST) $(BENCH_ALL)
	@BENCH_AGAINST='$(BENCH_AGAINST)' tests/bench/overhead.sh $(O)
# BENCH_ARGS: the program's, or the script's, own options.
bench-link: $(BENCH_ALL)
	@tests/bench/link.sh $(O) $(BENCH_ARGS)
bench-shares: $(O)/tests/lib/models/gguf-write $(O)/cdi/apir $(BENCH_ALL)
	@tests/bench/shares.sh $(O)
bench-vm: all
	@VM_IMAGES=0 tests/vm/run.sh --prepare
	@rm -f $(O)/tests/bench/vm.samples
	@tests/bench/vm.sh $(O) $(or $(BENCH_SAMPLES),$(O)/tests/bench/vm.samples) $(BENCH_ARGS)

# ---- counts of what the GPU is asked for -------------------------------------------

BENCH_COUNT := $(O)/tests/bench/libapir-count.so
# The layer's manifest, which the Vulkan loader looks for; the path in it is beside itself.
BENCH_COUNT_MANIFEST := $(O)/tests/bench/apir-count.json

ALL += $(BENCH_COUNT) $(BENCH_COUNT_MANIFEST)

$(BENCH_COUNT): $(call objs,tests/bench/count_layer.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS)

$(BENCH_COUNT_MANIFEST): tests/bench/count_layer.json
	@mkdir -p $(@D)
	@cp $< $@

.PHONY: check-dispatch check-dispatch-part
check-dispatch check-dispatch-part: $(BENCH_COUNT) $(BENCH_COUNT_MANIFEST) $(O)/tests/lib/models/gguf-write \
                $(RENDER_SERVER) $(WORKER) $(PLUGIN)
	@tests/bench/dispatch.sh $(if $(filter %-part,$@),--part) $(O)
