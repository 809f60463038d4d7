# SPDX-License-Identifier: Apache-2.0
#
# Every attack that we know of, as bytes from a guest without manners to the built server and worker
# below a stock virgl_test_server, all with ASan and UBSan; and from images to the hook (hook.sh).


ATTACKS := $(O)/tests/hostile/attacks/apir-attacks
LOUD_WORKER := $(O)/tests/hostile/attacks/loud-worker
ATTACKS_SRCS := $(filter-out %/loud_worker.c,$(wildcard tests/hostile/attacks/*.c))
ALL += $(ATTACKS) $(LOUD_WORKER)
$(ATTACKS): private EXTRA_LIBS := -lpthread
$(ATTACKS): private PKGS := $(TEST_PKGS)
$(ATTACKS): $(call objs,$(ATTACKS_SRCS)) $(TEST_LIB)
	$(link)
$(LOUD_WORKER): $(call objs,tests/hostile/attacks/loud_worker.c)
	$(link)

# All rows, or those of ROWS="..."; MUTATE=1: what stops each is taken out, and the row must notice.
.PHONY: check-attacks attacks-hook
# The hook as it is installed: static, which it cannot be with sanitizers.
attacks-hook: $(O)/hook/apir-hook $(O)/tests/system/hook/race $(O)/tests/system/hook/trap.so $(O)/tests/system/hook/stall \
              $(O)/tests/lib/models/gguf-write $(O)/tests/system/apir-exercise $(O)/cdi/apir \
              $(O)/frontend/libggml-apir.so $(O)/tests/system/stay
ATTACKS_STATIC := build/release-gcc
ifeq ($(MODE),asan)
check-attacks: $(ATTACKS) $(LOUD_WORKER) $(O)/backend/apir-render-server $(O)/backend/apir-worker attacks-hook
	@$(MAKE) --no-print-directory MODE=release CC=gcc attacks-hook
ifeq ($(MUTATE),1)
	@ATTACKS_CC='$(CC) $(ALL_CFLAGS)' ATTACKS_LD='$(ALL_LDFLAGS)' \
	    WORKER_OBJS='$(WORKER_PARTS)' WORKER_LIBS="$$(pkg-config --libs json-c libcap libseccomp) -ldl" \
	    SERVER_OBJS='$(SERVER_PARTS)' SERVER_LIBS="$$(pkg-config --libs json-c)" \
	    HOOK_OBJS='$(HOOK_PARTS)' HOOK_LIBS="$$(pkg-config --libs json-c libcap)" \
	    HOOK_FLAGS='$(HOOK_FLAGS)' SERVER_FLAGS='$(SERVER_FLAGS)' \
	    STATIC_CC='gcc $(BASE_CFLAGS) $(CFLAGS_release)' \
	    STATIC_LD='$(filter-out $(LDFLAGS_$(MODE)),$(ALL_LDFLAGS))' \
	    tests/hostile/attacks/mutate.sh $(O) $(ATTACKS_STATIC) $(ROWS)
else
	@tests/hostile/attacks/run.sh $(O) $(ATTACKS_STATIC) $(ROWS)
endif
else
check-attacks:
	@$(MAKE) --no-print-directory MODE=asan CC=clang check-attacks
endif
