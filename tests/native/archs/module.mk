# SPDX-License-Identifier: Apache-2.0
#
# llama.cpp's own tests of a backend on APIR0, compared with the host's own device.

ARCHS_SLOTS := $(O)/tests/native/archs/slots

ARCHS_CLEAR := $(O)/tests/native/archs/clear-buffers.so

ALL += $(ARCHS_SLOTS) $(ARCHS_CLEAR)

$(ARCHS_SLOTS): PKGS := llama ggml
$(ARCHS_SLOTS): EXTRA_LIBS := -lggml-base -lm
$(ARCHS_SLOTS): $(call objs,tests/native/archs/slots.c $(addprefix tests/native/options/,run.c record.c))
	$(link)

# For programs of others, so never with a sanitizer.
$(ARCHS_CLEAR): tests/native/archs/clear_buffers.c Makefile
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(BASE_CFLAGS) -shared -o $@ $<

# All of it, over the CPU and lavapipe; a part for `make check`; the suites alone.
.PHONY: check-archs check-archs-part check-archs-arm64 check-suites
check-archs: all
	tests/native/archs/check.sh $(O)
check-archs-part: all
	tests/native/archs/check.sh --part $(O)
check-suites: all
	tests/native/archs/suites.sh $(O)
# The same test as an arm64 program under qemu-user, on this machine's CPU.
check-archs-arm64: all
	tests/vm/aarch64.sh
	@$(MAKE) --no-print-directory ARCH=aarch64 CC=gcc
	tests/native/archs/run.sh --guest aarch64 $(O)
