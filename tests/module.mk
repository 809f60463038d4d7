# SPDX-License-Identifier: Apache-2.0
include $(wildcard tests/*/module.mk)

HEADERS += tests/fds.h

# All tests. Whole suites of their own: check-ops, check-archs, check-options.
.PHONY: check
check:
	@MAKE='$(MAKE)' tests/check.sh \
	    'build=all' \
	    'build-clang=all CC=clang' \
	    'headers=check-headers' \
	    'units=check-units' \
	    'units-asan=check-units MODE=asan CC=clang' \
	    'ring-tsan=check-units MODE=tsan' \
	    'system=check-system' \
	    'hook=check-hook APIR_RACE_SECONDS=5' \
	    'attacks=check-attacks APIR_RACE_SECONDS=5' \
	    'host0=check-host0' \
	    'cdi=check-cdi' \
	    'parity=check-parity' \
	    'ops-part=check-ops-part' \
	    'archs-part=check-archs-part' \
	    'options-part=check-options-part' \
	    'differ=check-differ' \
	    'dispatch=check-dispatch' \
	    'faults=check-faults-part' \
	    'vm=check-vm'
