# SPDX-License-Identifier: Apache-2.0
#
# Each target is built twice: with a driver that replays the kept corpus, a unit
# test in every MODE; and, with MODE=fuzz CC=clang, as a libFuzzer program:
#
#   make fuzz [SECONDS=60] [JOBS=1]     then tests/native/differ, also for SECONDS
#
# What it finds goes to build/fuzz/; a finding that is fixed becomes a file of
# tests/hostile/fuzz/corpus/NAME/ with a name that says what it was. The inputs that only add coverage
# have no such names and lie together in tests/hostile/fuzz/corpus/NAME.tar.gz. Programs read both from
# one folder of the build, which is made of them anew whenever one of them changes.

comma := ,
FUZZ_TARGETS := messages graph graph_compute worker host unix virgl claims config cdi elf \
                oci_state oci_config engine
# Both are taken from the command line alone: a shell has a SECONDS of its own.
FUZZ_SECONDS := $(if $(filter command,$(firstword $(origin SECONDS))),$(SECONDS),60)
FUZZ_JOBS := $(if $(filter command,$(firstword $(origin JOBS))),$(JOBS),1)
FUZZ_OUT := build/fuzz
FUZZ_CORPUS := $(O)/tests/hostile/fuzz/corpus

$(FUZZ_CORPUS): $(wildcard tests/hostile/fuzz/corpus tests/hostile/fuzz/corpus/* tests/hostile/fuzz/corpus/*/*) backend/config/settings.h
	$(call SAY,CORPUS)tests/hostile/fuzz/corpus.sh unpack $@

# What each has beside its own source and what it takes of the product.
FUZZ_OBJS_graph_compute := $(call objs,$(addprefix tests/hostile/fuzz/,cage.c graph_ops.c graph_random.c))
FUZZ_OBJS_worker := $(FUZZ_OBJS_graph_compute) $(call objs,tests/hostile/fuzz/worker_world.c)
# ggml's builders; and its operator new[] is to be ours.
FUZZ_LIBS_graph_compute := -lggml-base -ldl -lm -rdynamic
FUZZ_LIBS_worker := -lggml-base -ldl -lm $(patsubst %,-Wl$(comma)--wrap=%,host_buffer_alloc \
                    host_buffer_free host_stream_optimizes host_graph_optimize \
                    host_graph_compute host_event_new host_event_free host_event_record \
                    host_event_wait host_event_sync poll)
# The start of a process is none here.
FUZZ_LIBS_unix := -Wl,--wrap=server_child_start,--wrap=server_free_later
FUZZ_LIBS_virgl := -Wl,--wrap=server_child_start,--wrap=server_free_later,--wrap=server_child_kill \
                   -Wl,--wrap=server_child_forget,--wrap=server_child_move,--wrap=clock_gettime
# The plug-in, linked into the program.
FUZZ_LIBS_host := -lggml-base -ldl $(patsubst %,-Wl$(comma)--wrap=%,mmap munmap connect clock_gettime nanosleep poll \
                    clock_nanosleep syscall apir_log)

$(call objs,$(addprefix tests/hostile/fuzz/,cage.c graph_ops.c graph_random.c graph_compute_fuzz.c \
    worker_fuzz.c worker_world.c host_fuzz.c)): private PKGS := ggml
$(call objs,$(addprefix tests/hostile/fuzz/,cdi_fuzz.c config_fuzz.c engine_fuzz.c oci_state_fuzz.c \
    oci_config_fuzz.c unix_fuzz.c virgl_fuzz.c)): private PKGS := json-c

$(O)/tests/hostile/fuzz/replay.o: private EXTRA_CFLAGS := -DFUZZ_CORPUS='"$(FUZZ_CORPUS)"'
FUZZ_REPLAYS := $(FUZZ_TARGETS:%=$(O)/tests/hostile/fuzz/%_replay)
$(FUZZ_REPLAYS): | $(FUZZ_CORPUS)
UNIT_TESTS += $(FUZZ_REPLAYS)
define fuzz_target
$(O)/tests/hostile/fuzz/$(1)_replay: $(call objs,tests/hostile/fuzz/replay.c)
$(O)/tests/hostile/fuzz/$(1)_replay: private EXTRA_LIBS := $$(FUZZ_LIBS_$(1))
$(O)/tests/hostile/fuzz/$(1)_fuzz: private EXTRA_LIBS := -fsanitize=fuzzer $$(FUZZ_LIBS_$(1))
$(O)/tests/hostile/fuzz/$(1)_replay $(O)/tests/hostile/fuzz/$(1)_fuzz: private PKGS := $(TEST_PKGS)
$(O)/tests/hostile/fuzz/$(1)_replay $(O)/tests/hostile/fuzz/$(1)_fuzz: $(O)/tests/hostile/fuzz/$(1)_fuzz.o \
    $(FUZZ_OBJS_$(1)) $(TEST_LIB)
	$$(link)
endef
$(foreach t,$(FUZZ_TARGETS),$(eval $(call fuzz_target,$(t))))

.PHONY: fuzz fuzz-merge fuzz-bundle fuzz-coverage
ifeq ($(MODE),fuzz)
FUZZERS := $(FUZZ_TARGETS:%=$(O)/tests/hostile/fuzz/%_fuzz)
ALL += $(FUZZERS)
fuzz: $(FUZZERS) $(FUZZ_CORPUS)
	@tests/hostile/fuzz/run.sh $(O)/tests/hostile/fuzz $(FUZZ_CORPUS) $(FUZZ_OUT) $(FUZZ_SECONDS) \
	    $(FUZZ_JOBS) $(FUZZ_TARGETS)
	@$(MAKE) --no-print-directory MODE=release CC=gcc fuzz-differ SECONDS=$(FUZZ_SECONDS)
# Of what has been found, as little as has all its edges goes into the kept corpus.
fuzz-merge: $(FUZZERS) $(FUZZ_CORPUS)
	@for t in $(FUZZ_TARGETS); do \
	    if [ -d $(FUZZ_OUT)/found/$$t ]; then \
	        $(O)/tests/hostile/fuzz/$${t}_fuzz -set_cover_merge=1 -use_counters=0 $(FUZZ_CORPUS)/$$t \
	            $(FUZZ_OUT)/found/$$t >$(FUZZ_OUT)/log/$$t.merge 2>&1; \
	        tests/hostile/fuzz/corpus.sh pack $(FUZZ_CORPUS) $$t; \
	    fi; \
	done
# For a machine with more cores and nothing installed.
fuzz-bundle: $(FUZZERS) $(FUZZ_CORPUS)
	@tests/hostile/fuzz/bundle.sh $(O) $(FUZZ_CORPUS) build/bundle/apir-fuzz.tar.gz $(FUZZ_TARGETS)
else
fuzz fuzz-merge fuzz-bundle:
	@$(MAKE) --no-print-directory MODE=fuzz CC=clang $@
endif

# Lines and branches of what parses, over the kept corpus and what has been found.
ifeq ($(MODE),coverage)
fuzz-coverage: $(FUZZ_REPLAYS)
	@tests/hostile/fuzz/coverage.sh $(O) $(FUZZ_CORPUS) $(FUZZ_OUT) $(FUZZ_TARGETS)
else
fuzz-coverage:
	@$(MAKE) --no-print-directory MODE=coverage CC=clang $@
endif
