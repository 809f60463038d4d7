#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh PROGRAM...
#
# Runs unit test programs, UNIT_JOBS at a time (two for each core: most of their time is waiting), each for at most
# UNIT_TIMEOUT seconds (180, with patience). One line each, in the order of their names, the output of those that fail, and a count
# of test functions last (a program that is not cmocka's counts as one). A skipped test counts as neither and is
# named; in CI it is a failure.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

# shellcheck source=tests/lib/patience.bash
. tests/lib/patience.bash
limit=${UNIT_TIMEOUT:-$(patience 180)}
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}

[[ $# -gt 0 ]] || { echo "usage: run.sh PROGRAM..." >&2; exit 2; }

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# cmocka's summary: "[  PASSED  ] 5 test(s)."; failed and skipped ones begin with
# the group's name: "[  FAILED  ] tests: 2 test(s), listed below:".
count() { # NAME FILE
    local n
    n=$(sed -nE "s/^\[ +$1 +\] ([^:]*: )?([0-9]+) test\(s\).*/\2/p" "$2" | tail -n 1)
    echo "${n:-0}"
}

run_one() { # PROGRAM: its output, and its exit code
    local log=$logs/${1//\//_}
    timeout -k 5 "$limit" "$1" >"$log" 2>&1 </dev/null
    echo $? >"$log.rc"
}

# Those of tests/process first: they have servers start, wait and end, and take longest.
most=${UNIT_JOBS:-$((2 * $(nproc)))}
while IFS= read -r program; do
    while [[ $(jobs -pr | wc -l) -ge $most ]]; do wait -n; done
    run_one "$program" &
done < <(printf '%s\n' "$@" | grep /process/; printf '%s\n' "$@" | grep -v /process/)
wait

total_passed=0 total_failed=0
for program in "$@"; do
    name=${program##*/} log=$logs/${program//\//_}
    rc=$(cat "$log.rc") || rc=1
    passed=$(count PASSED "$log") failed=$(count FAILED "$log") skipped=$(count SKIPPED "$log")
    # What ended outside of any test (a crash, a leak, the time) is one failure.
    [[ $rc -eq 0 || $failed -ne 0 ]] || failed=1
    [[ $rc -ne 0 || $((passed + failed + skipped)) -ne 0 ]] || passed=1
    [[ $skipped -eq 0 ]] || sed -nE 's/^skipped: /skipped  /p' "$log" | sed "s/^skipped  /&$name: /" | sort -u
    if [[ $skipped -gt 0 && -n ${CI-} ]]; then
        failed=$((failed + skipped)) rc=1
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    if [[ $rc -eq 0 && $failed -eq 0 ]]; then
        note=
        [[ $skipped -eq 0 ]] || note=" ($skipped skipped)"
        echo "ok $name$note"
    else
        why="exit code $rc"
        [[ $skipped -eq 0 || -z ${CI-} ]] || why="$skipped skipped, which is not allowed here"
        [[ $rc -ne 124 && $rc -ne 137 ]] || why="ended after $limit s"
        echo "FAILED $name ($why)"
        sed 's/^/    /' "$log"
    fi
done
echo "units: $total_passed passed, $total_failed failed"
[[ $total_failed -eq 0 && $total_passed -gt 0 ]]
