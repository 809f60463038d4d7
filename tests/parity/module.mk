# SPDX-License-Identifier: Apache-2.0
#
# Parity: the same model on the same host backend, once native and once remoted, must give the
# same logits bit for bit.

PARITY_LOGITS := $(O)/tests/parity/logits
PARITY_COMPARE := $(O)/tests/parity/compare

ALL += $(PARITY_LOGITS) $(PARITY_COMPARE)

$(PARITY_LOGITS): PKGS := llama ggml
$(PARITY_LOGITS): EXTRA_LIBS := -lggml-base -lm
$(PARITY_LOGITS): $(call objs,tests/parity/logits.c $(addprefix tests/options/,run.c record.c))
	$(link)

$(PARITY_COMPARE): EXTRA_LIBS := -lm
$(PARITY_COMPARE): $(call objs,$(addprefix tests/options/,compare.c record.c))
	$(link)

.PHONY: check-parity check-parity-native
check-parity: all
	tests/options/run.sh --parity $(O)
# Without a plug-in: the native run against itself, to test the tools.
check-parity-native: $(GGUF_WRITE) $(PARITY_LOGITS) $(OPTIONS_COMPARE)
	tests/options/run.sh --parity --native $(O)
