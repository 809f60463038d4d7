#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# hook.sh --list, or hook.sh ASAN-OUT STATIC-OUT [ROW]...: the rows of hook_rows, in lines as
# apir-attacks has them. Exits with 1 unless all are stopped.
set -euo pipefail
cd "$(dirname "$0")/../../.."

table() { # [ROW]...: what of the table is wanted
    grep -v '^#' tests/hostile/attacks/hook_rows | while IFS= read -r line; do
        [[ $# -gt 0 && " $* " != *" ${line%%|*} "* ]] || printf '%s\n' "$line"
    done
}

if [[ $1 == --list ]]; then
    table | awk -F'|' '!seen[$1]++ { print $1 "\t" $2 }'
    exit
fi
declare -A out=([asan]=$1 [static]=$2)
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table "$@" >"$work/table"

# All tests of one build in one run, each once.
for build in asan static; do
    mapfile -t files < <(awk -F'|' -v b="$build" '$3 == b { print "tests/system/hook/" $4 }' "$work/table" | sort -u)
    [[ ${#files[@]} -gt 0 ]] || continue
    names=$(awk -F'|' -v b="$build" '$3 == b { print $5 }' "$work/table" | sort -u |
        sed 's/[][().*+?^$\\]/\\&/g' | paste -sd '|')
    HOOK_FILTER="^($names)\$" tests/system/hook/run.sh "${out[$build]}" "${files[@]}" >"$work/$build" 2>&1 || :
done

# How a test ended: "ok", or its line. One that was skipped, or never ran, has stopped nothing.
ended() { # BUILD TEST
    local line
    line=$(grep -aE '^(not )?ok [0-9]+ ' "$work/$1" | sed -E 's/^((not )?ok) [0-9]+ /\1 /' | grep -aF "ok $2" || :)
    if [[ $line == "ok $2 in "* && $line != *'# skip'* ]]; then
        echo ok
    else
        echo "${line:-did not run: $2}"
    fi
}

stopped=0 total=0
while IFS='|' read -r row attack; do
    total=$((total + 1)) tests='' why=''
    while IFS='|' read -r build test; do
        how=$(ended "$build" "$test")
        tests="${tests:+$tests; }$test"
        [[ $how == ok ]] || why="${why:+$why; }$how"
    done < <(awk -F'|' -v r="$row" '$1 == r { print $3 "|" $5 }' "$work/table")
    if [[ -z $why ]]; then
        stopped=$((stopped + 1))
        printf 'stopped      %-22s %s: "%s"\n' "$row" "$attack" "$tests"
    else
        printf 'NOT STOPPED  %-22s %s: "%s"\n' "$row" "$attack" "$why"
    fi
done < <(awk -F'|' '!seen[$1]++ { print $1 "|" $2 }' "$work/table")
[[ $stopped -eq $total ]] || grep -ahE '^#|^not ok' "$work/asan" "$work/static" >&2 || :
echo "attacks: $stopped of $total stopped"
[[ $stopped -eq $total ]]
