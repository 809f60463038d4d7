#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Host buffers, events and random work, on every kind of worker: the CPU's, a Vulkan
# device (lavapipe: it has a queue, events, and copies from our memory itself), and both at once.
# What has a meaning there runs on the native device too.

load system.bash

# A program of its own per command: what one leaves behind must not help the next.
exercises() { # DEVICE COMMAND...
    local device=$1 command
    shift
    for command; do
        echo "$command $device"
        exercise "$command" "$device"
        refute grep '^apir:' "$T/exercise.err"
    done
    # Nobody was lost on the way.
    refute grep -E 'is lost|FATAL|fatal|Sanitizer' "$VTEST_LOG"
}

native() { # DEVICE COMMAND...
    local device=$1 command
    shift
    for command; do
        echo "$command $device, native"
        timeout "$(patience 120)" env ${VTEST_ENV[@]+"${VTEST_ENV[@]}"} "$EXERCISE" "$command" "$device" \
            >"$T/native.out" 2>"$T/native.err"
    done
}

# Random work, the same on the CPU itself (tests/native/differ): transfers of all sizes in every way, between streams, around
# graphs.
differs() { # DEVICE SEQUENCES
    local kinds
    for kinds in bulk transfer,copy,life; do
        echo "differ $1, $kinds"
        remote "$OUT/tests/native/differ/ggml-differ" --remote "$1" --only "$kinds" --without memset --seed 100 \
            --sequences "$2" --steps 40 2>"$T/differ.err"
    done
    refute grep -E 'is lost|FATAL|fatal|Sanitizer' "$VTEST_LOG"
}

# The same server with another build's programs, which check-system makes; the plug-in stays.
sanitized_start() {
    local out=${OUT%/*}/asan-clang
    VTEST_ENV+=(ASAN_OPTIONS=allocator_may_return_null=1)
    host_start "$out"
    mapfile -t REMOTE < <(vtest_env "$OUT")
    REMOTE+=("GGML_BACKEND_PATH=$(realpath "$PLUGIN")")
}

@test "memory: host buffers" {
    native CPU host-buffers
    server_start
    exercises APIR0 host-buffers
    # The borders were there to be crossed.
    grep -q 'across borders: before' "$T/exercise.out"
}

@test "memory: several threads fill one buffer" {
    native CPU filled
    server_start
    exercises APIR0 filled
}

@test "memory: events" {
    server_start
    exercises APIR0 events events-free
}

@test "memory: events in a child of a busy process" {
    server_start
    exercise events-fork
}

@test "memory: random work" {
    server_start
    differs APIR0 2
}

@test "memory: host buffers stay in place for a device that cannot make buffers of them" {
    VTEST_CONFIG="{\"ggml_backends_dir\": \"$(realpath "$OUT/tests/hostile/sandbox/backends")\", \"devices\": [\"STAMP0\"]}"
    local pinned unpinned try
    for try in {1..20}; do
        server_start
        exercises APIR0 filled
        pinned=$(grep -c 'stamp: [0-9]* bytes pinned' "$VTEST_LOG")
        [[ $pinned -gt 0 ]]
        # The last words of a worker that ends with its program may be lost.
        unpinned=$(grep -c 'stamp: unpinned' "$VTEST_LOG") || :
        [[ $unpinned -ne $pinned ]] || break
        vtest_stop
    done
    [[ $unpinned -eq $pinned ]]
}

# bats test_tags=long
@test "memory: what has a meaning there, on a Vulkan device itself" {
    vulkan
    native Vulkan0 host-buffers filled events
}

@test "memory: all of it on a Vulkan device" {
    vulkan
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0"]}'
    server_start
    exercises APIR0 host-buffers filled events events-free
    exercise events-fork
    differs APIR0 1
}

# Whoever has much under way waits for it.
# bats test_tags=long
@test "memory: a queue of 1 MiB on a Vulkan device" {
    vulkan
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0"], "context_queue_mib": 1}'
    server_start
    exercises APIR0 copies host-buffers events
    differs APIR0 1
}

@test "memory: two devices" {
    vulkan
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0", "CPU"]}'
    server_start
    exercises APIR0 devices
    grep -q 'two devices' "$T/exercise.out"
    exercises APIR0 events
    exercises APIR1 devices events host-buffers
    differs APIR1 1
}

# The same device twice, which ggml-vulkan takes for two: what one backend copies between its GPUs.
@test "memory: two devices of one backend" {
    vulkan
    VTEST_ENV=("${VTEST_ENV[@]}" GGML_VK_VISIBLE_DEVICES=0,0)
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0", "Vulkan1"]}'
    server_start
    exercises APIR0 devices
    grep -q 'two devices' "$T/exercise.out"
}

@test "memory: a sanitized worker" {
    sanitized_start
    exercises APIR0 host-buffers filled events events-free
    differs APIR0 1
}

# bats test_tags=long
@test "memory: a sanitized worker with two devices" {
    vulkan
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0", "CPU"]}'
    sanitized_start
    exercises APIR0 devices host-buffers events events-free
    exercises APIR1 devices
    differs APIR0 1
    differs APIR1 1
}

# ---- loss ---------------------------------------------------------------------------------

LIMIT_MS=2000

lose_host() { # SIGNAL: the worker of a program that is in the middle of transfers
    local since took
    # As in loss.bats: no silence ends it.
    REMOTE+=("APIR_SILENCE_SECONDS=3600")
    remote_job "host-$1" "$EXERCISE" host-lost
    busy_worker
    wait_until 20 grep -q ready "$T/host-$1.out"
    wait_until 20 computes "$WORKER" "$(cpu_ticks "$WORKER")"
    since=$(now_ms)
    kill "-$1" "$WORKER"
    wait_until 60 gone "$JOB"
    took=$(($(now_ms) - since))
    echo "ended $took ms after $1"
    in_time "$took" "$((LIMIT_MS + 1000))"
    cat "$T/host-$1.out" "$T/host-$1.err"
    wait "$JOB"
    grep -q 'as promised' "$T/host-$1.out"
    wait_until 10 n_workers_is 0
}

@test "memory: loss in the middle of host buffers" {
    server_start
    local signal
    for signal in KILL ABRT STOP KILL KILL; do lose_host "$signal"; done
}

@test "memory: loss in the middle of a device's own copies" {
    vulkan
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0"]}'
    server_start
    local signal
    for signal in KILL STOP; do lose_host "$signal"; done
}

@test "memory: reads given up after a loss touch nothing" {
    server_start
    remote_talk late "$EXERCISE" host-lost-late
    busy_worker
    wait_until 20 grep -q ready "$T/late.out"
    kill -KILL "$WORKER"
    echo go >&"$TALK"
    wait "$JOB"
    grep -q 'as promised' "$T/late.out"
}
