#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# ggml's public interface on APIR0, with every result checked, and the ways of programs that
# fork, exit and thread without a thought for us. What has a meaning there runs on the CPU
# device too: a check that fails on both is wrong.

load system.bash

both() {
    timeout "$(patience 120)" "$EXERCISE" "$1" CPU >"$T/cpu.out" 2>"$T/cpu.err"
    server_start
    exercise "$1" APIR0
    refute grep '^apir:' "$T/exercise.err"
}

@test "client: a hundred computations" { both compute; }
@test "client: computations after naps of all lengths" { both naps; }
@test "client: set, get, 2d, memset, clear" { both transfers; }
@test "client: copies between ranges that overlap" { both copies; }
@test "client: many buffers, one too large, reset" { both buffers; }
@test "client: the thread that loaded the backends has ended" { both loader-thread; }

# Natively such a graph ends the program.
@test "client: a graph that fails on the host says which operation and tensor, and the next ones compute" {
    server_start
    exercise graph-fails
    grep -E 'GET_ROWS.*picked_rows' "$T/exercise.err"
}

@test "client: a second load_all gives one registration" {
    server_start
    exercise load-twice
    [[ $(tail -n 1 "$T/exercise.out") == "1 registrations, 1 devices" ]]
}

@test "client: fork after load: the child fails cleanly, the parent goes on" {
    server_start
    exercise fork
}

@test "client: fork while another thread computes" {
    server_start
    exercise fork-busy
}

@test "client: main returns while a thread computes" {
    # Not compared with the CPU: its own destructors crash under a running computation.
    server_start
    local i
    for ((i = 0; i < 20; i++)); do
        timeout -k 1 "$(patience 20)" env "${REMOTE[@]}" "$EXERCISE" exit >"$T/exit.out" 2>"$T/exit.err"
    done
    wait_until 10 n_workers_is 0
}
