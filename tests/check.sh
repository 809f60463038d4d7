#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh STEP...: runs `make` for each step and adds up what they count.
#
# A step is NAME=GOAL [VARIABLE=VALUE]...; its output goes to build/check/NAME.log
# and its count is the last line "…: N passed, N failed" (or "N of M as native", "N of M stopped")
# there. A step without such a line counts as one test, passed if make succeeded. A step that counts no
# failure and fails all the same counts one. The last line is the sum.
set -uo pipefail

passed=0 failed=0
mkdir -p build/check
started=$SECONDS

for step in "$@"; do
    name=${step%%=*}
    read -ra goal <<<"${step#*=}"
    log=build/check/$name.log
    began=$SECONDS
    printf 'check: %-14s ' "$name"
    if ${MAKE:-make} --no-print-directory "${goal[@]}" >"$log" 2>&1; then rc=0; else rc=$?; fi
    count=$(grep -aoE '[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    native=$(grep -aoE '[0-9]+ of [0-9]+ ((counts )?as native|stopped)' "$log" | tail -n 1)
    if [[ -n $native ]]; then
        read -r p _ f _ <<<"$native"
        f=$((f - p))
    elif [[ -n $count ]]; then
        p=${count%% *}
        f=${count#*, }
        f=${f%% *}
    else
        p=$((rc == 0)) f=$((rc != 0))
    fi
    [[ $rc -eq 0 || $f -gt 0 ]] || f=1
    passed=$((passed + p)) failed=$((failed + f))
    printf '%4d passed, %d failed  (%d s)\n' "$p" "$f" $((SECONDS - began))
    if [[ $f -gt 0 ]]; then
        grep -aE '(^|[^a-z])(not ok|NOT STOPPED|FAIL|FAILED|error:|Error)' "$log" | head -n 40 | sed 's/^/    | /'
        tail -n 15 "$log" | sed 's/^/    > /'
        echo "    the whole output: $log"
    fi
done

echo "check: $((SECONDS - started)) s in all"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
