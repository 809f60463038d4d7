#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# In the VM, with our host side and two devices there: the CPU, and lavapipe through
# Vulkan. check.sh boots it.

bats_require_minimum_version 1.5.0
. "${BATS_TEST_DIRNAME}/check-guest-lib.sh"

SPEC=/etc/cdi/apir.json

setup_file() {
    # A root file system of one static program, for engines without our images.
    mkdir -p /tmp/rootfs/bin
    cp /run/vm/busybox /tmp/rootfs/bin/
}

names() { jq -r '.devices[].name' "$SPEC"; }
id_of() { jq -r --arg d "$1" '.devices[] | select(.name == $d) | .containerEdits.env[0]' "$SPEC"; }

# What an engine puts into a container that is given gpu1.
has_gpu1() {
    [[ $output == *"$(id_of gpu1)"* ]]
    [[ $output == *GGML_BACKEND_PATH=$PLUGIN* ]]
    [[ $output == *renderD128* ]]
    [[ $output != *APIR_DEVICE_0* ]]
}
LOOK='busybox env; busybox ls -l /dev/dri /usr/lib/apir'

@test "generate: a device for each of the host's, the same at every run" {
    [ "$(names)" = $'gpu0\ngpu1' ]
    [ "$(id_of gpu0)" = APIR_DEVICE_0=cpu ]
    [[ $(id_of gpu1) =~ ^APIR_DEVICE_1=[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$ ]]
    cp "$SPEC" "$BATS_TEST_TMPDIR/before"
    apir cdi generate
    cmp "$SPEC" "$BATS_TEST_TMPDIR/before"
    # Another spec says otherwise: the numbers are the file's.
    jq '(.devices[0].name, .devices[1].name) |= {gpu0: "gpu7", gpu1: "gpu0"}[.] |
        .devices[0].containerEdits.env = ["APIR_DEVICE_7=cpu"] |
        .devices[1].containerEdits.env[0] |= sub("DEVICE_1"; "DEVICE_0")' \
        "$BATS_TEST_TMPDIR/before" >"$SPEC"
    apir cdi generate
    [ "$(names)" = $'gpu7\ngpu0' ]
    [ "$(id_of gpu7)" = APIR_DEVICE_7=cpu ]
    cp "$BATS_TEST_TMPDIR/before" "$SPEC"
    apir cdi validate --strict "$SPEC"
}

devices_of() { # CDI-DEVICE...: the description of each device that a program in a container sees
    local arguments=()
    for d in "$@"; do arguments+=(--device "virtgpu/apir=$d"); done
    container --rm "${arguments[@]}" localhost/llama llama-bench --list-devices 2>&1 |
        sed -nE 's/^ *(APIR[0-9]+: .*) \([0-9]+ MiB.*/\1/p'
}

@test "podman: gpu0 and gpu1 are each one device, and add up" {
    gpu0=$(devices_of gpu0)
    gpu1=$(devices_of gpu1)
    echo "$gpu0 | $gpu1"
    [[ $gpu0 == APIR0:* && $gpu0 != *llvmpipe* && $gpu1 == "APIR0: "*llvmpipe* ]]
    [ "$(devices_of gpu0 gpu1)" = "$gpu0"$'\n'"APIR1${gpu1#APIR0}" ]
    [ "$(devices_of gpu1 gpu0)" = "$gpu0"$'\n'"APIR1${gpu1#APIR0}" ]
    greedy /models/first.gguf container --rm --device virtgpu/apir=gpu0 localhost/llama
}

# An exec has none of the spec's variables.
@test "podman: what a container was given is what its exec sees" {
    for given in gpu0 gpu1 "gpu1 gpu0"; do
        arguments=()
        for d in $given; do arguments+=(--device "virtgpu/apir=$d"); done
        container -d --name given "${arguments[@]}" localhost/llama sleep 1000
        run ! podman exec given printenv GGML_BACKEND_PATH
        podman exec given llama-bench --list-devices 2>&1 |
            sed -nE 's/^ *(APIR[0-9]+: .*) \([0-9]+ MiB.*/\1/p' >"$BATS_TEST_TMPDIR/seen"
        podman rm --force --time 0 given
        # shellcheck disable=SC2086 # one argument each
        devices_of $given | diff - "$BATS_TEST_TMPDIR/seen"
    done
}

@test "docker finds the devices and injects one" {
    mkdir -p /tmp/docker
    dockerd --data-root /tmp/docker --exec-root /run/docker-test --bridge=none --iptables=false \
        --ip6tables=false --storage-driver=vfs >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    docker=$!
    wait_until 30 docker info >/dev/null 2>&1 || :
    tail -n 3 "$BATS_TEST_TMPDIR/log"
    docker info >"$BATS_TEST_TMPDIR/info" 2>&1
    tar -C /tmp/rootfs -c . | docker import - busybox
    run -0 docker run --rm --network none --device virtgpu/apir=gpu1 busybox /bin/busybox sh -c "$LOOK"
    kill "$docker"
    wait "$docker" || true
    echo "$output"
    has_gpu1
    grep -q 'cdi: virtgpu/apir=gpu0' "$BATS_TEST_TMPDIR/info"
    grep -q 'cdi: virtgpu/apir=gpu1' "$BATS_TEST_TMPDIR/info"
}

# bats test_tags=long
@test "containerd's ctr injects one" {
    containerd --root /tmp/containerd --state /run/containerd-test --address /run/containerd-test.sock \
        >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    containerd=$!
    wait_until 30 ctr -a /run/containerd-test.sock version >/dev/null 2>&1 || :
    run -0 ctr -a /run/containerd-test.sock run --rm --rootfs --device virtgpu/apir=gpu1 \
        /tmp/rootfs cdi-test /bin/busybox sh -c "$LOOK"
    kill "$containerd"
    wait "$containerd" || true
    echo "$output"
    has_gpu1
}

# systemd in a process namespace of its own, with udev, as the manager of this VM's devices.
# bats test_tags=long
@test "systemd: the spec is there before the engines, after a node appears, and after an upgrade" {
    share=$BATS_TEST_TMPDIR
    cp "$SPEC" "$share/before"
    rm -rf /etc/cdi
    # What the build root has no need of here.
    units=/run/systemd/system
    mkdir -p "$units" /etc/systemd/system
    for unit in docker.socket containerd.service getty.target ldconfig.service \
        systemd-hwdb-update.service systemd-journal-catalog-update.service systemd-sysusers.service; do
        ln -sf /dev/null "/etc/systemd/system/$unit"
    done
    cat >/etc/systemd/system/docker.service <<UNIT
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cp /etc/cdi/apir.json $share/seen-by-docker'
UNIT
    cat >"$units/cdi-test.service" <<UNIT
[Unit]
After=docker.service
[Service]
Type=oneshot
ExecStart=/bin/bash $BATS_TEST_DIRNAME/check-cdi-systemd.sh $share
StandardOutput=file:$share/log
StandardError=inherit
UNIT
    cat >"$units/cdi-test.target" <<UNIT
[Unit]
Requires=basic.target
Wants=apir-cdi-refresh.service apir-cdi-refresh.path docker.service cdi-test.service
After=basic.target
AllowIsolate=yes
UNIT
    # The engine's stand-in fails where it is not kept waiting for the refresh.
    timeout "$(patience 300)" unshare --pid --fork --kill-child --mount-proc --mount --uts --ipc \
        env container=apir-test /lib/systemd/systemd --unit=cdi-test.target --log-target=console \
        >"$share/systemd" 2>&1 </dev/null 3>&- || true
    tail -n 30 "$share/systemd"
    cat "$share/log"
    cmp "$share/before" "$share/seen-by-docker"
    [ "$(tail -n 1 "$share/log")" = "all is well" ]
}
