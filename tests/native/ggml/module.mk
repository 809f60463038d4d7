# SPDX-License-Identifier: Apache-2.0
#
# make check-ggml [DEVICE=lavapipe] [GGML_ARGS="..."]: guests of every layout of ggml on hosts of every layout;
# run.sh says more.

GGML_GUEST := $(O)/tests/native/ggml/guest
ALL += $(GGML_GUEST)
$(GGML_GUEST): PKGS := llama ggml
$(GGML_GUEST): EXTRA_LIBS := -lggml-base -lm
$(GGML_GUEST): $(call objs,tests/native/ggml/guest.c $(addprefix tests/native/options/,run.c record.c))
	$(link)

DEVICE := CPU
.PHONY: check-ggml
check-ggml: all
	tests/native/ggml/run.sh --device $(DEVICE) $(GGML_ARGS) $(O)

# Single operations with whatever ggml is found at run time. Builders that it lacks are ours, found last:
# they say so, and the operation is passed over.
GGML_OPS := $(O)/tests/native/ggml/ops
GGML_OPS_OBJS := $(call objs,tests/native/ggml/ops.c tests/native/differ/differ.c tests/hostile/fuzz/graph_ops.c protocol/graph.c)
GGML_MISSING := $(O)/tests/native/ggml/libggml-missing.so
ALL += $(GGML_OPS)
$(GGML_MISSING): $(GGML_OPS_OBJS)
	@mkdir -p $(@D)
	$(call SAY,LINK)nm --undefined-only $^ | \
	    awk '$$2 ~ /^ggml_/ && !had[$$2]++ { print "void " $$2 "(void) { ops_missing(); }" } \
	         BEGIN { print "void ops_missing(void);" }' | \
	    $(CC) -x c -shared -fPIC -fno-builtin -w -Wl,-soname,libggml-missing.so -o $@ -
$(GGML_OPS): PKGS := ggml
$(GGML_OPS): EXTRA_LIBS := -lggml-base -L$(O)/tests/native/ggml -Wl,--no-as-needed -lggml-missing \
    -Wl,-rpath,'$$ORIGIN' -rdynamic -lm -lpthread
$(GGML_OPS): $(GGML_OPS_OBJS) | $(GGML_MISSING)
	$(link)
