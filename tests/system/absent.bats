#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Where there is no host to talk to, a program runs on its CPU as if we were not there; where the
# user asked for us, one line says why.

load system.bash

setup() {
    common_setup
    model_small
}

# bench [NAME=VALUE]...: a short run of whatever devices there are; sets stderr and the device.
bench() {
    run -0 --separate-stderr timeout -k 5 "$(patience 60)" env "$@" \
        llama-bench -m "$MODEL" -t 2 -p 8 -n 2 -r 1 -o json
    ran_on=$(jq -r '[.[].devices] | unique | join(",")' <<<"$output")
    backends=$(jq -r '[.[].backends] | unique | join(",")' <<<"$output")
    apir_lines=$(grep -c '^apir:' <<<"$stderr") || :
    echo "devices: $ran_on backends: $backends lines of ours: $apir_lines"
    [[ $backends != *APIR* && $ran_on != *APIR* ]]
}

# one_line PATTERN [NAME=VALUE]...: the same, and one line of ours, with this in it.
one_line() {
    bench "${@:2}"
    [[ $apir_lines -eq 1 ]]
    grep '^apir:' <<<"$stderr" | grep -qF -- "$1"
}

# A machine without DRM nodes, as most containers are.
without_nodes() {
    if [[ -e /dev/dri ]]; then
        # shellcheck disable=SC2016 # expanded by the inner shell
        unshare --mount sh -c 'mount -t tmpfs none /dev/dri && exec "$@"' sh "$@"
    else
        "$@"
    fi
}

@test "absent: without GGML_BACKEND_PATH nobody knows of us" {
    bench
    [[ $apir_lines -eq 0 ]]
    [[ $stderr != *apir* && $stderr != *APIR* ]]
}

@test "absent: no node, nothing asked for: not a word, and the CPU's answer" {
    local plain
    bench
    plain=$backends
    run -0 --separate-stderr without_nodes timeout "$(patience 60)" env GGML_BACKEND_PATH="$PLUGIN" \
        llama-bench -m "$MODEL" -t 2 -p 8 -n 2 -r 1 -o json
    [[ $(jq -r '[.[].backends] | unique | join(",")' <<<"$output") == "$plain" ]]
    refute grep -q '^apir:' <<<"$stderr"

    local without with
    without=$(greedy timeout "$(patience 60)" llama-completion -m "$MODEL" "${GREEDY[@]}")
    with=$(GGML_BACKEND_PATH=$PLUGIN greedy without_nodes timeout "$(patience 60)" \
        llama-completion -m "$MODEL" "${GREEDY[@]}")
    [[ -n $without && $without == "$with" ]]
}

@test "absent: with APIR_LOG=info it says that there is no node" {
    run -0 --separate-stderr without_nodes timeout "$(patience 60)" env GGML_BACKEND_PATH="$PLUGIN" APIR_LOG=info \
        llama-bench -m "$MODEL" -t 2 -p 8 -n 2 -r 1 -o json
    [[ $(grep -c '^apir:' <<<"$stderr") -eq 1 ]]
    grep -q '^apir: no virtio-gpu render node' <<<"$stderr"
}

@test "absent: a stock render server: one line, with what to do" {
    local stock=/usr/libexec/virgl_render_server
    [[ -x $stock ]]
    # Later assignments win: the test server starts the stock render server, as a VMM does that
    # knows nothing of us.
    VTEST_ENV=("RENDER_SERVER_EXEC_PATH=$stock")
    server_start
    one_line RENDER_SERVER_EXEC_PATH "${REMOTE[@]}"
}

@test "absent: a socket that nobody serves: one line" {
    one_line "$T/nothing" GGML_BACKEND_PATH="$PLUGIN" APIR_TRANSPORT="vtest:$T/nothing"

    # A file without a listener behind it.
    server_start
    kill -KILL "$VTEST_PID"
    wait_until 5 gone "$VTEST_PID"
    [[ -S $VTEST_SOCKET ]]
    one_line "" "${REMOTE[@]}"
}

@test "absent: a socket path that is too long, a device that is none: one line each" {
    local long
    long=$T/$(printf 'x%.0s' {1..120})
    one_line "" GGML_BACKEND_PATH="$PLUGIN" APIR_TRANSPORT="vtest:$long"
    one_line "" GGML_BACKEND_PATH="$PLUGIN" APIR_TRANSPORT=virtgpu:/dev/null
    one_line "" GGML_BACKEND_PATH="$PLUGIN" APIR_TRANSPORT="virtgpu:$T/no-such-node"
}

@test "absent: a value of APIR_TRANSPORT that means nothing: one line that names the choices" {
    local value
    for value in bogus vtest virtgpu-1 unixx:/tmp/x; do
        one_line "APIR_TRANSPORT=$value" GGML_BACKEND_PATH="$PLUGIN" APIR_TRANSPORT="$value"
        grep '^apir:' <<<"$stderr" | grep -q auto
    done
}

@test "absent: a server that accepts and never answers does not hold a program up" {
    # Takes the connection and reads, like a VMM that hangs.
    perl -MIO::Socket::UNIX -e '
        $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 4) or die;
        @c = (); while ($c = $s->accept) { push @c, $c }' "$T/mute" 3>&- &
    JOBS_STARTED+=("$!")
    wait_until 5 test -S "$T/mute"
    one_line "" GGML_BACKEND_PATH="$PLUGIN" APIR_TRANSPORT="vtest:$T/mute"
}
