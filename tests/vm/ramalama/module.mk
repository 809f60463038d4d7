# SPDX-License-Identifier: Apache-2.0
#
# make check-ramalama [ROW=name] [RAMALAMA=DIR]: what ramalama runs, in a VM; run.sh says more. ARCH=aarch64:
# in a VM of that architecture, as `make demo`.

.PHONY: check-ramalama
ifeq ($(CROSS),)
check-ramalama: all vm-images image-$(IMAGE_ARCH)
	@MAKE='$(MAKE)' OUT='$(O)' ROW='$(ROW)' RAMALAMA='$(RAMALAMA)' tests/vm/ramalama/run.sh
else
check-ramalama: all
	@$(MAKE) --no-print-directory ARCH=$(MACHINE) CC=gcc VM_ARCH=$(CROSS) check-ramalama
endif
