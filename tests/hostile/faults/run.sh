#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh OUT [short]: faults at every step, hardships, and what only a VM has; the last line is their
# sum. `short` takes a part of the steps and of the hardships, and no VM.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
out=$1
log=$(mktemp "${TMPDIR:-/tmp}/faults.XXXXXX")
trap 'rm -f "$log" "$log.hardships"' EXIT

status=0
if [[ ${2-} == short ]]; then
    # Both at the same time: they mostly wait, each with hosts of its own.
    "$out/tests/hostile/faults/hardships" "$out" >"$log.hardships" &
    "$out/tests/hostile/faults/steps" "$out" short | tee "$log" || status=1
    wait "$!" || status=1
    tee -a "$log" <"$log.hardships"
else
    {
        for which in '' gpu; do
            "$out/tests/hostile/faults/steps" "$out" ${which:+"$which"} || status=1
        done
        "$out/tests/hostile/faults/hardships" "$out" 2.2 || status=1
        tests/hostile/faults/vm.sh "$out" || status=1
        exit "$status"
    } | tee "$log" || status=1
fi

passed=$(grep -c '^ok - ' "$log")
failed=$(grep -c '^not ok - ' "$log")
# One that did not come to its end has failed too.
[[ $status -eq 0 || $failed -gt 0 ]] || failed=1
echo "faults: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
