#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [OUT]: containers on this very machine, by runc; ends with one line of sums. It mounts in a
# namespace of its own, so that nothing is left where a test ends early.
set -euo pipefail
cd "$(dirname "$0")/../../.."
APIR_OUT=${1:-build/release-gcc}
export APIR_OUT
if [[ ${HOST0_STAGE-} != mounts ]]; then
    HOST0_STAGE=mounts exec "$APIR_OUT/tests/system/host/real-root" tests/system/host/run.sh "$APIR_OUT"
fi
log=$(mktemp "${TMPDIR:-/tmp}/host0.XXXXXX")
trap 'rm -f "$log"; rm -rf --one-file-system build/host' EXIT

status=0
bats --timing --formatter tap tests/system/host/*.bats | tee "$log" || status=$?

passed=$(grep -c '^ok [0-9]' "$log") || :
skipped=$(grep -c '^ok [0-9].* # skip' "$log") || :
failed=$(grep -c '^not ok [0-9]' "$log") || :
# A file that cannot even be read has no test that fails.
[[ $status -eq 0 || $failed -gt 0 ]] || failed=1
[[ $skipped -eq 0 ]] || echo "host0: $skipped skipped"
echo "host0: $((passed - skipped)) passed, $failed failed"
[[ $status -eq 0 && $failed -eq 0 && $passed -gt $skipped ]]
