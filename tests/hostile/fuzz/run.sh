#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh PROGRAMS CORPUS OUT SECONDS JOBS TARGET...: runs each fuzzer (PROGRAMS/TARGET_fuzz) for
# SECONDS, JOBS at a time, on CORPUS/TARGET and on what earlier runs have found. In OUT: found/
# new inputs, log/, results.json, and a file for each crash (TARGET-crash-…, -timeout-…,
# -oom-…). A fuzzer that crashed goes on for the rest of its time. Exit 1: there was a crash.
set -euo pipefail
programs=$1 corpus=$2 out=$3 seconds=$4 jobs=$5
shift 5
mkdir -p "$out"/{found,log}

field() { # NAME LINE: the number behind "NAME: "
    sed -n "s/.*\b$1: \([0-9]*\).*/\1/p" <<<"$2"
}

# One line of results: name executions seconds coverage features inputs crashes
target() {
    local t=$1 began=$SECONDS left=$seconds executions=0 crashes=0 last cov ft n inputs
    local log=$out/log/$t options=()
    mkdir -p "$out/found/$t"
    # Inputs of many steps at once: one or two lead nowhere.
    case $t in worker | host | virgl | unix) options=(-len_control=0 -max_len=1024) ;; esac
    [[ ! -e $corpus/$t.dict ]] || options+=("-dict=$corpus/$t.dict")
    : >"$log"
    while ((left > 0 && crashes < 20)); do
        # Numbers only: a name for each new function costs more than the functions.
        "$programs/${t}_fuzz" -max_total_time="$left" -print_final_stats=1 -print_funcs=0 \
            -timeout=20 -rss_limit_mb=4096 -reduce_inputs=0 -artifact_prefix="$out/$t-" \
            "${options[@]}" "$out/found/$t" "$corpus/$t" >"$log.run" 2>&1 || crashes=$((crashes + 1))
        cat "$log.run" >>"$log"
        n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log.run")
        executions=$((executions + ${n:-0}))
        left=$((seconds - (SECONDS - began)))
        # Some seconds are not worth another start.
        ((left > 3)) || left=0
    done
    rm -f "$log.run"
    last=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -1 || true)
    cov=$(field cov "$last") ft=$(field ft "$last")
    inputs=$(find "$out/found/$t" -type f | wc -l)
    echo "$t $executions $((SECONDS - began)) ${cov:-0} ${ft:-0} $inputs $crashes" \
        >"$out/log/$t.result"
    printf 'fuzz: %-14s %10d executions, %7d a second; coverage %5d edges, %6d features; %5d inputs found, %d crashes\n' \
        "$t" "$executions" $((executions / (SECONDS - began > 0 ? SECONDS - began : 1))) \
        "${cov:-0}" "${ft:-0}" "$inputs" "$crashes"
}

running=0
for t in "$@"; do
    ((running < jobs)) || { wait -n || true; running=$((running - 1)); }
    target "$t" &
    running=$((running + 1))
done
wait

total=0 crashes=0 list=
for t in "$@"; do
    read -r name n took cov ft inputs bad <"$out/log/$t.result"
    total=$((total + n)) crashes=$((crashes + bad))
    list+=${list:+,}$'\n'"  {\"target\": \"$name\", \"executions\": $n, \"seconds\": $took, \"edges\": $cov, \"features\": $ft, \"inputs_found\": $inputs, \"crashes\": $bad}"
done
printf '{"seconds": %d, "jobs": %d, "targets": [%s\n], "executions": %d, "crashes": %d}\n' \
    "$seconds" "$jobs" "$list" "$total" "$crashes" >"$out/results.json"
echo "fuzz: $# targets, $total executions, $crashes crashes"
((crashes == 0))
