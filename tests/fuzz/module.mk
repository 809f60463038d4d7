# SPDX-License-Identifier: Apache-2.0
#
# Each target is built twice: with a driver that replays the kept corpus, a unit
# test in every MODE; and, with MODE=fuzz CC=clang, as a libFuzzer program:
#
#   make fuzz [SECONDS=60] [JOBS=1]     then tests/differ, also for SECONDS
#
# What it finds goes to build/fuzz/; a finding that is fixed becomes a file of
# tests/fuzz/corpus/NAME/ with a name that says what it was.

comma := ,
FUZZ_TARGETS := messages graph graph_compute worker ring host unix virgl claims config cdi \
                elf oci_state oci_config toml engine
# Both are taken from the command line alone: a shell has a SECONDS of its own.
FUZZ_SECONDS := $(if $(filter command,$(firstword $(origin SECONDS))),$(SECONDS),60)
FUZZ_JOBS := $(if $(filter command,$(firstword $(origin JOBS))),$(JOBS),1)
FUZZ_OUT := build/fuzz
HEADERS += tests/fuzz/fuzz.h tests/fuzz/graph_ops.h tests/fuzz/graph_random.h tests/fuzz/worker_world.h

FUZZ_OBJS_messages := $(call objs,tests/fuzz/messages_fuzz.c protocol/ring.c protocol/messages.c)
FUZZ_OBJS_graph := $(call objs,tests/fuzz/graph_fuzz.c protocol/graph.c $(RULES))
# The worker's own code with the host's CPU backend.
FUZZ_WORKER_OBJS := $(call objs,tests/fuzz/graph_ops.c tests/fuzz/graph_random.c) $(WORKER_OBJS) \
                    $(PROTOCOL_RING_OBJS) $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) \
                    $(PROTOCOL_PROBE_OBJS)
FUZZ_OBJS_graph_compute := $(call objs,tests/fuzz/graph_compute_fuzz.c) $(FUZZ_WORKER_OBJS)
FUZZ_OBJS_worker := $(call objs,tests/fuzz/worker_fuzz.c tests/fuzz/worker_world.c) $(FUZZ_WORKER_OBJS)
# ggml's builders; and its operator new[] is to be ours.
FUZZ_LIBS_graph_compute := -lggml-base -ldl -lm -rdynamic
FUZZ_LIBS_worker := -lggml-base -ldl -lm $(patsubst %,-Wl$(comma)--wrap=%,host_buffer_alloc \
                    host_buffer_free host_stream_optimizes host_graph_optimize \
                    host_graph_compute host_event_new host_event_free host_event_record \
                    host_event_wait host_event_sync poll)
$(call objs,tests/fuzz/graph_ops.c tests/fuzz/graph_random.c tests/fuzz/graph_compute_fuzz.c \
    tests/fuzz/worker_fuzz.c tests/fuzz/worker_world.c): private PKGS := ggml
$(foreach t,graph_compute worker,$(O)/tests/fuzz/$(t)_replay $(O)/tests/fuzz/$(t)_fuzz): \
    private PKGS := json-c libcap libseccomp
FUZZ_OBJS_cdi := $(call objs,tests/fuzz/cdi_fuzz.c protocol/error.c) $(CDI_LIB)
FUZZ_OBJS_elf := $(call objs,tests/fuzz/elf_fuzz.c hook/elf.c hook/ggml.c)
$(O)/tests/fuzz/elf_fuzz.o: private EXTRA_CFLAGS := -D_GNU_SOURCE
FUZZ_OBJS_toml := $(call objs,tests/fuzz/toml_fuzz.c cdi/toml.c protocol/error.c)

# What a container's runtime and engine hand to apir-hook.
FUZZ_OBJS_oci_state := $(call objs,tests/fuzz/oci_state_fuzz.c) $(HOOK_LIB)
FUZZ_OBJS_oci_config := $(call objs,tests/fuzz/oci_config_fuzz.c) $(HOOK_LIB)
# The server's own code, but for the start of a process.
FUZZ_SERVER_OBJS := $(SERVER_OBJS) $(CONFIG_OBJS) $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) \
                    $(call objs,protocol/ring.c)
