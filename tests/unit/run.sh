#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh PROGRAM...
#
# Runs unit test programs one after the other, each for at most UNIT_TIMEOUT
# seconds (180). One line each, the output of those that fail, and a count of
# test functions last (a program that is not cmocka's counts as one).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}

[[ $# -gt 0 ]] || { echo "usage: run.sh PROGRAM..." >&2; exit 2; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# cmocka's summary: "[  PASSED  ] 5 test(s)."; failed and skipped ones begin with
# the group's name: "[  FAILED  ] tests: 2 test(s), listed below:".
count() {
    local n
    n=$(sed -nE "s/^\[ +$1 +\] ([^:]*: )?([0-9]+) test\(s\).*/\2/p" "$log" | tail -n 1)
    echo "${n:-0}"
}

total_passed=0 total_failed=0
for program in "$@"; do
    name=${program##*/}
    rc=0
    timeout -k 5 "${UNIT_TIMEOUT:-180}" "$program" >"$log" 2>&1 </dev/null || rc=$?
    passed=$(count PASSED) failed=$(count FAILED) skipped=$(count SKIPPED)
    # What ended outside of any test (a crash, a leak, the time) is one failure.
    [[ $rc -eq 0 || $failed -ne 0 ]] || failed=1
    [[ $rc -ne 0 || $((passed + failed + skipped)) -ne 0 ]] || passed=1
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    if [[ $rc -eq 0 && $failed -eq 0 ]]; then
        note=
        [[ $skipped -eq 0 ]] || note=" ($skipped skipped: $(
            sed -nE 's/^\[ +SKIPPED +\] ([A-Za-z0-9_]+)$/\1/p' "$log" | sort -u | paste -sd ' ')"
        echo "ok $name${note:+$note)}"
    else
        why="exit code $rc"
        [[ $rc -ne 124 && $rc -ne 137 ]] || why="ended after ${UNIT_TIMEOUT:-180} s"
        echo "FAILED $name ($why)"
        sed 's/^/    /' "$log"
    fi
done
echo "units: $total_passed passed, $total_failed failed"
[[ $total_failed -eq 0 ]]
