#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh OUT --list, or run.sh OUT STATIC-OUT [ROW]...: the rows of apir-attacks, of that build, and
# those of hook_rows; all of them, or those named. A line each, and last `attacks: N of M stopped`; the
# results are in build/attacks (or ATTACKS_RESULTS), results.json, too.
set -euo pipefail
cd "$(dirname "$0")/../../.."
guests=$1/tests/hostile/attacks/apir-attacks hook=tests/hostile/attacks/hook.sh work=${ATTACKS_RESULTS:-build/attacks}
if [[ $2 == --list ]]; then
    "$guests" --list
    exec "$hook" --list
fi
out=$1 static=$2 rc=0
shift 2
# The worker may start no program that gives names to addresses.
export ASAN_OPTIONS=${ASAN_OPTIONS-exitcode=99:symbolize=0:detect_leaks=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS-exitcode=99:symbolize=0:print_stacktrace=1}
mkdir -p "$work"

# Every row is in a table of docs/threat-model.md, and nothing else is.
if ! diff <("$0" "$out" --list | cut -f1 | sort) \
    <(sed -n '/^## Attacks/,$p' docs/threat-model.md | grep '^| `' | cut -d'|' -f2 |
        grep -oE '[A-Za-z0-9.+-]+' | sort); then
    echo "the tables of docs/threat-model.md name other rows (>) than there are (<)"
    exit 1
fi
rm -f "$work"/{guests,hook}{,.json}

mapfile -t of_hook < <([[ $# -eq 0 ]] || printf '%s\n' "$@" | grep -xF "$("$hook" --list | cut -f1)")
mapfile -t of_guests < <([[ $# -eq 0 ]] || printf '%s\n' "$@" | grep -vxF "$("$hook" --list | cut -f1)")
# Both at the same time: the guests' rows mostly wait.
if [[ $# -eq 0 || ${#of_hook[@]} -gt 0 ]]; then
    "$hook" "$out" "$static" "${of_hook[@]}" >"$work/hook" 2>&1 &
fi
if [[ $# -eq 0 || ${#of_guests[@]} -gt 0 ]]; then
    "$guests" --json "$work/guests.json" "${of_guests[@]}" | tee "$work/guests" | sed '/^attacks: /d' || rc=1
fi
if [[ $# -eq 0 || ${#of_hook[@]} -gt 0 ]]; then
    wait "$!" || rc=1
    sed '/^attacks: /d' "$work/hook"
    jq -Rn '[inputs | capture("^(?<how>.*STOPPED|stopped) +(?<id>[^ ]+) +(?<attack>.*?): \"(?<text>.*)\"$") |
        {id, attack, stopped: (.how == "stopped"), text}]' "$work/hook" >"$work/hook.json"
fi
find "$work" -name 'guests.json' -o -name 'hook.json' | sort | xargs jq -s add >"$work/results.json"
# Those of the hook are tests of check-hook, with ASan.
[[ ! -e $work/hook ]] || sed -nE 's/^attacks: (.* stopped)$/attacks: of these again: \1/p' "$work/hook"
find "$work" \( -name guests -o -name hook \) \
    -exec sed -nE 's/^attacks: ([0-9]+) of ([0-9]+) stopped$/\1 \2/p' {} + |
    awk '{ n += $1; m += $2 } END { printf "attacks: %d of %d stopped\n", n, m }'
exit "$rc"
