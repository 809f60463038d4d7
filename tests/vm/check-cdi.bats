#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# In the VM, with our host side and two devices there: the CPU, and lavapipe through
# Vulkan. check.sh boots it.

bats_require_minimum_version 1.5.0
. "${BATS_TEST_DIRNAME}/check-guest-lib.sh"

SPEC=/etc/cdi/apir.json

names() { jq -r '.devices[].name' "$SPEC"; }
id_of() { jq -r --arg d "$1" '.devices[] | select(.name == $d) | .containerEdits.env[0]' "$SPEC"; }

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
