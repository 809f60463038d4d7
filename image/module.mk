# SPDX-License-Identifier: Apache-2.0
#
# make image: the image `remoting`, an OCI archive for each architecture in build/image/. build.sh and
# docs/image.md say more. IMAGE_ARCHS="amd64" makes that one alone.
#
# Where the programs are another architecture's they are cross-built, which an aarch64 machine does not
# do for amd64.
IMAGE_ARCHS ?= $(if $(filter x86_64,$(MACHINE)),amd64 arm64,arm64)
IMAGE_MACHINE_amd64 := x86_64
IMAGE_MACHINE_arm64 := aarch64

.PHONY: image image-amd64 image-arm64
image: $(addprefix image-,$(IMAGE_ARCHS))
image-amd64 image-arm64: image-%:
	@rm -rf build/image/files-$*
	@$(MAKE) --no-print-directory ARCH=$(IMAGE_MACHINE_$*) install-frontend install-backend \
	    DESTDIR='$(CURDIR)/build/image/files-$*' prefix=/usr >/dev/null
	@image/build.sh $* build/image/files-$* $(APIR_VERSION)
