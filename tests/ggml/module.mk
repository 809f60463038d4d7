# SPDX-License-Identifier: Apache-2.0
#
# make check-ggml: guests of every layout of ggml on hosts of every layout; run.sh says more.

GGML_GUEST := $(O)/tests/ggml/guest
ALL += $(GGML_GUEST)
$(GGML_GUEST): PKGS := llama ggml
$(GGML_GUEST): EXTRA_LIBS := -lggml-base -lm
$(GGML_GUEST): $(call objs,tests/ggml/guest.c $(addprefix tests/options/,run.c record.c))
	$(link)

.PHONY: check-ggml
check-ggml: all
	tests/ggml/run.sh $(O)
