# SPDX-License-Identifier: Apache-2.0
#
# A backend that tries to get out of the worker, and a launcher for kernels that lack
# something. tests/system/sandbox.bats uses both.

# In a directory of its own and under a name that ggml's loader looks for, as the bench's.
ESCAPE := $(O)/tests/hostile/sandbox/backends/libggml-metal.so
WITHOUT := $(O)/tests/hostile/sandbox/without

ALL += $(ESCAPE) $(WITHOUT)

$(O)/tests/hostile/sandbox/escape_backend.o: EXTRA_CFLAGS := -DSTAMP_HOOK=escape_run
$(O)/tests/hostile/sandbox/escape_backend.o: tests/bench/stamp_backend.c
	@mkdir -p $(@D)
	$(call SAY,CC)$(CC) $(ALL_CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

$(ESCAPE): $(O)/tests/hostile/sandbox/escape_backend.o $(call objs,tests/hostile/sandbox/escape.c) $(call objs,protocol/ggml_probe.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS) -lggml-base

$(WITHOUT): PKGS := libseccomp
$(WITHOUT): $(call objs,tests/hostile/sandbox/without.c)
	$(link)

# Each rule taken out, one after the other: about five minutes.
.PHONY: check-sandbox-mutants
check-sandbox-mutants: all
	@tests/hostile/sandbox/mutate.sh $(O) $(WORKER_PARTS)
