#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A host that does not answer for a while, but is there, costs nobody anything; one that never does
# again ends its clients when APIR_SILENCE_SECONDS are over.

load system.bash

n_right() { grep -c right "$T/hold.out" || :; }
one_more() { (($(n_right) > $1)); }

@test "silence: server and worker stopped for five seconds, and nothing is lost" {
    server_start
    hold_start
    busy_worker
    local before server
    before=$(n_right)
    server=$(render_server)
    kill -STOP "$server" "$WORKER"
    echo go >&"$TALK"
    # Who comes meanwhile waits for the server itself.
    remote_job newcomer "$EXERCISE" compute
    pause 5
    [[ $(n_right) -eq $before ]]
    kill -CONT "$WORKER"
    kill -CONT "$server"
    wait_until 30 one_more "$before"
    wait "$JOB"
    refute grep -q '^apir:' "$T/hold.err" "$T/newcomer.err"
}

@test "silence: a host that stays stopped is lost when APIR_SILENCE_SECONDS are over" {
    server_start
    # Less than five is taken for five.
    REMOTE+=("APIR_SILENCE_SECONDS=1")
    hold_start
    busy_worker
    local server since took
    server=$(render_server)
    kill -STOP "$server" "$WORKER"
    since=$(now_ms)
    echo go >&"$TALK"
    wait_until 60 grep -q 'is lost: it does not answer' "$T/hold.err"
    took=$(($(now_ms) - since))
    echo "$took ms"
    # Only what it was run in time counts: on a busy machine it takes longer.
    ((took >= 5000))
}

@test "silence: a server whose log nobody reads serves all the same" {
    local log
    mkfifo "$T/log"
    exec {log}<>"$T/log"
    VTEST_DIR=$(mktemp -d "$T/unix.XXXXXX")
    VTEST_SOCKET=$VTEST_DIR/apir.sock VTEST_LOG=$T/none VTEST_TRANSPORT=unix
    echo '{"threads": 1, "max_contexts": 1}' >"$VTEST_DIR/backend.json"
    setsid env APIR_CONFIG="$VTEST_DIR/backend.json" \
        "$OUT/backend/apir-render-server" --listen "$VTEST_SOCKET" 2>"$T/log" >/dev/null 3>&- &
    VTEST_PID=$!
    wait_until 20 unix_listens
    mapfile -t REMOTE < <(vtest_env "$OUT")
    hold_start
    busy_worker
    # As many bytes as a pipe holds, less what is in it: nothing more goes in.
    dd if=/dev/zero of="$T/log" bs=1M oflag=nonblock 2>"$T/dd" || :
    grep -q 'Resource temporarily unavailable' "$T/dd"
    # A refusal is said to the log first.
    REMOTE+=("APIR_SILENCE_SECONDS=5")
    run ! remote "$EXERCISE" compute
    exec {log}>&-
    echo "$output"
    [[ $output == *max_contexts* ]]
}

# A long prompt on a slow CPU is such a graph: each of its operations is short.
@test "silence: a computation that gets on may take longer than seconds_per_graph" {
    # Three: a neighbour may have the core for a while, and none of these operations is to be as long as that.
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU"], "seconds_per_graph": 3}'
    server_start
    # Long enough for the server to have looked and looked again; how much that is to compute is an estimate.
    local try long=
    for try in 1 2 3 4 5; do
        remote "$EXERCISE" long >"$T/long.out" 2>"$T/long.err"
        cat "$T/long.out"
        refute grep -q '^apir:' "$T/long.err"
        long=$(awk '$1 == "computed" && $3 > 4.5' "$T/long.out")
        [[ -z $long ]] || break
    done
    [[ -n $long ]]
}
