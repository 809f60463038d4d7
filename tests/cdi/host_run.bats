#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir host run before there is a guest: what it checks, says and sets. That a guest then finds
# APIR0 is what every boot of the test VM shows (tests/vm/run.sh starts QEMU so).

load ../system/system.bash

setup() {
    common_setup
    SERVER=$(realpath "$OUT/backend/apir-render-server")
    # shellcheck disable=SC2054 # the commas are QEMU's
    GOOD=(-display sdl,gl=on -device "virtio-gpu-gl-pci,blob=on,venus=on,hostmem=2G"
        -object "memory-backend-memfd,id=mem,size=1G,share=on" -machine q35,memory-backend=mem)
    unset DISPLAY WAYLAND_DISPLAY SDL_VIDEODRIVER
    # A QEMU that says what it was given.
    # shellcheck disable=SC2016 # the script's to expand
    printf '#!/bin/sh\necho "$RENDER_SERVER_EXEC_PATH|$SDL_VIDEODRIVER|$*"\nexit 7\n' >"$T/qemu-system-x86_64"
    cp "$T/qemu-system-x86_64" "$T/vmm"
    chmod +x "$T/qemu-system-x86_64" "$T/vmm"
}

@test "host run: becomes QEMU, with the server and without a screen" {
    run -7 --separate-stderr "$APIR" host run -- "$T/qemu-system-x86_64" "${GOOD[@]}"
    [[ $output == "$SERVER|offscreen|${GOOD[*]}" && -z $stderr ]]
    # Who has a screen, or has chosen, keeps that.
    run -7 env DISPLAY=:7 "$APIR" host run "$T/qemu-system-x86_64" "${GOOD[@]}"
    [[ $output == "$SERVER||"* ]]
    run -7 env SDL_VIDEODRIVER=dummy "$APIR" host run "$T/qemu-system-x86_64" "${GOOD[@]}"
    [[ $output == "$SERVER|dummy|"* ]]
}

@test "host run: without a flag it runs nothing, and says the flag" {
    run -2 --separate-stderr "$APIR" host run -- "$T/qemu-system-x86_64" "${GOOD[@]/,venus=on/}"
    [[ -z $output ]]
    [[ $stderr == *'FAIL venus'*'add: venus=on, at -device virtio-gpu-gl-pci'* ]]
    run -2 "$APIR" host run -- "$T/qemu-system-x86_64" -nographic
    [[ $output == *'add: -device virtio-gpu-gl-pci,blob=on,venus=on,hostmem=2G'*'-display egl-headless'* ]]
}

@test "host run: --check only checks, --json has it for programs" {
    run -0 --separate-stderr "$APIR" host run --check qemu-system-x86_64 "${GOOD[@]}"
    [[ $output == *"PASS server"*"$SERVER"*'PASS virglrenderer'*'RENDER_SERVER_EXEC_PATH'*'PASS hostmem'* ]]
    [[ -z $stderr ]]
    run -2 --separate-stderr "$APIR" host run --check --json qemu-system-x86_64 "${GOOD[@]/2G/3G}"
    jq -e --arg server "$SERVER" '.version == 1 and .ok == false and .checked == true and
        .environment.RENDER_SERVER_EXEC_PATH == $server and
        [.checks[] | select(.status == "fail") | .name] == ["hostmem"] and
        all(.checks[]; .status != "fail" or (.add | length) > 0)' <<<"$output"
}

@test "host run: the real QEMU agrees with what is said of its flags" {
    # It is asked to stop before it runs; what it refuses, it refuses while it makes its devices.
    qemu() {
        env -u DISPLAY SDL_VIDEODRIVER=offscreen "RENDER_SERVER_EXEC_PATH=$SERVER" timeout "$(patience 60)" qemu-system-x86_64 \
            -nodefaults -S -m 1G -monitor stdio "$@" <<<quit
    }
    run -0 qemu "${GOOD[@]}"
    run qemu "${GOOD[@]/2G/3G}" # an assertion of its own
    [[ $status -ne 0 ]]
    run -1 qemu "${GOOD[@]/,gl=on/}"
    [[ ${output,,} == *opengl* ]]
    run -1 qemu "${GOOD[@]/,hostmem=2G/}"
}

@test "host run: of another VMM nothing is checked, which is said" {
    run -7 --separate-stderr "$APIR" host run "$T/vmm" --any flag
    [[ $output == "$SERVER||--any flag" && $stderr == "apir host run: the flags of $T/vmm were not checked"* ]]
    run -0 --separate-stderr "$APIR" host run --check --json "$T/vmm"
    jq -e '.ok and .checked == false' <<<"$output"
}

@test "host run: a server that is not there or cannot be run is the host's fault" {
    run -125 "$APIR" host run --server "$T/none" -- "$T/qemu-system-x86_64" "${GOOD[@]}"
    [[ $output == *"FAIL server"*"$T/none: No such file"*'add: --server'* ]]
    : >"$T/file"
    run -125 "$APIR" host run --server "$T/file" -- "$T/qemu-system-x86_64" "${GOOD[@]}"
    [[ $output == *'no program that may be run'* ]]
    run -7 "$APIR" host run --server /usr/libexec/virgl_render_server "$T/qemu-system-x86_64" "${GOOD[@]}"
    [[ $output == /usr/libexec/virgl_render_server* ]]
}

@test "host run: exit codes of the command itself" {
    run -2 "$APIR" host run
    run -2 "$APIR" host run --json "$T/vmm"
    run -2 "$APIR" host run --no-such "$T/vmm"
    run -127 "$APIR" host run /nonexistent/vmm
    run -126 "$APIR" host run "$T"
}
