# SPDX-License-Identifier: Apache-2.0
#
# What is made of the build for others: images, archives, packages.
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

# make dist: the source of this commit as an archive; make deb, rpm: packages made of that.
# ARCH=aarch64: cross-built ones, for Debian.
DEB_ARCH := $(if $(filter aarch64,$(ARCH)),arm64,amd64)

.PHONY: dist deb rpm
dist:
	@image/dist.sh $(APIR_VERSION)
deb: dist
	@JOBS=$(JOBS) image/deb/build.sh $(APIR_VERSION) $(DEB_ARCH)
rpm: dist
	@image/rpm/build.sh $(APIR_VERSION)

# make installer: an image that puts the guest's part into a machine whose /usr is read-only, and takes it out
# again. Without the hooks for engines that know no CDI: such machines have others.
.PHONY: installer
installer:
	@rm -rf build/image/files-installer
	@$(MAKE) --no-print-directory install-frontend install-hook install-cdi CDI_PROGRAM='$$(O)/cdi/apir-alone' \
	    DESTDIR='$(CURDIR)/build/image/files-installer' prefix=/usr/local >/dev/null
	@rm -r build/image/files-installer/usr/local/share/apir
	@image/installer/build.sh $(DEB_ARCH) build/image/files-installer $(APIR_VERSION)
