#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir run: programs, and sandboxes of programs, on APIR0 without a container engine, over the host's
# socket; over a VM's node in tests/vm/check.bats.

bats_require_minimum_version 1.5.0
load ../system/system.bash

setup() {
    common_setup
    APIR=$(realpath "$OUT/cdi/apir")
}
teardown() { common_teardown; }

# A host on a socket, and a spec that has it as host0.
host() {
    unix_start "$OUT"
    "$APIR" cdi generate --plugin "$(realpath "$PLUGIN")" --hook "$(realpath "$OUT/hook/apir-hook")" \
        --host-socket "$VTEST_DIR" --output "$T/spec.json"
}

devices() { # COMMAND...: lists a program's devices; APIR0 computes on the host's CPU
    run -0 --separate-stderr timeout 60 "$@"
    echo "$output"
    [[ $output == *APIR0* ]]
}

@test "run: a program finds APIR0 by the spec's device, and by the transport that it is told" {
    host
    devices "$APIR" run --spec "$T/spec.json" --device host0 -- llama-bench --list-devices
    devices "$APIR" run --spec "$T/spec.json" --device virtgpu/apir=host0 llama-bench --list-devices
    devices env "APIR_TRANSPORT=unix:$VTEST_SOCKET" "$APIR" run llama-bench --list-devices
}

@test "run: a program in bubblewrap, with nothing but what it needs" {
    host
    devices "$APIR" run --spec "$T/spec.json" --device host0 \
        bwrap --unshare-all --cap-drop ALL --ro-bind /usr /usr --ro-bind /etc /etc \
        --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin --proc /proc --dev /dev \
        --ro-bind "$(realpath "$PLUGIN")" "$(realpath "$PLUGIN")" --ro-bind "$VTEST_DIR" "$VTEST_DIR" \
        llama-bench --list-devices
}

@test "run: --print has the variables as paths of this machine" {
    host
    run -0 "$APIR" run --spec "$T/spec.json" --device host0 --print
    diff <(sort <<<"$output") - <<END
APIR_TRANSPORT=unix:$VTEST_SOCKET
GGML_BACKEND_PATH=$(realpath "$PLUGIN")
GGML_VK_VISIBLE_DEVICES=
END
}

@test "run: exit codes, and what to do where there is no host" {
    export APIR_TRANSPORT=unix:/nonexistent
    run -7 "$APIR" run -- sh -c 'exit 7'
    run -0 "$APIR" run sh -c 'test "$1" = --device' sh --device
    run -126 "$APIR" run "$T"
    run -127 "$APIR" run /nonexistent/program
    [[ $output == 'apir run: /nonexistent/program: No such file or directory' ]]
    run -2 "$APIR" run
    run -2 "$APIR" run --print sh
    run -2 "$APIR" run --devices sh
    run -125 "$APIR" run --spec /nonexistent --device gpu0 sh
    [[ $output == *'apir cdi generate'* ]]
    unset APIR_TRANSPORT
    [[ ! -e /run/apir/host/apir.sock && ! -e /dev/dri ]] || skip 'this machine has a way to a host'
    run -125 "$APIR" run sh
    [[ $output == *'apir host serve'*'apir cdi generate'* ]]
}

@test "run: a device that the spec does not have" {
    host
    run -125 "$APIR" run --spec "$T/spec.json" --device gpu7 sh
    [[ $output == *gpu7*'apir cdi list'* ]]
}
