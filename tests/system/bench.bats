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

@test "bench: who must pick the first side's tokens is a side after it" {
    local name
    for name in native rpc; do
        gives 2 "none of the sides after the first" "$BENCH" llama --model "$MODEL" --side native=CPU \
            --side apir=APIR0 --same "$name"
    done
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

@test "bench: a peer that dies, or never was, is an error" {
    server_start
    serve --pp 16 --tg 8
    kill "$SERVED"
    local rc=0
    wait "$SERVED" || rc=$?
    [[ $rc -ne 0 ]]
    complains 1 "asking the peer for its turn: Broken pipe" \
        remote "$BENCH" llama --model "$MODEL" --side "native=peer:$PEER" \
        --side apir=APIR0 --pp 16 --pairs 2
    complains 1 "the peer's turn: " remote "$BENCH" llama --model "$MODEL" --side native=peer:0,1 --pp 16 \
        --side apir=APIR0 --pairs 2 </dev/null
    complains 1 "give two open descriptors" "$BENCH" llama --model "$MODEL" --side native=peer:x --pp 16
}

@test "bench: who serves says what it cannot do, and refuses what is no question" {
    run -1 --separate-stderr "$BENCH" serve --model "$T/absent" --side native=CPU </dev/null
    [[ $output == "error: "*"absent cannot be loaded on CPU"* ]]
    run -1 --separate-stderr "$BENCH" serve --model "$MODEL" --side native=CPU <<<'turn now'
    [[ $output == "error: asked for 'turn now', not for 'turn 512 1 64 0'"* ]]
    run -0 "$BENCH" serve --model "$MODEL" --side native=CPU <<<end
    [[ -z $output ]]
    gives 2 "one side" "$BENCH" serve --model "$MODEL" --side native=CPU --side apir=APIR0
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
    local options a
    for options in "--side native=CPU" "--side native=peer:0,1" "--side native=peer:0,1,0"; do
        # shellcheck disable=SC2086 # words on purpose
        complains 1 "peer:" "$BENCH" llama --model "$MODEL" $options --at-once --pp 4 --tg 0 </dev/null
    done
    for options in "--pp 4 --tg 4" "--pp 4 --tg 0 --settle" "--pp 4 --tg 0 --cores 0"; do
        # shellcheck disable=SC2086 # words on purpose
        gives 2 "prompts or tokens alone" "$BENCH" llama --model "$MODEL" --side native=peer:0,1,1 --at-once $options
    done
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

@test "bench: a core for each side, which is there" {
    local text pid
    for text in -1 0, ,0 0,x +0 ' 0' 99999999 1024 0,0,0,0,0,0,0,0,0 ''; do
        gives 2 "give numbers of cores, one for each side" \
            "$BENCH" llama --model "$MODEL" --side native=CPU --cores "$text"
    done
    gives 2 "--cores names 2 cores for 1 sides" "$BENCH" llama --model "$MODEL" --side native=CPU --cores 0,0
    gives 1 "--cores: core 1023" "$BENCH" llama --model "$MODEL" --side native=CPU --pp 4 --tg 0 --cores 1023
    [[ $(nproc) -gt 1 ]] || return 0 # it is there anyhow
    "$BENCH" llama --model "$MODEL" --side native=CPU --pp 4 --tg 0 --cores 1 --pairs 100000 \
        --out "$T/samples" 3>&- &
    pid=$!
    JOBS_STARTED+=("$pid")
    wait_until 10 grep -q 'Cpus_allowed_list:[[:space:]]*1$' "/proc/$pid/status"
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
    local text a sleeper
    for text in -1 0 1, ,1 x 1,x 99999999 ''; do
        gives 2 "give numbers of processes" "$BENCH" llama --model "$MODEL" --side native=CPU --cores 0 --swap "$text"
    done
    for text in "" "--cores 0,0,0" "--cores 0,1,2"; do
        # shellcheck disable=SC2086 # words on purpose
        gives 2 "--swap: give --cores with two different ones" \
            "$BENCH" llama --side native=peer:0,1 --side a=peer:0,1 --side b=peer:0,1 $text --swap 1
    done
    taskset -c 0 sleep 1000 3>&- &
    sleeper=$!
    JOBS_STARTED+=("$sleeper")
    wait_until 10 grep -q sleep "/proc/$sleeper/comm"
    gives 1 "process $sleeper is on core 0, which is not in --cores" \
        "$BENCH" llama --side native=peer:0,1 --side a=peer:0,1 --cores 1,1023 --swap "$sleeper"
    [[ $(nproc) -gt 1 ]] || return 0 # no other core to change to
    gives 1 "may use more than one core" \
        "$BENCH" llama --side native=peer:0,1 --side a=peer:0,1 --cores 1,0 --swap "$BASHPID"

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

@test "bench: llama.cpp's own programs in turns, each on its side" {
    server_start
    local side=(--model "$MODEL" --side native=CPU --side apir=APIR0 --pairs 1 --out "$T/samples")
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    remote "$BENCH" default "${side[@]}" --pp 16 --tg 8
    remote "$BENCH" start "${side[@]}" --seconds 0.1
    remote "$BENCH" server "${side[@]}" --slots 2 --requests 3
    run -0 jq -rs 'map(.side + " " + .metric) | sort | join(",")' "$T/samples"
    [[ $output == "apir cpu-client,apir first-p50,apir first-p99,apir memory-client,apir pp16,apir server,apir start,\
apir tg8,native cpu-client,native first-p50,native first-p99,native memory-client,native pp16,native server,\
native start,native tg8" ]]
    # The answers' lengths are ours: 64, 16 and 96.
    jq -es 'map(select(.metric == "server")) | all(.n == 176 and .seconds > 0)' "$T/samples"
    # Nothing of a program's is left.
    rmdir "$TMPDIR"
}

@test "bench: embeddings, batches, a slot's state, a cold file" {
    server_start
    local side=(--model "$MODEL" --side native=CPU --side apir=APIR0 --pairs 1 --out "$T/samples")
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    remote "$BENCH" server "${side[@]}" --slots 2 --requests 3 --embeddings --server "$VTEST_PID"
    remote "$BENCH" batched "${side[@]}" --pp 16 --tg 8 --slots 2
    remote "$BENCH" state "${side[@]}" --pp 32
    # A file of its own: what other tests have mapped stays in the cache.
    cp "$MODEL" "$T/cold.gguf"
    remote "$BENCH" load "${side[@]}" --model "$T/cold.gguf" --cold
    run -0 jq -rs 'map(select(.side == "apir").metric) | sort | join(",")' "$T/samples"
    [[ $output == "cpu-client,cpu-host,first-p50,first-p99,load-cold,memory-client,memory-host,pp-1,pp-2,restore,save,\
server,tg-1,tg-2" ]]
    # The prompts' lengths are ours: 7, 241 and 43.
    jq -es 'map(select(.metric == "server")) | length == 2 and all(.n == 291 and .seconds > 0)' "$T/samples"
    jq -es 'map(select(.metric == "save" or .metric == "cpu-host")) | all((.seconds // .value) > 0)' "$T/samples"
    rmdir "$TMPDIR"
}

@test "bench: a program that has no APIR0, or fails, is an error" {
    complains 1 "llama-bench on apir: its output is no list" \
        "$BENCH" default --model "$MODEL" --side apir=APIR0 --pairs 1 --pp 16 --tg 0
    complains 1 "llama-completion on native: it has ended without a token" \
        "$BENCH" start --model "$T/absent" --side native=CPU --pairs 1
    complains 1 "llama-server on native: it does not get ready" \
        "$BENCH" server --model "$T/absent" --side native=CPU --pairs 1
}
