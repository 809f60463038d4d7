#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The program behind `make bench`: what decides about targets must itself be right. Its figures
# are not tested, but that sides which cannot be one process take turns, and that a run which
# measures something else than it says ends with an error.

load system.bash

setup() {
    common_setup
    BENCH=$OUT/tests/bench/apir-bench
    model 3M --arch llama --preset 3M --type q8_0
}

# serve OPTION...: in the background, on core SERVE_CORE if that is set. PEER: its descriptors;
# `served` waits for its exit code.
serve() {
    rm -f "$T/questions" "$T/answers"
    mkfifo "$T/questions" "$T/answers"
    ${SERVE_CORE:+taskset -c "$SERVE_CORE"} "$BENCH" serve --model "$MODEL" --side native=CPU "$@" \
        <"$T/questions" >"$T/answers" 2>"$T/serve.err" 3>&- &
    SERVED=$!
    JOBS_STARTED+=("$SERVED")
    exec {to}>"$T/questions" {from}<"$T/answers"
    PEER=$from,$to
}

served() {
    exec {to}>&- {from}<&-
    wait "$SERVED"
}

@test "bench: a process and a remoted one in turns compute the same" {
    server_start
    serve --pp 16 --tg 8 --settle
    remote "$BENCH" llama --model "$MODEL" --side "native=peer:$PEER" --side apir=APIR0 --pp 16 --tg 8 \
        --pairs 2 --same apir --settle --case turns --out "$T/samples" 2>"$T/llama.err"
    served
    grep -qx 'apir-bench: turns: apir: greedy tokens as native in 2 of 2 pairs' "$T/llama.err"
    [[ $(jq -r '[.side, .metric, .pair] | join(" ")' "$T/samples" | sort -u | wc -l) -eq 8 ]]
    jq -es 'all(.seconds > 0)' "$T/samples" >/dev/null
}

@test "bench: other tokens than the first side's are an error of whom --same names, and a note of others" {
    local mine=$MODEL other
    server_start
    model other --arch llama --preset 3M --type q8_0 --seed 2
    other=$MODEL
    MODEL=$other serve --pp 16 --tg 8
    MODEL=$mine
    run -0 --separate-stderr remote "$BENCH" llama --model "$MODEL" --side native=CPU --side "other=peer:$PEER" \
        --side apir=APIR0 --pp 16 --tg 8 --pairs 1 --same apir --out "$T/samples"
    grep -q 'other picks other tokens than native' <<<"$stderr"
    served
    MODEL=$other serve --pp 16 --tg 8
    complains 1 "and --same forbids it" \
        remote "$BENCH" llama --model "$mine" --side native=CPU --side "other=peer:$PEER" \
        --pp 16 --tg 8 --pairs 1 --same other --out "$T/samples"
    served || :
}

@test "bench: a peer that measures something else is an error" {
    server_start
    local options
    for options in "--pp 16 --tg 4" "--pp 32 --tg 8" "--pp 16 --tg 8 --settle"; do
        # shellcheck disable=SC2086 # words on purpose
        serve $options
        complains 1 "the peer: error: asked for 'turn 16 1 8 0', not for " \
            remote "$BENCH" llama --model "$MODEL" --side "native=peer:$PEER" \
            --side apir=APIR0 --pp 16 --tg 8 --pairs 2 --out "$T/samples"
        [[ ! -s $T/samples ]]
        local rc=0
        served || rc=$?
        [[ $rc -eq 1 ]]
    done
}

@test "bench: a peer that dies is an error" {
    server_start
    serve --pp 16 --tg 8
    kill "$SERVED"
    local rc=0
    wait "$SERVED" || rc=$?
    [[ $rc -ne 0 ]]
    complains 1 "asking the peer for its turn: Broken pipe" \
        remote "$BENCH" llama --model "$MODEL" --side "native=peer:$PEER" \
        --side apir=APIR0 --pp 16 --pairs 2
}

