# SPDX-License-Identifier: Apache-2.0
#
# Each target is built twice: with a driver that replays the kept corpus, a unit
# test in every MODE; and, with MODE=fuzz CC=clang, as a libFuzzer program:
#
#   make fuzz MODE=fuzz CC=clang [FUZZ_SECONDS=60]
#
# What it finds goes to build/, under the fuzzer's name; a finding that is fixed
# becomes a file of tests/fuzz/corpus/NAME/ with a name that says what it was.

FUZZ_TARGETS := messages graph graph_compute cdi elf oci_state oci_config unix toml
FUZZ_SECONDS ?= 60
HEADERS += tests/fuzz/fuzz.h tests/fuzz/graph_ops.h

FUZZ_OBJS_messages := $(call objs,tests/fuzz/messages_fuzz.c protocol/ring.c protocol/messages.c)
FUZZ_OBJS_graph := $(call objs,tests/fuzz/graph_fuzz.c protocol/graph.c $(RULES))
FUZZ_OBJS_graph_compute := $(call objs,tests/fuzz/graph_compute_fuzz.c tests/fuzz/graph_ops.c) \
                           $(WORKER_OBJS) $(PROTOCOL_RING_OBJS) $(PROTOCOL_PROG_OBJS) \
                           $(PROTOCOL_FD_OBJS) $(PROTOCOL_PROBE_OBJS)
FUZZ_LIBS_graph_compute := -lggml-base -ldl -lm -rdynamic
# ggml's builders; and its operator new[] is to be ours.
$(O)/tests/fuzz/graph_ops.o $(O)/tests/fuzz/graph_compute_fuzz.o: private PKGS := ggml
$(O)/tests/fuzz/graph_compute_replay $(O)/tests/fuzz/graph_compute_fuzz: private PKGS := json-c libcap libseccomp
FUZZ_OBJS_cdi := $(call objs,tests/fuzz/cdi_fuzz.c protocol/error.c) $(CDI_LIB)
$(O)/tests/fuzz/cdi_fuzz.o $(O)/tests/fuzz/cdi_replay $(O)/tests/fuzz/cdi_fuzz: private PKGS := json-c
FUZZ_OBJS_elf := $(call objs,tests/fuzz/elf_fuzz.c hook/elf.c hook/ggml.c)
$(O)/tests/fuzz/elf_fuzz.o: private EXTRA_CFLAGS := -D_GNU_SOURCE
FUZZ_OBJS_toml := $(call objs,tests/fuzz/toml_fuzz.c cdi/toml.c protocol/error.c)

# What a container's runtime and engine hand to apir-hook.
FUZZ_OBJS_oci_state := $(call objs,tests/fuzz/oci_state_fuzz.c) $(HOOK_LIB)
FUZZ_OBJS_oci_config := $(call objs,tests/fuzz/oci_config_fuzz.c) $(HOOK_LIB)
$(foreach t,oci_state oci_config,$(O)/tests/fuzz/$(t)_fuzz.o $(O)/tests/fuzz/$(t)_fuzz \
    $(O)/tests/fuzz/$(t)_replay): private PKGS := json-c

# The server's own code, but for the start of a process.
FUZZ_OBJS_unix := $(call objs,tests/fuzz/unix_fuzz.c) $(SERVER_OBJS) $(CONFIG_OBJS) \
                  $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) $(call objs,protocol/ring.c)
$(O)/tests/fuzz/unix_replay $(O)/tests/fuzz/unix_fuzz: private PKGS := json-c
FUZZ_LIBS_unix := -Wl,--wrap=server_child_start

FUZZ_REPLAYS := $(FUZZ_TARGETS:%=$(O)/tests/fuzz/%_replay)
UNIT_TESTS += $(FUZZ_REPLAYS)
define fuzz_target
$(O)/tests/fuzz/$(1)_replay: $(call objs,tests/fuzz/replay.c) $(FUZZ_OBJS_$(1))
	$$(link)
$(O)/tests/fuzz/$(1)_replay: private EXTRA_LIBS := $$(FUZZ_LIBS_$(1))
$(O)/tests/fuzz/$(1)_fuzz: private EXTRA_LIBS := -fsanitize=fuzzer $$(FUZZ_LIBS_$(1))
$(O)/tests/fuzz/$(1)_fuzz: $(FUZZ_OBJS_$(1))
	$$(link)
endef
$(foreach t,$(FUZZ_TARGETS),$(eval $(call fuzz_target,$(t))))

$(O)/tests/fuzz/seeds: $(call objs,tests/fuzz/seeds.c protocol/messages.c protocol/graph.c)
	$(link)

.PHONY: fuzz fuzz-seeds
fuzz-seeds: $(O)/tests/fuzz/seeds
	@mkdir -p tests/fuzz/corpus
	$< tests/fuzz/corpus

ifeq ($(MODE),fuzz)
FUZZERS := $(FUZZ_TARGETS:%=$(O)/tests/fuzz/%_fuzz)
ALL += $(FUZZERS)
# New inputs are kept aside, so that the corpus in the repository stays small.
fuzz: $(FUZZERS)
	@for t in $(FUZZ_TARGETS); do \
	    mkdir -p $(O)/tests/fuzz/found/$$t; \
	    echo "fuzz: $$t for $(FUZZ_SECONDS) s"; \
	    $(O)/tests/fuzz/$${t}_fuzz -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	        -verbosity=0 -artifact_prefix=$(O)/tests/fuzz/$$t- \
	        $(O)/tests/fuzz/found/$$t tests/fuzz/corpus/$$t 2>&1 | \
	        sed '/^#* Recommended dictionary/,/^#* End of/d'; \
	done
else
fuzz:
	@$(MAKE) --no-print-directory MODE=fuzz CC=clang fuzz
endif
