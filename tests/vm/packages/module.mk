# SPDX-License-Identifier: Apache-2.0
#
# make check-packages: the archive of the source, and the packages (ROW="name...": these rows); run.sh says more.

# libggml-apir of two architectures can be installed at once; an aarch64 machine cross-builds for no other.
FOREIGN_ARCH := arm64

.PHONY: check-packages
check-packages: all vm-images deb rpm
	@JOBS=$(JOBS) image/deb/build.sh $(APIR_VERSION) $(FOREIGN_ARCH)
	@$(MAKE) --no-print-directory installer
	@MAKE='$(MAKE)' OUT='$(O)' JOBS='$(JOBS)' DEB_ARCH='$(DEB_ARCH)' FOREIGN_ARCH='$(FOREIGN_ARCH)' \
	    FOREIGN_MACHINE=aarch64 ROW='$(ROW)' tests/vm/packages/run.sh $(APIR_VERSION)
