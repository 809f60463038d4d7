# SPDX-License-Identifier: Apache-2.0
#
# llama.cpp's own tests of a backend on APIR0, compared with the host's own device.

ARCHS_SLOTS := $(O)/tests/archs/slots

ALL += $(ARCHS_SLOTS)

$(ARCHS_SLOTS): PKGS := llama ggml
$(ARCHS_SLOTS): EXTRA_LIBS := -lggml-base -lm
$(ARCHS_SLOTS): $(call objs,tests/archs/slots.c $(addprefix tests/options/,run.c record.c))
	$(link)

# All of it, over the CPU and lavapipe; a part for `make check`; the suites alone.
.PHONY: check-archs check-archs-part check-suites
check-archs: all
	tests/archs/check.sh $(O)
check-archs-part: all
	tests/archs/check.sh --part $(O)
check-suites: all
	tests/archs/suites.sh $(O)
