#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What `make bench` measures with and what decides about targets must itself be right. Its figures are not tested, but
# that each program runs on the side whose name its sample has, and that a run which measures nothing ends with an error.

load system.bash

setup() {
    common_setup
    model 3M --arch llama --preset 3M --type q8_0
}

programs() { # COMMAND OPTION...
    remote tests/bench/programs.sh "$1" --model "$MODEL" --side native=CPU --side apir=APIR0 --pairs 1 \
        --out "$T/samples" "${@:2}"
}

@test "bench: llama.cpp's own programs in turns, each on its side" {
    server_start
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    programs default --pp 16 --tg 8
    programs start --seconds 0.1
    programs load
    # A file of its own: what other tests have mapped stays in the cache.
    cp "$MODEL" "$T/cold.gguf"
    MODEL=$T/cold.gguf programs load --cold yes
    programs together --processes 2 --seconds 0.5 -- -t 1
    programs batched --pp 16 --tg 8 --slots 2
    programs state --pp 32
    programs server --slots 2 --requests 3 --server "$VTEST_PID"
    programs server --case embeddings --slots 2 --requests 3 --answers embeddings
    local both='cpu-client first-p50 first-p99 load load-cold memory-client pp-1 pp-2 pp16 restore save server start tg-1 tg-2
        tg8 together'
    # shellcheck disable=SC2086 # words
    run diff <(jq -rs 'map(select(.case != "embeddings") | .side + " " + .metric)[]' "$T/samples" | sort) \
        <({ printf 'apir %s\n' $both cpu-host memory-host && printf 'native %s\n' $both; } | sort)
    [[ $status -eq 0 ]]
    # The answers' lengths are ours: 64, 16 and 96; of the prompts it is the sum.
    jq -es 'map(select(.metric == "server") | .n) == [176, 176, 298, 298]' "$T/samples"
    jq -es 'all((.seconds // .value) > 0)' "$T/samples"
    # Nothing of a program's is left.
    rmdir "$TMPDIR"
}

@test "bench: what llama.cpp's programs do not do is an error" {
    complains 1 "default on apir: it did not end well" \
        tests/bench/programs.sh default --model "$MODEL" --side apir=APIR0 --pairs 1 --tg 0 --out "$T/samples"
    complains 1 "start on native: it has ended without a token" \
        tests/bench/programs.sh start --model "$T/absent" --side native=CPU --pairs 1 --out "$T/samples"
    complains 1 "load on native: it does not load" \
        tests/bench/programs.sh load --model "$T/absent" --side native=CPU --pairs 1 --out "$T/samples"
    complains 1 "together on native: not all of them generate" \
        tests/bench/programs.sh together --model "$T/absent" --side native=CPU --pairs 1 --out "$T/samples"
    complains 1 "memory on native: it does not get on" \
        tests/bench/programs.sh memory --model "$T/absent" --side native=CPU --out "$T/samples"
    complains 1 "server on native: it does not get ready" \
        tests/bench/programs.sh server --model "$T/absent" --side native=CPU --pairs 1 --out "$T/samples"
}

@test "bench: what rests and what lasts" {
    server_start
    programs idle --seconds 1 --server "$VTEST_PID"
    programs memory --tokens 5000 --server "$VTEST_PID" -- -t 1
    # An idle one takes less than a tenth of a core; a step for each tenth, of each whose memory it is.
    jq -es 'map(select(.case == "idle")) | length == 2 and all(.value > 0 and .value < 0.1)' "$T/samples"
    jq -es 'map(select(.case == "memory")) | group_by([.side, .metric])
        | map("\(.[0].side) \(.[0].metric) \(length) \(.[-1].n)")
        == ["apir memory-process 11 5000", "apir memory-servers 11 5000", "apir memory-worker 11 5000",
            "native memory-process 11 5000"]' "$T/samples"
}

# ---- what samples say --------------------------------------------------------------------

# A side's samples, VALUES in the order of their pairs: seconds of 64 tokens, or of a unit.
samples_of() { # CASE SIDE METRIC UNIT VALUE...
    jq -nc '$ARGS.positional as [$case, $side, $metric, $unit] | $ARGS.positional[4:] | to_entries[]
        | {$case, $side, $metric, pair: .key}
            + if $unit == "" then {n: 64, seconds: .value | tonumber} else {value: .value | tonumber, $unit} end' --args "$@"
}
judged() { # TARGET: its median, interval, n and verdict
    jq -r --arg t "$1" 'def r: . * 1000 | round / 1000; .targets[] | select(.name == $t)
        | (.found | "\(.median | r) \(.low | r) \(.high | r) \(.n)") + " \(.verdict)"' "$T/report/results.json"
}

