# SPDX-License-Identifier: Apache-2.0
#
# make vm RUN=script [VM_SHARE=dir] [...]: tests/vm/run.sh says what else.
# VM_ARCH=aarch64 in the environment: the VM's architecture; what is built is this machine's.

.PHONY: vm vm-images
vm: all $(if $(filter 0,$(VM_IMAGES)),,vm-images)
	@if [[ -z '$(RUN)' ]]; then echo "usage: make vm RUN=script [VM_SHARE=dir]" >&2; exit 2; fi
	@tests/vm/run.sh '$(RUN)'

# The container images and the VM's root, so that the first boot need not wait.
vm-images:
	@tests/vm/$(or $(VM_ARCH),image).sh
	@tests/vm/run.sh --prepare

.PHONY: sysroot-trixie
sysroot-trixie:
	@tests/env/sysroot.sh --trixie

include tests/vm/check.mk
