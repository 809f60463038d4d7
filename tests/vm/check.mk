# SPDX-License-Identifier: Apache-2.0

.PHONY: check-vm demo
check-vm: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' tests/vm/check.sh
# SUITE=bookworm or trixie: the VM is of that release of Debian, with the packages of `make deb`.
SUITE ?=
# PAGES=16k, with ARCH=aarch64: its kernel has pages of 16 KiB.
PAGES ?=
ifeq ($(CROSS),)
ifeq ($(SUITE)$(VM_ARCH),)
# With no more than tests/env/packages.demo has.
.PHONY: demo-image demo-root
demo-image:
	@tests/vm/image.sh demo
demo-root:
	@tests/vm/run.sh --prepare
demo: shipped $(GGUF_WRITE) demo-image demo-root
	@MAKE='$(MAKE)' OUT='$(O)' tests/vm/demo.sh
else
demo: all vm-images $(if $(SUITE),deb)
	@[[ -z '$(SUITE)' ]] || tests/vm/suite.sh '$(SUITE)'
	@MAKE='$(MAKE)' OUT='$(O)' VM_SUITE='$(SUITE)' VM_PAGES='$(PAGES)' tests/vm/demo.sh
endif
else
# The guest's part is of that architecture, and so is the VM; the host's part is this machine's.
demo: all
	@$(MAKE) --no-print-directory ARCH=$(MACHINE) CC=gcc VM_ARCH=$(CROSS) demo
endif
