#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Limits of /etc/apir/backend.json: who is over one is told which, everybody else goes on. What
# holds for a device holds over all servers of the machine.

load system.bash

setup() {
    common_setup
    mkdir "$T/limits"
    declare -gA CLIENT_PID CLIENT_FD
    SERVER_A=() SERVER_B=()
}

teardown() {
    common_teardown
    # The other server, if there is one.
    if [[ ${#SERVER_A[@]} -gt 0 ]]; then
        VTEST_PID=${SERVER_A[0]} VTEST_DIR=${SERVER_A[2]}
        vtest_stop
    fi
}

config() { # MEMBERS
    VTEST_CONFIG="{\"threads\": 1, \"limits_dir\": \"$T/limits\", $1}"
}

# As for two VMs: a render server each. SERVER_A and SERVER_B: pid, log, folder; REMOTE_A, REMOTE_B.
# shellcheck disable=SC2153,SC2034 # system.bash's
two_servers() {
    server_start
    SERVER_A=("$VTEST_PID" "$VTEST_LOG" "$VTEST_DIR") REMOTE_A=("${REMOTE[@]}")
    VTEST_PID='' VTEST_DIR=''
    server_start
    SERVER_B=("$VTEST_PID" "$VTEST_LOG" "$VTEST_DIR") REMOTE_B=("${REMOTE[@]}")
}

# client NAME ENV...: a program that does what `tell` says.
client() {
    local name=$1 REMOTE=("${@:2}")
    remote_talk "$name" "$EXERCISE" limits
    CLIENT_PID[$name]=$JOB CLIENT_FD[$name]=$TALK
    wait_until 30 grep -q ready "$T/$name.out"
}

longer_than() { (($(wc -l <"$T/$1.out") > $2)); }

# tell NAME WORDS: sets TOLD, the answer.
tell() {
    local before
    before=$(wc -l <"$T/$1.out")
    echo "$2" >&"${CLIENT_FD[$1]}"
    wait_until 30 longer_than "$1" "$before"
    TOLD=$(tail -n 1 "$T/$1.out")
    echo "$1: $2: $TOLD"
}

# The answer is this one. On a busy machine others end more slowly than a request waits.
answers() { # NAME WORDS ANSWER
    tell "$1" "$2"
    [[ $TOLD == "$3" ]]
}

ends() { # NAME
    kill -KILL "${CLIENT_PID[$1]}"
    wait_until 10 gone "${CLIENT_PID[$1]}"
}

@test "limits: a device's memory is one for all servers, and a refusal says which limit" {
    config '"device_memory_mib": 100'
    two_servers
    client a "${REMOTE_A[@]}"
    client b "${REMOTE_B[@]}"
    answers a 60 "granted 60"
    # The other server's program is told how much there is before it asks.
    answers b memory "memory 40 of 100 MiB"
    answers b 41 "refused 41"
    grep -q 'apir: APIR0: the host has no buffer of 41 MiB: .*60 MiB.*device_memory_mib: 100' "$T/b.err"
    grep -q 'device_memory_mib' "${SERVER_B[1]}"
    # Its context lives, and nobody else has noticed.
    answers b 39 "granted 39"
    # No waiting for others would make room for that.
    answers b 62 "refused 62"
    grep -q 'this program has 39 MiB of the device, .*device_memory_mib: 100' "$T/b.err"
    tell b free
    answers b compute right
    answers a compute right
    refute grep -q '^apir:' "$T/a.err"
    # What is freed can be had by others.
    tell a free
    wait_until 20 answers b 90 "granted 90"
    answers a 20 "refused 20"
}

@test "limits: the end of a program, of its worker and of a server gives its share back" {
    config '"device_memory_mib": 100'
    two_servers
    local worker pid end
    for end in program worker server; do
        client "a-$end" "${REMOTE_A[@]}"
        client "b-$end" "${REMOTE_B[@]}"
        answers "a-$end" 80 "granted 80"
        answers "b-$end" 30 "refused 30"
        case $end in
        program) ends "a-$end" ;;
        worker)
            worker=$(VTEST_PID=${SERVER_A[0]} workers)
            kill -KILL "$worker"
            ;;
        server)
            pid=$(VTEST_PID=${SERVER_A[0]} server_pids apir-render-ser)
            # Stopped is not dead, and holds nobody up.
            kill -STOP "$pid"
            answers "b-$end" 30 "refused 30"
            kill -KILL "$pid"
            ;;
        esac
        # A worker's memory is free once its process is gone.
        wait_until 20 answers "b-$end" 30 "granted 30"
        [[ $end == program ]] || ends "a-$end"
        ends "b-$end"
        wait_until 10 n_workers_is 0
    done
    # The dead one's file is gone too; the living one's is there.
    client b "${REMOTE_B[@]}"
    tell b 1
    [[ $(find "$T/limits" -type f | wc -l) -eq 1 ]]
}

