# SPDX-License-Identifier: Apache-2.0
#
# The system tests over vtest: real llama.cpp, real ggml, real virglrenderer, no VM.

APIR_EXERCISE := $(O)/tests/system/apir-exercise
MUSL_LOAD := $(O)/tests/system/musl-load
STREAM_PROXY := $(O)/tests/system/stream-proxy
STAY := $(O)/tests/system/stay

# A host's ggml with a device that does not compute, under a name that ggml's loader looks for.
STAND_IN := $(O)/tests/system/backends/libggml-metal.so

ALL += $(APIR_EXERCISE) $(STREAM_PROXY) $(STAY) $(STAND_IN)

$(APIR_EXERCISE): PKGS := ggml
# Its syscall() stands in front of the C library's, for the plug-in too.
$(APIR_EXERCISE): EXTRA_LIBS := -lggml-base -lm -lpthread -Wl,--export-dynamic-symbol=syscall
$(APIR_EXERCISE): $(call objs,tests/system/apir_exercise.c tests/system/apir_exercise_parts.c \
                    tests/system/apir_exercise_life.c \
                    tests/system/apir_exercise_transfers.c tests/system/apir_exercise_memory.c \
                    tests/system/apir_exercise_events.c tests/system/apir_exercise_limits.c \
                    tests/system/apir_exercise_rows.c tests/system/apir_exercise_awake.c)
	$(link)

$(STREAM_PROXY): EXTRA_LIBS := -lpthread
$(STREAM_PROXY): $(call objs,tests/system/stream_proxy.c) $(TEST_LIB)
	$(link)

$(STAY): $(call objs,tests/system/stay.c)
	$(link)

$(STAND_IN): $(call objs,tests/system/stand_in.c protocol/ggml_probe.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS) -lggml-base

# Another C library, so neither the compiler's wrapper nor the sanitizers of this mode fit.
$(MUSL_LOAD): tests/system/musl_load.c
	@mkdir -p $(@D)
	musl-gcc -std=gnu17 -Wall -Wextra -Werror -O1 -o $@ $<

# Some tests want server and worker with ASan and UBSan (memory.bats).
.PHONY: check-system check-system-part sanitized-host
check-system: all $(MUSL_LOAD)
	@$(MAKE) --no-print-directory MODE=asan CC=clang sanitized-host
	@tests/system/run.sh $(O)
# Without the tests that are tagged as long.
check-system-part: all $(MUSL_LOAD)
	@$(MAKE) --no-print-directory MODE=asan CC=clang sanitized-host
	@tests/system/run.sh --part $(O)
sanitized-host: $(RENDER_SERVER) $(WORKER)
