# SPDX-License-Identifier: Apache-2.0
#
# Every option of llama.cpp that moves work between devices: the same results natively and remoted.

OPTIONS_LLAMA := $(O)/tests/options/llama-options
OPTIONS_COMPARE := $(O)/tests/options/options-compare
OPTIONS_SOURCES := $(filter-out tests/options/compare.c, $(wildcard tests/options/*.c))

ALL += $(OPTIONS_LLAMA) $(OPTIONS_COMPARE)

$(OPTIONS_LLAMA): PKGS := llama ggml
$(OPTIONS_LLAMA): EXTRA_LIBS := -lggml-base -lm -lpthread
$(OPTIONS_LLAMA): $(call objs,$(OPTIONS_SOURCES))
	$(link)

$(OPTIONS_COMPARE): EXTRA_LIBS := -lm
$(OPTIONS_COMPARE): $(call objs,tests/options/compare.c tests/options/record.c)
	$(link)

# ROW="NAME..." runs these rows alone.
.PHONY: check-options check-options-part
check-options: all
	ROW='$(ROW)' tests/options/run.sh $(O)
# Some of them.
check-options-part: all
	ROW='$(ROW)' tests/options/run.sh --part $(O)
