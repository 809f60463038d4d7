# SPDX-License-Identifier: Apache-2.0
#
# ggml's own operator tests on APIR0, compared case by case with the host's own backend.

.PHONY: check-ops check-ops-part
check-ops: all
	tests/native/ops/run.sh $(O)
check-ops-part: all
	tests/native/ops/run.sh --part $(O)
