# SPDX-License-Identifier: Apache-2.0
#
# What apir top, events and metrics show, over the unix transport: real servers, workers and programs.

.PHONY: check-top
check-top: all $(O)/tests/system/musl-load
	@tests/system/run.sh $(O) tests/system/top/*.bats
