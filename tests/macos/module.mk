# SPDX-License-Identifier: Apache-2.0
#
# make check-macos: the host's part for macOS, as far as this machine can tell; run.sh says more.

.PHONY: check-macos check-macos-part
check-macos: all $(O)/tests/system/musl-load
	@MAKE='$(MAKE)' tests/macos/run.sh tests/macos/suites.sh '$(O)'
check-macos-part:
	@MAKE='$(MAKE)' tests/macos/run.sh --part
