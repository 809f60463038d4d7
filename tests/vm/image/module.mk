# SPDX-License-Identifier: Apache-2.0
#
# make check-image: the image `remoting` of this machine's architecture; run.sh says more.
# make check-image-arm64: programs of the arm64 image on a machine of another one; arm64.sh says more.

IMAGE_ARCH := $(if $(filter aarch64,$(or $(VM_ARCH),$(MACHINE))),arm64,amd64)

.PHONY: check-image check-image-arm64
check-image: all vm-images image-$(IMAGE_ARCH)
	@MAKE='$(MAKE)' OUT='$(O)' tests/vm/image/run.sh
check-image-arm64: all image-arm64
	@MAKE='$(MAKE)' OUT='$(O)' tests/vm/image/arm64.sh
