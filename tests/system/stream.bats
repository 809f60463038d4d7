#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The framing of virglrenderer's macOS port: stock virglrenderer, a proxy of ours that speaks it
# (stream_proxy.c), and our server behind that.

load system.bash

setup() {
    common_setup
    model_small
}

# stream_start [VARIABLE=VALUE]...
stream_start() {
    VTEST_ENV=("RENDER_SERVER_EXEC_PATH=$(realpath "$OUT/tests/system/stream-proxy")"
        "STREAM_PROXY_SERVER=$(realpath "${STREAM_PROXY_SERVER:-$OUT/backend/apir-render-server}")" "$@")
    server_start
}

# All of what clients do with the host's memory and its answers, and tokens.
compute() {
    all_as_natively
    # It was this road that they came by: one context for each of the four (a run that lost its end came again).
    [[ $(grep -c 'stream-proxy: a context over a stream' "$VTEST_LOG") -ge 4 ]]
    # Nothing is left of those that have ended.
    wait_until 10 n_workers_is 0
    wait_until 10 no_zombie_below
    refute grep -E 'protocol violation|malformed|stream-proxy: [^a]' "$VTEST_LOG"
}

@test "stream: a length before each message, descriptors with it" {
    stream_start
    compute
}

@test "stream: each byte by itself" {
    stream_start STREAM_PROXY_SLOW=1
    compute
}

@test "stream: the end of a worker is told, the server serves on" {
    stream_start
    hold_start
    wait_until 10 n_workers_is 1
    kill -KILL "$(workers)"
    wait_until 10 n_workers_is 0
    echo go >&"$TALK"
    exec {TALK}>&-
    wait_until 20 gone "$JOB"
    exercise compute
}
