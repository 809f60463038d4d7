#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir run: programs, and sandboxes of programs, on APIR0 without a container engine, over the host's
# socket; over a VM's node in tests/vm/check.bats.

bats_require_minimum_version 1.5.0
load ../system.bash

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

devices() { # COMMAND...: it lists devices, of which APIR0 is one
    run -0 --separate-stderr timeout "$(patience 60)" "$@" llama-bench --list-devices
    echo "$output"
    [[ $output == *APIR0* ]]
}

computes() { # COMMAND...: what it starts computes a model on APIR0
    run -0 --separate-stderr timeout "$(patience 60)" "$@" llama-bench -m "$(realpath "$MODEL")" -ngl 99 -t 1 -p 8 -n 4 -r 1 -o json
    echo "$output"
    jq -e 'length == 2 and all(.[]; (.backends | test("APIR")) and .avg_ts > 0)' <<<"$output"
}

@test "run: a program finds APIR0 by the spec's device, and by the transport that it is told" {
    host
    devices "$APIR" run --spec "$T/spec.json" --device host0 --
    devices "$APIR" run --spec "$T/spec.json" --device virtgpu/apir=host0
    devices env "APIR_TRANSPORT=unix:$VTEST_SOCKET" "$APIR" run
}

@test "run: a program in bubblewrap, with nothing but what it needs" {
    host
    model_small
    computes "$APIR" run --spec "$T/spec.json" --device host0 \
        bwrap --unshare-all --cap-drop ALL --ro-bind /usr /usr --ro-bind /etc /etc \
        --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin --proc /proc --dev /dev \
        --ro-bind "$(realpath "$PLUGIN")" "$(realpath "$PLUGIN")" --ro-bind "$VTEST_DIR" "$VTEST_DIR" \
        --ro-bind "$(realpath "$MODEL")" "$(realpath "$MODEL")"
}

@test "run: a program in firejail, without network, capabilities and other people's files" {
    host
    model_small
    local jail=(firejail --noprofile --quiet --net=none --caps.drop=all --nonewprivs --seccomp --private-tmp
        "--whitelist=$VTEST_DIR" --private-dev)
    # It is one: another process namespace, and no capability.
    run -0 "$APIR" run --spec "$T/spec.json" --device host0 "${jail[@]}" \
        sh -c 'readlink /proc/self/ns/pid && grep CapEff /proc/self/status'
    [[ ${lines[0]} != "$(readlink /proc/self/ns/pid)" && ${lines[1]} == *0000000000000000 ]]
    computes "$APIR" run --spec "$T/spec.json" --device host0 "${jail[@]}"
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

@test "run: a spec's own way to the host wins over its node" {
    echo '{"cdiVersion": "0.5.0", "kind": "virtgpu/apir", "devices": [{"name": "gpu0", "containerEdits":
        {"deviceNodes": [{"path": "/dev/null"}], "env": ["APIR_TRANSPORT=vtest:/x"]}}]}' >"$T/own.json"
    run -0 --separate-stderr "$APIR" run --spec "$T/own.json" --device gpu0 --print
    [[ $output == APIR_TRANSPORT=vtest:/x ]]
    run -0 --separate-stderr "$APIR" spec --format apptainer --spec "$T/own.json" --device gpu0
    [[ $output == *vtest:/x* && $output != *virtgpu:/dev/null* ]]
}

# lost PATTERN COMMAND...: the program lists its devices without APIR0, and one line of ours says why.
lost() {
    run -0 --separate-stderr timeout "$(patience 60)" "${@:2}" llama-bench --list-devices
    echo "$output" "$stderr"
    [[ $output != *APIR* ]]
    [[ $(grep -c '^apir:' <<<"$stderr") -eq 1 ]]
    grep -q "^apir: $1" <<<"$stderr"
}

@test "run: what it has chosen is what the program gets, or a line says why not" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'mounts, so root'; }
    [[ ! -e /dev/dri ]] || { [[ -z ${CI-} ]]; skip 'this machine has a render node'; }
    local sandbox=(bwrap --bind / / --dev /dev --tmpfs /run) beside
    host
    # Where the host's socket is at its usual place.
    beside=(unshare --mount --propagation private sh -ec '
        mount -t tmpfs tmpfs /run; mkdir -p /run/apir/host; mount --bind "$1" /run/apir/host; shift
        exec "$@"' sh "$VTEST_DIR")
    run -0 "${beside[@]}" "$APIR" run --print
    grep -qx APIR_TRANSPORT=unix:/run/apir/host/apir.sock <<<"$output"
    devices "${beside[@]}" "$APIR" run --
    # A sandbox that does not let it through.
    lost 'nobody serves /run/apir/host/apir.sock.*sandbox' "${beside[@]}" "$APIR" run "${sandbox[@]}"
    # A node, and no way to the host's socket instead, which is there.
    lost '/dev/dri/renderD128 is not there.*sandbox' "${beside[@]}" env APIR_TRANSPORT=virtgpu:/dev/dri/renderD128 "$APIR" run --
    # A node that may not be opened could be the one: it is that, and not another road.
    mkdir "$T/dri"
    mknod -m 0 "$T/dri/renderD128" c 226 128
    run -0 unshare --mount --propagation private sh -ec '
        mount -t tmpfs tmpfs /dev; mkdir /dev/dri; mount --bind "$1/dri" /dev/dri
        exec setpriv --reuid 1001 --regid 1001 --clear-groups "$2" run --print' sh "$T" "$APIR"
    grep -qx APIR_TRANSPORT=virtgpu <<<"$output"
    lost 'there is no virtio-gpu render node' "${beside[@]}" env APIR_TRANSPORT=virtgpu "$APIR" run --
}

@test "run: devices that were chosen before are not chosen again" {
    local other=(env APIR_DEVICE_0=gone APIR_DEVICE_7=gone-too)
    host
    devices "${other[@]}" "$APIR" run --spec "$T/spec.json" --device host0
    run -0 "${other[@]}" "$APIR" run --spec "$T/spec.json" --device host0 env
    refute grep APIR_DEVICE <<<"$output"
    # Without a device it is for whoever calls to choose.
    run -0 "${other[@]}" "APIR_TRANSPORT=unix:$VTEST_SOCKET" "$APIR" run env
    grep -qx APIR_DEVICE_7=gone-too <<<"$output"
}
