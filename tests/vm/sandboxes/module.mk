# SPDX-License-Identifier: Apache-2.0
#
# make check-sandboxes [ROW=name]: what apir spec prints, in the real programs, in a VM; run.sh says more.

.PHONY: check-sandboxes
check-sandboxes: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' ROW='$(ROW)' tests/vm/sandboxes/run.sh