@test "limits: a program that ends while its request waits" {
    config '"device_memory_mib": 100'
    server_start
    client a "${REMOTE[@]}"
    client b "${REMOTE[@]}"
    client c "${REMOTE[@]}"
    tell a 80
    echo 50 >&"${CLIENT_FD[b]}"
    echo 90 >&"${CLIENT_FD[c]}"
    kill -KILL "${CLIENT_PID[b]}" "${CLIENT_PID[a]}"
    wait_until 10 longer_than c 1
    # Nobody has to be as quick as that on a busy machine.
    wait_until 20 answers c 5 "granted 5"
    wait_until 10 n_workers_is 1
    refute grep -q Sanitizer "$VTEST_LOG"
}

@test "limits: max_contexts_per_device, over all servers" {
    config '"max_contexts_per_device": 2'
    two_servers
    client a "${REMOTE_A[@]}"
    client b "${REMOTE_B[@]}"
    client c "${REMOTE_B[@]}"
    tell a compute
    tell b compute
    answers c open "not opened"
    grep -q 'apir: APIR0: the host opens no further backend: .*max_contexts_per_device: 2' "$T/c.err"
    answers c 1 "refused 1"
    # Once in, one may open more.
    answers b open opened
    ends a
    wait_until 20 answers c open opened
    answers c compute right
}

@test "limits: of one context: device memory, and main memory with what it shares" {
    config '"context_device_memory_mib": 50'
    server_start
    client a "${REMOTE[@]}"
    client b "${REMOTE[@]}"
    answers a memory "memory 50 of 50 MiB"
    answers a 51 "refused 51"
    grep -q 'context_device_memory_mib: 50' "$T/a.err"
    answers a 50 "granted 50"
    answers b 50 "granted 50"
    ends a
    ends b
    vtest_stop

    # Ring and arena are shared memory, 9 MiB.
    config '"context_host_memory_mib": 50'
    server_start
    client c "${REMOTE[@]}"
    answers c 45 "refused 45"
    grep -q 'context_host_memory_mib: 50' "$T/c.err"
    answers c 40 "granted 40"
    answers c compute right
}

# A worker takes what it asks for before it has the answer only where its server has no limits.
@test "limits: a server's hold for a worker that has read a configuration without any" {
    config '"context_device_memory_mib": 50'
    server_start
    client a "${REMOTE[@]}" # so the server has read it
    echo '{"threads": 1}' >"$VTEST_DIR/backend.json"
    client b "${REMOTE[@]}"
    tell b memory
    refute [ "$TOLD" = "memory 50 of 50 MiB" ]
    answers b 51 "refused 51"
    grep -q 'context_device_memory_mib: 50' "$T/b.err"
    answers b 50 "granted 50"
    tell b free
    answers b compute right
}

@test "limits: graphs of more than context_graph_mib fail, the context lives" {
    config '"context_graph_mib": 1'
    server_start
    client a "${REMOTE[@]}"
    client b "${REMOTE[@]}"
    answers a "graph 100" computed
    answers a "graph 4000" failed
    grep -q "apir: APIR0: a graph failed on the host: .*context_graph_mib" "$T/a.err"
    answers a "graph 200" computed
    answers b "graph 300" computed
}

