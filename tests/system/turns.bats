#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Classes that take turns ("weight"): two servers of one folder, the host's CPU as the device that both want.

load system.bash

setup() {
    common_setup
    SYSTEM_TRANSPORT=unix
    export XDG_RUNTIME_DIR=$T
    [[ ! -w /run/apir/top ]] || skip "this machine's own servers are in /run/apir/top"
    mkdir "$T/limits"
    model_small
}

# first KEYS; second KEYS: a server whose configuration has them. "${REMOTE[@]}" and "${SECOND[@]}": their clients.
keys() {
    printf '"threads": %s, "limits_dir": "%s", "spare_workers": 0, "shader_seconds": 0%s' "${THREADS:-0}" "$T/limits" "$1"
}
first() {
    VTEST_ENV+=("XDG_RUNTIME_DIR=$T")
    VTEST_CONFIG="{$(keys "$1")}"
    server_start
}
second() {
    echo "{$(keys "$1")}" >"$T/second.json"
    env APIR_CONFIG="$T/second.json" "$OUT/backend/apir-render-server" --listen "$T/second.sock" \
        >"$T/second.log" 2>&1 </dev/null 3>&- &
    SECOND_PID=$!
    JOBS_STARTED+=("$SECOND_PID")
    wait_until 20 grep -q listening "$T/second.log"
    SECOND=("${REMOTE[@]}" "APIR_TRANSPORT=unix:$T/second.sock")
}

in_log() { grep -q "$@" "$VTEST_LOG"; }

# busy NAME ENVIRONMENT...: prompts without end.
busy() {
    local name=$1
    shift
    env "$@" llama-bench -m "$MODEL" -dev APIR0 -p 2048 -ub 64 -n 0 -r 1000000 >"$T/$name.out" 2>"$T/$name.err" </dev/null 3>&- &
    JOBS_STARTED+=("$!")
}

# looks: sets GRAPHS, how many programs of the two servers have computed.
looks() {
    mapfile -t GRAPHS < <("$APIR" top --once --json --interval 0.1 |
        jq -r '.servers | sort_by(.class | endswith("second.sock")) | .[] | .contexts[0].graphs // 0')
}
# Each of the two has computed N more than when FROM was taken.
since() { looks && ((GRAPHS[0] >= FROM[0] + $1 && GRAPHS[1] >= FROM[1] + $1)); }
sum_since() { looks && ((GRAPHS[0] + GRAPHS[1] >= FROM[0] + FROM[1] + $1)); }

two_busy() {
    busy first "${REMOTE[@]}"
    busy second "${SECOND[@]}"
    FROM=(0 0)
    wait_until 60 since 3
}

@test "turns: what two classes get is what their weights say" {
    first ', "weight": 2'
    second ', "weight": 20'
    two_busy
    FROM=("${GRAPHS[@]}")
    wait_until 120 sum_since 110
    # 10 and 100, where neither pauses (server_order_test has it exactly); without turns each has half. On a busy
    # machine one pauses whenever its program does not get a core.
    local a=$((GRAPHS[0] - FROM[0])) b=$((GRAPHS[1] - FROM[1]))
    echo "$a and $b"
    ((2 * b >= 3 * a))
    [[ -e $T/limits/turns.lock ]]
    # What they compute meanwhile is right.
    remote "$EXERCISE" compute
}

@test "turns: without a weight nobody takes any" {
    first ''
    remote "$EXERCISE" compute
    [[ $(ls "$T/limits") != *turns* ]]
}

@test "turns: the end of a server that gives them out, and one that is stopped, hold up nobody" {
    first ', "weight": 1'
    second ', "weight": 1'
    two_busy
    kill -STOP "$VTEST_PID"
    # Its socket answers nobody now, apir top included.
    wait_until 60 second_goes_on
    kill -CONT "$VTEST_PID"
    FROM=(0 0)
    looks
    FROM=("${GRAPHS[@]}")
    wait_until 60 since 3
    kill -KILL "$VTEST_PID"
    wait_until 60 second_goes_on
    [[ $(find "$T/limits" -name 'turns-*' | wc -l) -eq 1 ]]
}
# More of the second one's, counted from now.
second_goes_on() {
    local now
    now=$(second_graphs) && [[ -n $now ]] && wait_until 30 second_beyond "$((now + 5))"
}
second_beyond() { (($(second_graphs) >= $1)); }
second_graphs() {
    "$APIR" top --once --json --interval 0.1 |
        jq -r '.servers[] | select(.class | endswith("second.sock")) | .contexts[0].graphs'
}

@test "turns: a worker that is stopped in its turn, and one that is killed, hold up nobody" {
    first ', "weight": 1'
    second ', "weight": 1'
    two_busy
    kill -STOP "$(workers)"
    wait_until 60 second_goes_on
    wait_until 20 in_log 'stopped and not continued'
    busy third "${REMOTE[@]}"
    wait_until 30 n_workers_is 1
    FROM=(0 0)
    wait_until 60 since 3
    kill -KILL "$(workers)"
    wait_until 60 second_goes_on
}

# prompts KEYS DEVICE ENV...: on servers with KEYS several graphs that take long, all but the first in parts, beside another
# class's; natively on DEVICE with ENV.
prompts() {
    local run=("$OUT/tests/native/options/logits" --model "$MODEL" --fa on --prompt-tokens 1536 --ubatch 512 --gen 4)
    VTEST_ENV+=(APIR_LOG=debug)
    first ", \"weight\": 1, \"latency\": true$1"
    second ", \"weight\": 1$1"
    busy second "${SECOND[@]}"
    env -u GGML_BACKEND_PATH "${@:3}" "${run[@]}" --device "$2" --out "$T/native"
    remote "${run[@]}" --device APIR0 --out "$T/remote"
    "$OUT/tests/native/options/options-compare" "$T/native" "$T/remote"
    in_log 'a graph in parts'
}

@test "turns: prompts in parts have the logits that they have natively" {
    THREADS=1 prompts '' CPU GGML_VK_VISIBLE_DEVICES=
}

# bats test_tags=long
@test "turns: the same through Vulkan" {
    vulkan
    export VK_DRIVER_FILES=$LAVAPIPE GGML_VK_VISIBLE_DEVICES=0 LP_NUM_THREADS=1 # for the second server
    prompts ', "devices": ["Vulkan0"]' Vulkan0 "${VULKAN[@]}"
}
