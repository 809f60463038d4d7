#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh [STEP... --] STEP...: runs `make` for each step and adds up what they count (steps.bash says how):
# those before `--` one after the other, the others two at a time (one with JOBS=1).
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
rm -f build/check/*.count
started=$SECONDS
jobs=${JOBS:-2}
[[ $jobs -le 2 ]] || jobs=2
declare -A running=() # the steps under way, by their process, which leads a group
# shellcheck disable=SC2317 # by the traps
stop() {
    local pid
    for pid in "${!running[@]}"; do
        kill -- "-$pid" 2>/dev/null
    done
    exit 130
}
trap stop INT TERM HUP

# What came of it goes to a file, since it is a process of its own.
step_start() { # STEP
    local goal name=${1%%=*}
    read -ra goal <<<"${1#*=}"
    set -m # a group of its own
    {
        local began=$SECONDS
        step_run build/check "$name" "${goal[@]}"
        echo "$STEP_PASSED $STEP_AGAIN $STEP_UPSTREAM $STEP_FAILED $STEP_SKIPPED $((SECONDS - began))" \
            >"build/check/${name%%:*}.count"
    } &
    running[$!]=${name%%:*}
    set +m
}

# Waits for one step, says what came of it and adds it up.
step_end() {
    local pid name p a u f s seconds
    wait -n -p pid "${!running[@]}" || :
    name=${running[$pid]}
    unset "running[$pid]"
    # A process that has ended without a word has failed.
    read -r p a u f s seconds 2>/dev/null <"build/check/$name.count" || p=0 a=0 u=0 f=1 s=0 seconds=0
    passed=$((passed + p)) again=$((again + a)) upstream=$((upstream + u))
    failed=$((failed + f)) skipped=$((skipped + s))
    printf 'check: %-14s %6d %6d %8d %6d  (%d s)\n' "$name" "$p" "$a" "$u" "$f" "$seconds"
    step_skips "build/check/$name.log" | sed 's/^/    skipped: /'
    if [[ $f -ne 0 ]]; then
        step_show "build/check/$name.log"
        mapfile -t -O "${#wrong[@]}" wrong < <(step_failures "build/check/$name.log" | sed "s/^/$name: /")
    fi
}

printf 'check: %-14s %6s %6s %8s %6s\n' step tests again upstream failed
limit=1
[[ " $* " == *" -- "* ]] || limit=$jobs
for step in "$@"; do
    if [[ $step == -- ]]; then
        limit=$jobs
        continue
    fi
    step_start "$step"
    [[ ${#running[@]} -lt $limit ]] || step_end
done
while [[ ${#running[@]} -gt 0 ]]; do
    step_end
done

# Once more, where somebody who has only the end looks.
[[ ${#wrong[@]} -eq 0 ]] || printf 'check: failed: %s\n' "${wrong[@]}"
echo "check: $((SECONDS - started)) s in all"
echo "check: besides, $again repetitions with another compiler, sanitizer or transport passed, and" \
    "$upstream cases of other suites; $skipped skipped"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
