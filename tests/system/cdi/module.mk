# SPDX-License-Identifier: Apache-2.0
#
# The apir command as its users have it: what is installed, said and completed, and what it
# does to an engine's configuration, judged by the real engines.

.PHONY: check-cdi
check-cdi: all $(O)/tests/system/musl-load
	@MAKE='$(MAKE)' tests/system/run.sh $(O) tests/system/cdi/*.bats
