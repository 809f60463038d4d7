# SPDX-License-Identifier: Apache-2.0
#
# make check-engines [ROW=name]: containers of every engine in a VM; run.sh says more. In the same way, with rows in
# folders of their own: the layouts of images that people run; what apir spec prints, in the real programs; and what
# docs/deploy/ says of more than one machine.

ENGINES_LIBS := $(patsubst %,$(O)/tests/vm/engines/%.so,trap abort)
ALL += $(ENGINES_LIBS)

# What images of the tests carry: no code of ours, so none of our libraries.
$(ENGINES_LIBS): %.so: %.o
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(filter-out -fsanitize=%,$(ALL_CFLAGS)) -shared -o $@ $<

.PHONY: check-engines check-images check-sandboxes check-cluster
check-engines check-images check-sandboxes check-cluster: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' ROW='$(ROW)' SUITE='$(@:check-%=%)' tests/vm/engines/run.sh