@test "bench: sides at once on one core are not charged with each other's time" {
    # Long turns: of a wait before one, some milliseconds may be counted in it.
    local a began took first second ticks
    SERVE_CORE=0 serve --pp 512 --tg 0
    a=$PEER,$SERVED first=$SERVED
    SERVE_CORE=0 serve --pp 512 --tg 0
    second=$SERVED
    began=${EPOCHREALTIME/./}
    APIR_BENCH_COMMIT=v1-2-gabc timeout "$(patience 120)" "$BENCH" llama --side "native=peer:$a" --side "other=peer:$PEER,$SERVED" \
        --at-once --pp 512 --tg 0 --pairs 40 --first 7 --out "$T/samples"
    took=$((${EPOCHREALTIME/./} - began))
    ticks=$(($(cpu_ticks "$first") + $(cpu_ticks "$second")))
    [[ $(jq -c 'del(.seconds, .time)' "$T/samples" | sort) == \
        '{"case":"llama","side":"native","metric":"pp512-at-once","pair":7,"n":20480,"commit":"v1-2-gabc"}
{"case":"llama","side":"other","metric":"pp512-at-once","pair":7,"n":20480,"commit":"v1-2-gabc"}' ]]
    jq -es --argjson us "$began" 'all((.time | fromdate) * 1e6 > $us)' "$T/samples" >/dev/null
    # Together they cannot have had more than one core. On the clock it was twice that. And it is what they
    # have computed, but for their start.
    jq -es --argjson us "$took" --argjson ticks "$ticks" \
        'map(.seconds * 1e6) | min > 0 and add < $us and add > $ticks * 1e4 / 3' "$T/samples" >/dev/null
}

@test "bench: sides at once must be peers whose processes share a core" {
    local a
    [[ $(nproc) -gt 1 ]] || return 0 # one core is all there is
    SERVE_CORE=0 serve --pp 4 --tg 0
    a=$PEER,$SERVED
    SERVE_CORE=1 serve --pp 4 --tg 0
    complains 1 "native is computed on core 0 and other on core 1" \
        timeout "$(patience 120)" "$BENCH" llama --side "native=peer:$a" \
        --side "other=peer:$PEER,$SERVED" --at-once --pp 4 --tg 0
    serve --pp 4 --tg 0
    complains 1 "may use more than one core" timeout "$(patience 120)" "$BENCH" llama \
        --side "native=peer:$PEER,$SERVED" --at-once --pp 4 --tg 0
}

# The core, or cores, that a process may use.
cores_of() { awk '$1 == "Cpus_allowed_list:" { print $2 }' "/proc/$1/status"; }

# A peer whose turns take as many seconds as its core's number, and one more; it writes down where it
# is and where who asks is. PEER and SERVED as of `serve`.
serve_cores() { # FILE
    rm -f "$T/questions" "$T/answers"
    mkfifo "$T/questions" "$T/answers"
    (
        while read -r line && [[ $line == turn* ]]; do
            own=$(cores_of "$BASHPID")
            echo "$own $(cores_of "$(<"$T/pid")")" >>"$1"
            echo "turn $((own + 1)) 0"
        done
    ) <"$T/questions" >"$T/answers" 3>&- &
    SERVED=$!
    JOBS_STARTED+=("$SERVED")
    exec {to}>"$T/questions" {from}<"$T/answers"
    PEER=$from,$to
}

@test "bench: pairs of two rounds, in the second everybody has changed cores" {
    local a text sleeper
    [[ $(nproc) -gt 1 ]] || return 0 # no other core to change to
    taskset -c 0 sleep 1000 3>&- &
    sleeper=$!
    JOBS_STARTED+=("$sleeper")
    wait_until 10 grep -q sleep "/proc/$sleeper/comm"

    serve_cores "$T/native"
    taskset -cp 1 "$SERVED"
    a=$PEER,$SERVED text=$SERVED
    serve_cores "$T/other"
    taskset -cp 0 "$SERVED"
    # shellcheck disable=SC2016 # it is the inner shell's
    timeout "$(patience 60)" bash -c 'echo $$ >"$0" && exec "$@"' "$T/pid" "$BENCH" llama --side "native=peer:$a" \
        --side "other=peer:$PEER" --cores 1,0 --swap "$text,$SERVED,$sleeper" --pp 4 --tg 0 --pairs 2 \
        --out "$T/samples"
    # Three warm-ups, then two pairs, each there and back.
    [[ $(paste -sd ' ' "$T/native") == "1 1 1 1 1 1 1 1 0 0 1 1 0 0" ]]
    [[ $(paste -sd ' ' "$T/other") == "0 0 0 0 0 0 0 0 1 1 0 0 1 1" ]]
    [[ $(jq -r '[.side, .metric, .pair, .seconds] | join(" ")' "$T/samples" | sort | paste -sd ' ') == \
        "native pp4 0 1.5 native pp4 1 1.5 other pp4 0 1.5 other pp4 1 1.5" ]]
    [[ $(cores_of "$sleeper") == 0 ]]
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
    programs batched --pp 16 --tg 8 --slots 2
    programs state --pp 32
    programs server --slots 2 --requests 3 --server "$VTEST_PID"
    programs server --case embeddings --slots 2 --requests 3 --answers embeddings
    run -0 jq -rs 'map(select(.case != "embeddings") | .side + " " + .metric) | sort | join(",")' "$T/samples"
    [[ $output == "apir cpu-client,apir cpu-host,apir first-p50,apir first-p99,apir memory-client,apir memory-host,apir pp-1,\
apir pp-2,apir pp16,apir restore,apir save,apir server,apir start,apir tg-1,apir tg-2,apir tg8,native cpu-client,\
native first-p50,native first-p99,native memory-client,native pp-1,native pp-2,native pp16,native restore,native save,\
native server,native start,native tg-1,native tg-2,native tg8" ]]
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
    complains 1 "server on native: it does not get ready" \
        tests/bench/programs.sh server --model "$T/absent" --side native=CPU --pairs 1 --out "$T/samples"
}

@test "bench: a cold file" {
    server_start
    # A file of its own: what other tests have mapped stays in the cache.
    cp "$MODEL" "$T/cold.gguf"
    remote "$BENCH" load --model "$T/cold.gguf" --side native=CPU --side apir=APIR0 --pairs 1 --cold --out "$T/samples"
    jq -es 'map(.metric) == ["load-cold", "load-cold"]' "$T/samples"
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
        samples_of cpu-135M native pp512-at-once '' 1 1 1 1 1
        samples_of cpu-135M apir pp512-at-once '' 1 1 1 1 1
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
    [[ $(judged cpu-135M-pp512) == "1 1 1 5 undecided" ]]
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
