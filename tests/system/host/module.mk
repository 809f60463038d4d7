# SPDX-License-Identifier: Apache-2.0
#
# host0, without a VM: containers of runc on this very machine.

REAL_ROOT := $(O)/tests/system/host/real-root
ALL += $(REAL_ROOT)
$(REAL_ROOT): $(call objs,tests/system/host/real_root.c)
	$(link)

.PHONY: check-host0
check-host0: all
	@tests/system/host/run.sh $(O)
