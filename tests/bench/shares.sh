#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# shares.sh [OUT [MODEL]]: what classes that take turns cost and give on this machine's CPU, all of whose cores both
# want: a class alone with and without a weight, two with the weights 1 and 3, a chat beside prompts, and what
# `apir top` costs whom it shows. Sides in turns; a line for each row, the same as JSON in build/bench/shares.json.
# MODEL is the generated 135M one (q4_0) by default. ROUNDS: pairs of each row (5). The last line is
# `shares: N rows`.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath "${1:-build/release-gcc}")
model=${2:-build/models/135M-q4_0.gguf}
rounds=${ROUNDS:-5} rows=0
unset GGML_BACKEND_PATH APIR_TRANSPORT APIR_LOG APIR_ON_LOSS
export GGML_VK_VISIBLE_DEVICES=
work=$(mktemp -d "${TMPDIR:-/tmp}/shares.XXXXXX")
export XDG_RUNTIME_DIR=$work
pids=()
finish() {
    kill ${pids[@]+"${pids[@]}"} 2>/dev/null || :
    wait || :
    rm -rf "$work"
}
trap finish EXIT
mkdir -p build/bench build/models "$work/limits"
[[ -e $model ]] || "$out/tests/lib/models/gguf-write" --preset 135M --type q4_0 --output "$model"
: >build/bench/shares.json

end_all() {
    [[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null || :
    wait
    pids=()
}
classes() { # [NAME KEYS]...: their servers; what ran before ends
    local tries
    end_all
    while [[ $# -gt 0 ]]; do
        printf '{"threads": 0, "devices": ["CPU"], "limits_dir": "%s"%s}\n' "$work/limits" "$2" >"$work/$1.json"
        rm -f "$work/$1.sock"
        APIR_CONFIG=$work/$1.json "$out/backend/apir-render-server" --listen "$work/$1.sock" >>"$work/log" 2>&1 &
        pids+=("$!")
        for ((tries = 0; tries < 400; tries++)); do
            [[ ! -S $work/$1.sock ]] || break
            read -rt 0.05 <> <(:) || :
        done
        shift 2
    done
}
at() { # CLASS CMD...; $in_place: in the shell's place, so that it ends with a job that is killed
    ${in_place-} env GGML_BACKEND_PATH="$out/frontend/libggml-apir.so" APIR_TRANSPORT="unix:$work/$1.sock" "${@:2}"
}
busy() { # CLASS ARGS...: until the classes end
    in_place=exec at "$1" llama-bench -m "$model" -dev APIR0 -ngl 99 -r 100000 "${@:2}" >/dev/null 2>&1 </dev/null &
    pids+=("$!")
}
top() { "$out/cdi/apir" top --once --json --interval 0.1; }
# Both classes have computed: sets A and B, the time in ns that their graphs have taken.
times() {
    read -r A B < <(top | jq -r '[.servers | sort_by(.class)[] | [.contexts[].graphs_ns] | add // 0] | @tsv')
}
both() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        times
        [[ ${A:-0} -eq 0 || ${B:-0} -eq 0 ]] || return 0
        read -rt 0.1 <> <(:) || :
    done
    echo "shares.sh: no class computes: $(tail -n 3 "$work/log")" >&2
    exit 1
}
middle() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
row() { # NAME VALUE UNIT LOWEST HIGHEST
    printf '%-44s %9s %s (%s to %s)\n' "$1" "$2" "$3" "$4" "$5"
    printf '{"row": "%s", "value": %s, "unit": "%s", "lowest": %s, "highest": %s}\n' "$@" >>build/bench/shares.json
    rows=$((rows + 1))
}
row_of() { # NAME UNIT FILE
    row "$1" "$(middle <"$3")" "$2" "$(sort -g "$3" | head -n 1)" "$(sort -g "$3" | tail -n 1)"
}
tokens() { # CLASS: generated in a second
    at "$1" llama-bench -m "$model" -dev APIR0 -ngl 99 -p 0 -n 32 -r 5 -o json 2>>"$work/log" | jq '.[0].avg_ts'
}
token_ms() { # CLASS: the middle of 100 tokens, each with a cache to clear
    at "$1" llama-bench -m "$model" -dev APIR0 -ngl 99 -p 0 -n 1 -r 100 -o json 2>>"$work/log" |
        jq -r '.[0].samples_ns[] / 1e6' | middle
}

classes none '' weight ', "weight": 10'
for ((i = 0; i < rounds; i++)); do
    a=$(tokens none) b=$(tokens weight)
    awk "BEGIN { print $b / $a }" >>"$work/alone"
done
row_of "alone: tokens with a weight, of without" "" "$work/alone"

for ((i = 0; i < rounds; i++)); do
    classes a ', "weight": 1' b ', "weight": 3'
    busy a -p 0 -n 64
    busy b -p 0 -n 64
    both
    a=$A b=$B
    sleep 10 # what is measured
    times
    awk "BEGIN { print ($B - $b) / ($A - $a) }" >>"$work/thirds"
done
row_of "graph time of weight 3, of weight 1's" "" "$work/thirds"

for ((i = 0; i < rounds; i++)); do
    classes chat '' prompts ''
    busy prompts -p 512 -n 0
    token_ms chat >>"$work/without"
    classes chat ', "weight": 1, "latency": true' prompts ', "weight": 1'
    busy prompts -p 512 -n 0
    token_ms chat >>"$work/with"
done
row_of "a token beside prompts, no weights" ms "$work/without"
row_of "a token beside prompts, latency, 1 and 1" ms "$work/with"

classes one ''
for ((i = 0; i < rounds; i++)); do
    a=$(tokens one)
    while :; do top; done >/dev/null 2>&1 &
    looks=$!
    b=$(tokens one)
    kill "$looks" && wait "$looks" 2>/dev/null || :
    awk "BEGIN { print $b / $a }" >>"$work/seen"
done
row_of "tokens while apir top looks ten times a second" "" "$work/seen"
echo "shares: $rows rows"
