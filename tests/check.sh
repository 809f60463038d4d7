#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh STEP...: runs `make` for each step and adds up what they count (steps.bash says how).
#
# A step is [+]NAME[:KIND]=GOAL [VARIABLE=VALUE]...; its output goes to build/check/NAME.log. Steps with a + that
# follow one another run two at a time, in any order: they measure no time, and build nothing that another one builds.
# Tests of our own are counted once; the same ones run in another way, and cases of other suites, stand beside them.
# Every skip is named. The last line is "N passed, N failed": of distinct tests; a failure of any kind
# is a failure.
set -uo pipefail
# shellcheck source=tests/steps.bash
. "$(dirname "${BASH_SOURCE[0]}")/steps.bash"

# Prints what `count` takes.
run() { # STEP
    local goal began=$SECONDS
    read -ra goal <<<"${1#*=}"
    step_run build/check "${1%%=*}" "${goal[@]}"
    echo "${1%%[:=]*} $STEP_PASSED $STEP_AGAIN $STEP_UPSTREAM $STEP_FAILED $STEP_SKIPPED $((SECONDS - began))"
}

if [[ ${1-} == --run ]]; then
    run "$2"
    exit
fi

passed=0 again=0 upstream=0 failed=0 skipped=0 wrong=() counted=0
mkdir -p build/check
started=$SECONDS

count() { # NAME PASSED AGAIN UPSTREAM FAILED SKIPPED SECONDS
    counted=$((counted + 1))
    passed=$((passed + $2)) again=$((again + $3)) upstream=$((upstream + $4))
    failed=$((failed + $5)) skipped=$((skipped + $6))
    printf 'check: %-14s %6d %6d %8d %6d  (%d s)\n' "$1" "$2" "$3" "$4" "$5" "$7"
    step_skips "build/check/$1.log" | sed 's/^/    skipped: /'
    if [[ $5 -ne 0 ]]; then
        step_show "build/check/$1.log"
        mapfile -t -O "${#wrong[@]}" wrong < <(step_failures "build/check/$1.log" | sed "s/^/$1: /")
    fi
}

run_all() { # AT-A-TIME STEP...
    local said
    while read -ra said; do
        count "${said[@]}"
    done < <(printf '%s\0' "${@:2}" | xargs -0 -n 1 -P "$1" "${BASH_SOURCE[0]}" --run)
}

printf 'check: %-14s %6s %6s %8s %6s\n' step tests again upstream failed
beside=()
for step in "$@"; do
    if [[ $step == +* ]]; then
        beside+=("${step#+}")
        continue
    fi
    [[ ${#beside[@]} -eq 0 ]] || run_all 2 "${beside[@]}"
    beside=()
    run_all 1 "$step"
done
[[ ${#beside[@]} -eq 0 ]] || run_all 2 "${beside[@]}"
if [[ $counted -ne $# ]]; then
    failed=$((failed + 1))
    wrong+=("$counted of $# steps came to an end")
fi

# Once more, where somebody who has only the end looks.
[[ ${#wrong[@]} -eq 0 ]] || printf 'check: failed: %s\n' "${wrong[@]}"
echo "check: $((SECONDS - started)) s in all"
echo "check: besides, $again repetitions with another compiler, sanitizer or transport passed, and" \
    "$upstream cases of other suites; $skipped skipped"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
