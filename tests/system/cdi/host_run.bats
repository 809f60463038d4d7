#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir host run before there is a guest: what it sets. That a guest then finds APIR0 is what every
# boot of the test VM shows (tests/vm/run.sh starts QEMU so).

load ../system.bash

setup() {
    common_setup
    SERVER=$(realpath "$OUT/backend/apir-render-server")
    unset DISPLAY WAYLAND_DISPLAY SDL_VIDEODRIVER
    # A VMM that says what it was given.
    # shellcheck disable=SC2016 # the script's to expand
    printf '#!/bin/sh\necho "$RENDER_SERVER_EXEC_PATH|$SDL_VIDEODRIVER|$*"\nexit 7\n' >"$T/vmm"
    chmod +x "$T/vmm"
}

@test "host run: becomes the VMM, with the server and without a screen" {
    run -7 --separate-stderr "$APIR" host run -- "$T/vmm" --any flag
    [[ $output == "$SERVER|offscreen|--any flag" && -z $stderr ]]
    # Who has a screen, or has chosen, keeps that.
    run -7 env DISPLAY=:7 "$APIR" host run "$T/vmm" --any flag
    [[ $output == "$SERVER||--any flag" ]]
    run -7 env SDL_VIDEODRIVER=dummy "$APIR" host run "$T/vmm" --any flag
    [[ $output == "$SERVER|dummy|"* ]]
}

@test "host run: a server that is not there or cannot be run is the host's fault" {
    gives 125 "$T/none: No such file" "$APIR" host run --server "$T/none" -- "$T/vmm"
    : >"$T/file"
    gives 125 'no program that may be run' "$APIR" host run --server "$T/file" -- "$T/vmm"
    run -7 "$APIR" host run --server /usr/libexec/virgl_render_server "$T/vmm"
    [[ $output == /usr/libexec/virgl_render_server* ]]
}

@test "host run: exit codes of the command itself" {
    run -2 "$APIR" host run
    run -2 "$APIR" host run --no-such "$T/vmm"
    run -127 "$APIR" host run /nonexistent/vmm
    run -126 "$APIR" host run "$T"
}
