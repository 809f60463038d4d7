# SPDX-License-Identifier: Apache-2.0
#
# make check-engines [ROW=name]: containers of every engine in a VM; run.sh says more.

ENGINES_LIBS := $(patsubst %,$(O)/tests/vm/engines/%.so,trap abort)
ALL += $(ENGINES_LIBS)

# What images of the tests carry: no code of ours, so none of our libraries.
$(ENGINES_LIBS): %.so: %.o
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(filter-out -fsanitize=%,$(ALL_CFLAGS)) -shared -o $@ $<

.PHONY: check-engines
check-engines: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' ROW='$(ROW)' tests/vm/engines/run.sh