# What the worker computes with, besides the threads that it has in any case: they stay. WORDS: compute,
# and as many threads as the program wants.
n_threads() { # NAME WORDS
    answers "$1" "$2" right
    find "/proc/$(workers)/task" -mindepth 1 -maxdepth 1 | wc -l >"$T/n_threads"
}

@test "limits: a worker computes with as many threads as the configuration says" {
    local n one
    for n in 1 2 5; do
        VTEST_CONFIG="{\"threads\": $n}"
        server_start
        client "with-$n" "${REMOTE[@]}"
        n_threads "with-$n" compute
        ends "with-$n"
        wait_until 10 n_workers_is 0
        echo "threads: $n: $(<"$T/n_threads")"
        [[ $n -ne 1 ]] || one=$(<"$T/n_threads")
        [[ $(<"$T/n_threads") -eq $((one + n - 1)) ]]
        vtest_stop
    done
}

@test "limits: a program computes with as many threads as it asks for, up to those of the configuration" {
    local asked one
    VTEST_CONFIG='{"threads": 3}'
    server_start
    client asks "${REMOTE[@]}"
    n_threads asks 'compute 1'
    one=$(<"$T/n_threads")
    for asked in 2 3 9; do
        n_threads asks "compute $asked"
        echo "asked for $asked: $(<"$T/n_threads"), with one $one"
        [[ $(<"$T/n_threads") -eq $((one + (asked < 3 ? asked : 3) - 1)) ]]
    done
    ends asks
}

# How often a device is waited for while a client queues transfers: counted in the worker, by a
# library in ggml's place (tests/hostile/faults/gate.h; the tenth of its points).
n_waits() { # MIB
    local gate=$T/gate-$1
    head -c 4096 /dev/zero >"$gate"
    VTEST_CONFIG="{\"threads\": 1, \"devices\": [\"Vulkan0\"], \"context_queue_mib\": $1,
        \"sandbox_write\": [\"$T\"], \"ggml\": \"$(realpath "$OUT")/tests/hostile/faults/gate-ggml.so\"}"
    VTEST_ENV=("${VULKAN[@]}" "APIR_GATE=$gate")
    server_start
    remote "$EXERCISE" host-buffers APIR0 >"$T/queue.out"
    vtest_stop
    WAITS=$(od -An -t u4 -j $((24 + 10 * 4)) -N 4 "$gate")
    echo "$1 MiB: waited $WAITS times"
}

@test "limits: more than context_queue_mib under way is waited for" {
    vulkan
    local few
    n_waits 256
    few=$WAITS
    n_waits 1
    # It queues some tens of MiB.
    [[ $few -gt 0 && $WAITS -ge $((few + 20)) ]]
}

@test "limits: a graph that takes longer than seconds_per_graph ends, others go on" {
    config '"seconds_per_graph": 1'
    server_start
    client other "${REMOTE[@]}"
    tell other compute
    local since status=0 took
    since=$(now_ms)
    remote "$EXERCISE" slow >"$T/slow.out" 2>"$T/slow.err" || status=$?
    took=$(($(now_ms) - since))
    cat "$T/slow.out" "$T/slow.err"
    echo "$took ms"
    [[ $status -eq 3 ]]
    grep -q 'status -1' "$T/slow.out"
    grep -q 'is lost: a graph took longer than the host allows (seconds_per_graph: 1)' "$T/slow.err"
    in_time "$took" 20000
    answers other compute right
    refute grep -q '^apir:' "$T/other.err"
    remote "$EXERCISE" compute
}

@test "limits: llama.cpp is told what there is, and says why more did not work" {
    config '"device_memory_mib": 5'
    server_start
    model_small
    client other "${REMOTE[@]}"
    local args=(-m "$MODEL" --device APIR0 "${GREEDY[@]}")
    run ! remote llama-completion "${args[@]}" -ngl 99
    echo "$output"
    [[ $output == *"failed to fit params to free device memory"* ]]
    [[ $output == *"apir: APIR0: the host has no buffer of "*"(device_memory_mib: 5)"* ]]
    # Left to itself it takes less of the device.
    remote llama-completion "${args[@]}" >"$T/text"
    [[ -s $T/text ]]
    answers other compute right
}

