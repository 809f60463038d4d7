#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh STEP...: runs `make` for each step and adds up what they count (steps.bash says how).
#
# A step is NAME[:KIND]=GOAL [VARIABLE=VALUE]...; its output goes to build/check/NAME.log. Tests of our
# own are counted once; the same ones run in another way, and cases of other suites, stand beside them.
# Every skip is named. The last line is "N passed, N failed": of distinct tests; a failure of any kind
# is a failure.
set -uo pipefail
# shellcheck source=tests/steps.bash
. "$(dirname "${BASH_SOURCE[0]}")/steps.bash"

passed=0 again=0 upstream=0 failed=0 skipped=0 wrong=()
mkdir -p build/check
started=$SECONDS

printf 'check: %-14s %6s %6s %8s %6s\n' step tests again upstream failed
for step in "$@"; do
    read -ra goal <<<"${step#*=}"
    name=${step%%=*}
    began=$SECONDS
    step_run build/check "$name" "${goal[@]}"
    name=${name%%:*}
    passed=$((passed + STEP_PASSED)) again=$((again + STEP_AGAIN)) upstream=$((upstream + STEP_UPSTREAM))
    failed=$((failed + STEP_FAILED)) skipped=$((skipped + STEP_SKIPPED))
    printf 'check: %-14s %6d %6d %8d %6d  (%d s)\n' "$name" "$STEP_PASSED" "$STEP_AGAIN" "$STEP_UPSTREAM" \
        "$STEP_FAILED" $((SECONDS - began))
    step_skips "build/check/$name.log" | sed 's/^/    skipped: /'
    if [[ $STEP_FAILED -ne 0 ]]; then
        step_show "build/check/$name.log"
        mapfile -t -O "${#wrong[@]}" wrong < <(step_failures "build/check/$name.log" | sed "s/^/$name: /")
    fi
done

# Once more, where somebody who has only the end looks.
[[ ${#wrong[@]} -eq 0 ]] || printf 'check: failed: %s\n' "${wrong[@]}"
echo "check: $((SECONDS - started)) s in all"
echo "check: besides, $again repetitions with another compiler, sanitizer or transport passed, and" \
    "$upstream cases of other suites; $skipped skipped"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
