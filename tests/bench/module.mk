# SPDX-License-Identifier: Apache-2.0
#
# Measurements. Nothing here runs in `make check`: figures want a quiet machine.

BENCH_STAMP := $(O)/tests/bench/libggml-stamp.so
# The same file for the worker, in a directory of its own (so the worker's ggml loads nothing
# else) under a name that ggml's loader looks for and no Linux machine has.
BENCH_STAMP_HOST := $(O)/tests/bench/backends/libggml-metal.so
BENCH_OVERHEAD := $(O)/tests/bench/overhead

ALL += $(BENCH_STAMP_HOST) $(BENCH_OVERHEAD)
HEADERS += $(wildcard tests/bench/*.h)

$(BENCH_STAMP): $(call objs,tests/bench/stamp_backend.c) $(PROTOCOL_PROBE_OBJS)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS) -lggml-base

$(BENCH_STAMP_HOST): $(BENCH_STAMP)
	@mkdir -p $(@D)
	@cp $< $@

$(BENCH_OVERHEAD): PKGS := ggml
$(BENCH_OVERHEAD): EXTRA_LIBS := -lggml-base -lm -lpthread
$(BENCH_OVERHEAD): $(call objs,tests/bench/overhead.c tests/bench/floor.c tests/bench/model.c \
                     tests/bench/traffic.c) \
                   $(PROTOCOL_RING_OBJS) $(PROTOCOL_PROBE_OBJS)
	$(link)

.PHONY: bench-overhead
bench-overhead: $(BENCH_STAMP_HOST) $(BENCH_OVERHEAD) $(RENDER_SERVER) $(WORKER) $(PLUGIN)
	@tests/bench/overhead.sh $(O)