@test "bench: a broken line of samples is named" {
    local line says good='"case":"a","side":"b","metric":"c"'
    while IFS='|' read -r line says; do
        printf '{%s,"seconds":1}\n\n%s\n{%s,"seconds":1}\n' "$good" "${line//GOOD/$good}" "$good" >"$T/samples"
        complains 1 "samples:3: $says" tests/bench/report.sh "$T/report" "$T/samples"
    done <<'EOF'
{|not JSON
{GOOD,"seconds":1} {}|not JSON
[1]|not a JSON object
{"case":"a","side":"b","seconds":1}|case, side and metric
{"case":"a b","side":"b","metric":"c","seconds":1}|case, side and metric
{GOOD,"value":1}|either seconds
{GOOD,"seconds":1,"value":1,"unit":"us"}|either seconds
{GOOD,"seconds":0}|seconds and n
{GOOD,"seconds":"1"}|no number
{GOOD,"value":NaN,"unit":"us"}|no
{GOOD,"seconds":1,"pair":1.5}|pair
{GOOD,"seconds":1,"n":0}|seconds and n
{GOOD,"seconds":1,"speed":2}|unknown key
EOF
    samples_of a b c '' 1 1 >"$T/samples"
    samples_of a b c '' 1 >"$T/more"
    complains 1 "more:1: this pair was there before" tests/bench/report.sh "$T/report" "$T/samples" "$T/more"
}

@test "bench: what samples say of the targets" {
    # Of the ratios of 20 pairs, 0.8 to 2.7, five are left out on either side; five pairs decide nothing.
    mapfile -t spread < <(seq 0.8 0.1 2.75 | awk '{ print 1 / $1 }')
    mapfile -t ones < <(printf '1\n%.0s' {1..20})
    {
        samples_of cpu-135M native tg64 '' "${ones[@]}"
        samples_of cpu-135M apir tg64 '' "${spread[@]}"
        samples_of cpu-135M native pp128 '' 1 1 1 1 1
        samples_of cpu-135M apir pp128 '' 1 1 1 1 1
        samples_of gpu-1B native load '' 1 1 1 1 1 1 | jq -c 'del(.n)'
        samples_of gpu-1B apir load '' 1.2 1.2 1.2 1.2 1.2 1.2 | jq -c 'del(.n)'
        # Of 64 tokens: 0.3 ms more for each.
        samples_of vm-135M native tg64 '' 0.064 0.128 0.064 0.064 0.064 0.064
        samples_of vm-135M apir tg64 '' 0.0832 0.1472 0.0832 0.0832 0.0832 0.0832
        # Beside memcpy's rate in the same round, of which nine are enough.
        samples_of vm-link apir memcpy GB/s 0.5 1 2 100 100 100
        samples_of vm-link apir set GB/s 0.51 1.02 2.04 9.18 9.18 9.18
        samples_of vm-link apir get GB/s 0.4 0.8 1.6 8 8 8
        samples_of memory native memory-process MiB 70 80 80
        samples_of memory apir memory-worker MiB 60 90 92
        echo '{"case":"overhead","side":"apir","metric":"added-p50","value":10,"unit":"us","commit":"5e009a9"}'
        echo '{"case":"overhead","side":"apir","metric":"added-p99","value":50.1,"unit":"us"}'
        echo '{"facts":{"cpu":"a CPU"}}'
    } >"$T/samples"
    run -0 tests/bench/report.sh "$T/report" "$T/samples"
    [[ ${lines[-1]} == "bench: 5 of 10 targets met" && $output == *"- cpu: a CPU"* && $output == *"- commits: 5e009a9"* ]]
    [[ $(judged cpu-135M-tg) == "1.75 1.3 2.2 20 met" ]]
    [[ $(judged cpu-135M-pp128) == "1 1 1 5 undecided" ]]
    [[ $(judged gpu-1B-load) == "1.2 1.2 1.2 6 missed" ]]
    [[ $(judged vm-135M-added) == "0.3 0.3 0.3 6 met" ]]
    [[ $(judged vm-link-set) == "1.02 1.02 1.02 6 met" ]]
    [[ $(judged vm-link-get) == "0.844 0.8 0.889 6 missed" ]]
    [[ $(judged memory-beyond) == "12 12 12 1 met" ]]
    [[ $(judged memory-growth) == "2 2 2 1 missed" ]]
    [[ $(judged overhead-p50) == "10 10 10 1 met" ]]
    [[ $(judged overhead-p99) == "50.1 50.1 50.1 1 missed" ]]
    # One side alone is nothing to compare; what was not run counts for nothing.
    jq -e '.targets | (map(.name) | unique | length) == length and (map(select(.name == "idle").verdict) == ["not run here"])' \
        "$T/report/results.json"
    run -0 tests/bench/report.sh "$T/report" --targets vm-link "$T/samples"
    [[ ${lines[-1]} == "bench: 1 of 2 targets met" ]]
}
