#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# nightly.sh SUITE...: runs `make` for each, a line for each with its time and its result, the output in
# build/nightly/NAME.log. A suite is NAME[:KIND]=GOAL[,VARIABLE=VALUE]... as in check.sh; green is one
# that has run something and in which nothing failed. The last line is `nightly: N of M suites green`.
set -uo pipefail
# shellcheck source=tests/steps.bash
. "$(dirname "${BASH_SOURCE[0]}")/steps.bash"

green=0
mkdir -p build/nightly
for suite in "$@"; do
    IFS=, read -ra goal <<<"${suite#*=}"
    name=${suite%%=*}
    began=$SECONDS
    step_run build/nightly "$name" "${goal[@]}"
    kind=${name#*:} name=${name%%:*}
    if [[ $kind == one ]]; then
        count='ended well'
    else
        count="$((STEP_PASSED + STEP_AGAIN + STEP_UPSTREAM)) passed, $STEP_FAILED failed, $STEP_SKIPPED skipped"
    fi
    if [[ $STEP_FAILED -eq 0 ]]; then
        green=$((green + 1))
        printf 'green  %-10s %6d s  %s\n' "$name" $((SECONDS - began)) "$count"
    else
        printf 'RED    %-10s %6d s  %s\n' "$name" $((SECONDS - began)) "${count/ended well/failed}"
        step_show "build/nightly/$name.log"
    fi
    step_skips "build/nightly/$name.log" | sed 's/^/    skipped: /'
done
echo "nightly: $green of $# suites green"
[[ $green -eq $# && $# -gt 0 ]]
