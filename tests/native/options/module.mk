# SPDX-License-Identifier: Apache-2.0
#
# Every option of llama.cpp that moves work between devices: the same results natively and remoted.

OPTIONS_COMPARE := $(O)/tests/native/options/options-compare
OPTIONS_GROONGA := $(O)/tests/native/options/groonga.so
OPTIONS_LOGITS := $(O)/tests/native/options/logits

ALL += $(OPTIONS_COMPARE) $(OPTIONS_GROONGA) $(OPTIONS_LOGITS)

$(OPTIONS_COMPARE): EXTRA_LIBS := -lm
$(OPTIONS_COMPARE): $(call objs,tests/native/options/compare.c tests/native/options/record.c)
	$(link)

$(OPTIONS_LOGITS): PKGS := llama ggml
$(OPTIONS_LOGITS): EXTRA_LIBS := -lggml-base -lm
$(OPTIONS_LOGITS): $(call objs,$(addprefix tests/native/options/,logits.c run.c record.c))
	$(link)

# Headers are the same for all architectures; the libraries of another one are those of its VM.
ifneq ($(CROSS),)
$(OPTIONS_LOGITS): PKGS :=
$(OPTIONS_LOGITS): EXTRA_LIBS := $(addprefix build/sysroot-$(CROSS)/usr/lib/$(CROSS)-linux-gnu/,\
    libllama.so.0 libggml.so.0 libggml-base.so.0) -Wl,--allow-shlib-undefined -lm
endif

# Goes into a program that is no test of ours.
$(OPTIONS_GROONGA): %.so: %.o
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(filter-out -fsanitize=%,$(ALL_CFLAGS)) -shared -o $@ $<

# ROW="NAME..." runs these rows alone.
.PHONY: check-options check-options-part check-options-arm64
check-options: all
	ROW='$(ROW)' tests/native/options/run.sh $(O)
# Some of them.
check-options-part: all
	ROW='$(ROW)' tests/native/options/run.sh --part $(O)
# Logits, bit for bit; without a plug-in, the native run against itself, to test the tools.
.PHONY: check-parity check-parity-native
check-parity: all
	tests/native/options/run.sh --parity $(O)
check-parity-native: $(GGUF_WRITE) $(OPTIONS_LOGITS) $(OPTIONS_COMPARE)
	tests/native/options/run.sh --parity --native $(O)
# The same as arm64 programs under qemu-user, on this machine's CPU.
check-options-arm64: all
	tests/vm/aarch64.sh
	@$(MAKE) --no-print-directory ARCH=aarch64 CC=gcc shipped build/release-aarch64-linux-gnu-gcc/tests/native/options/logits
	ROW='$(ROW)' tests/native/options/run.sh --guest aarch64 --jobs $(JOBS) $(O)
