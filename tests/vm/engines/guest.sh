#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# guest.sh SUITE [ROW]...: what run.sh runs in the VM. Installs the guest's part as a
# distribution would, then runs the rows, each in a process of its own with a
# time limit of its own.
set -uo pipefail
export SUITE=$1
shift
here=tests/vm/engines
# shellcheck source=tests/vm/engines/table.sh
. "$here/table.sh"

SHARE=/mnt/share
read -ra wanted <<<"$*"

result() { # ROW RESULT WHY MILLISECONDS
    jq -cn --arg row "$1" --arg what "${table_what[$1]-}" --arg result "$2" --arg why "$3" --argjson ms "$4" \
        '{row: $row, what: $what, result: $result, ms: $ms} + if $why == "" then {} else {why: $why} end' \
        >>"$SHARE/results"
    printf '%-8s %-28s %5d.%d s  %s%s\n' "$2" "$1" $(($4 / 1000)) $(($4 / 100 % 10)) "${table_what[$1]-}" \
        "${3:+ ($3)}"
}

# Rows in the order of the table; a name that is not in it is a mistake.
rows=()
for name in "${table_rows[@]}"; do
    [[ ${#wanted[@]} -gt 0 && " ${wanted[*]} " != *" $name "* ]] || rows+=("$name")
done
for name in "${wanted[@]}"; do
    [[ -n ${table_what[$name]-} ]] || { echo "no row is called $name; there are: ${table_rows[*]}" && exit 2; }
done
printf '%s\n' "${rows[@]}" >"$SHARE/plan"

bring_up() { timeout --kill-after=5 400 bash "tests/vm/$SUITE/setup.sh" "$1" >"$SHARE/log/setup-$1.log" 2>&1; }

bring_up machine || { tail -n 20 "$SHARE/log/setup-machine.log" && exit 1; }
bash "tests/vm/$SUITE/setup.sh" versions >"$SHARE/versions"
jq -r 'to_entries[] | "\(.key) \(.value)"' "$SHARE/versions" | paste -sd ';' | sed 's/;/; /g'

declare -A ready
failed=0
for name in "${rows[@]}"; do
    log=$SHARE/log/$name.log
    for need in ${table_need[$name]//[-+]/ }; do
        if [[ -z ${ready[$need]-} ]]; then
            began=${EPOCHREALTIME/./}
            if bring_up "$need"; then ready[$need]=yes; else ready[$need]=no; fi
            printf 'setup    %-28s %5d s\n' "$need" $(((${EPOCHREALTIME/./} - began) / 1000000))
        fi
        if [[ ${ready[$need]} == no ]]; then
            cp "$SHARE/log/setup-$need.log" "$log"
            result "$name" fail "$need did not come up" 0
            failed=1
            continue 2
        fi
    done
    began=${EPOCHREALTIME/./} rc=0
    timeout --kill-after=5 "${table_limit[$name]:-200}" bash "$here/row.sh" "$name" >"$log" 2>&1 || rc=$?
    took=$(((${EPOCHREALTIME/./} - began) / 1000))
    case $rc in
    0) result "$name" pass '' "$took" ;;
    124 | 137) result "$name" fail 'time is up' "$took" ;;
    *) result "$name" fail "$(grep -a . "$log" | tail -n 1 | cut -c1-300)" "$took" ;;
    esac
    if [[ $rc -ne 0 ]]; then
        failed=1
        tail -n 25 "$log" | sed 's/^/    | /'
        # Only what a row that failed may have left behind.
        bring_up clear
    fi
done
if [[ ${#wanted[@]} -eq 0 ]]; then
    for name in "${!table_absent[@]}"; do
        table_what[$name]=${table_absent_what[$name]}
        result "$name" 'not run' "${table_absent[$name]}" 0
    done
fi
cp /var/log/messages "$SHARE/log/setup-syslog.log"
exit "$failed"
