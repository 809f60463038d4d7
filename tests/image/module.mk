# SPDX-License-Identifier: Apache-2.0
#
# make check-image: the image `remoting` of this machine's architecture; run.sh says more.

IMAGE_ARCH := $(if $(filter aarch64,$(MACHINE)),arm64,amd64)

.PHONY: check-image
check-image: all vm-images image-$(IMAGE_ARCH)
	@MAKE='$(MAKE)' OUT='$(O)' tests/image/run.sh