FUZZ_OBJS_unix := $(call objs,tests/fuzz/unix_fuzz.c) $(FUZZ_SERVER_OBJS)
FUZZ_OBJS_virgl := $(call objs,tests/fuzz/virgl_fuzz.c) $(FUZZ_SERVER_OBJS)
FUZZ_LIBS_unix := -Wl,--wrap=server_child_start
FUZZ_LIBS_virgl := -Wl,--wrap=server_child_start,--wrap=server_child_kill \
                   -Wl,--wrap=server_child_forget,--wrap=server_child_move,--wrap=clock_gettime

FUZZ_OBJS_ring := $(call objs,tests/fuzz/ring_fuzz.c protocol/ring.c)
# The plug-in, linked into the program.
FUZZ_OBJS_host := $(call objs,tests/fuzz/host_fuzz.c cdi/host.c) $(PROTOCOL_FD_OBJS) \
                  $(sort $(CDI_CLIENT_OBJS) $(call objs,$(FRONTEND_SRCS)))
FUZZ_LIBS_host := -lggml-base -ldl $(patsubst %,-Wl$(comma)--wrap=%,mmap munmap connect clock_gettime nanosleep poll \
                    clock_nanosleep syscall apir_log)

FUZZ_OBJS_claims := $(call objs,tests/fuzz/claims_fuzz.c backend/server_claims.c protocol/error.c)
FUZZ_OBJS_config := $(call objs,tests/fuzz/config_fuzz.c) $(CONFIG_OBJS) $(PROTOCOL_PROG_OBJS)
FUZZ_OBJS_engine := $(call objs,tests/fuzz/engine_fuzz.c protocol/error.c) $(CDI_LIB) $(CDI_ENGINE_LIB)

$(O)/tests/fuzz/host_fuzz.o $(O)/tests/fuzz/host_fuzz $(O)/tests/fuzz/host_replay: \
    private PKGS := libdrm ggml
$(foreach t,cdi config engine oci_state oci_config unix virgl,$(O)/tests/fuzz/$(t)_fuzz.o \
    $(O)/tests/fuzz/$(t)_fuzz $(O)/tests/fuzz/$(t)_replay): private PKGS := json-c

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

.PHONY: fuzz fuzz-seeds fuzz-merge fuzz-bundle fuzz-coverage
fuzz-seeds: $(O)/tests/fuzz/seeds
	@mkdir -p tests/fuzz/corpus
	$< tests/fuzz/corpus

ifeq ($(MODE),fuzz)
FUZZERS := $(FUZZ_TARGETS:%=$(O)/tests/fuzz/%_fuzz)
ALL += $(FUZZERS)
fuzz: $(FUZZERS)
	@tests/fuzz/run.sh $(O)/tests/fuzz tests/fuzz/corpus $(FUZZ_OUT) $(FUZZ_SECONDS) \
	    $(FUZZ_JOBS) $(FUZZ_TARGETS)
	@$(MAKE) --no-print-directory MODE=release CC=gcc fuzz-differ SECONDS=$(FUZZ_SECONDS)
# Of what has been found, as little as has all its edges goes into the kept corpus.
fuzz-merge: $(FUZZERS)
	@for t in $(FUZZ_TARGETS); do \
	    if [ -d $(FUZZ_OUT)/found/$$t ]; then \
	        $(O)/tests/fuzz/$${t}_fuzz -set_cover_merge=1 -use_counters=0 tests/fuzz/corpus/$$t \
	            $(FUZZ_OUT)/found/$$t >$(FUZZ_OUT)/log/$$t.merge 2>&1; \
	        echo "$$t: $$(find tests/fuzz/corpus/$$t -type f | wc -l) inputs"; \
	    fi; \
	done
# For a machine with more cores and nothing installed.
fuzz-bundle: $(FUZZERS)
	@tests/fuzz/bundle.sh $(O) build/bundle/apir-fuzz.tar.gz $(FUZZ_TARGETS)
else
fuzz fuzz-merge fuzz-bundle:
	@$(MAKE) --no-print-directory MODE=fuzz CC=clang $@
endif

# Lines and branches of what parses, over the kept corpus and what has been found.
ifeq ($(MODE),coverage)
fuzz-coverage: $(FUZZ_REPLAYS)
	@tests/fuzz/coverage.sh $(O) tests/fuzz/corpus $(FUZZ_OUT) $(FUZZ_TARGETS)
else
fuzz-coverage:
	@$(MAKE) --no-print-directory MODE=coverage CC=clang $@
endif
