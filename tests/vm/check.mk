# SPDX-License-Identifier: Apache-2.0

.PHONY: check-vm demo
check-vm: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' tests/vm/check.sh
demo: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' tests/vm/demo.sh
