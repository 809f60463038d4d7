#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The root changes while the hook works in it (tests/system/hook/race.c).

. "${BATS_TEST_DIRNAME}/hook.bash"

race() { # STAGE [HOOK-ARG]...
    local dir=$BATS_TEST_TMPDIR/race stage=$1
    shift
    bundle "$dir"
    asking "$dir" host0
    mkdir -p "$dir"/rootfs{/usr/lib/apir,/run/apir/host,/dev/apir,"$MODULES"}
    # What a link that leads outside would find is all that the hook looks for.
    cp -a "$dir/rootfs" "$dir/outside"
    touch "$dir/outside$MODULES"/libggml-{virtgpu,metal}.so "$dir/outside$INSIDE"
    # Log lines of thousands of runs are no use.
    mkfifo "$LOG"
    run "$APIR_OUT/tests/system/hook/race" "$HOOK" "$stage" "${APIR_RACE_SECONDS:-60}" "$dir" "$@"
    rm -f "$LOG"
    tail -n 20 <<<"$output"
    tail -n 1 <<<"$output" | sed 's/^/# /' >&3
    [ "$status" -eq 0 ]
}

setup() {
    rm -rf "$LOG"
    spec_dev "$BATS_TEST_TMPDIR/spec.json"
}

@test "CVE-2024-0132: createContainer, with every component swapped while it runs" {
    race createContainer --plugin "$PLUGIN"
}

@test "CVE-2024-0132: createRuntime, with every component swapped while it runs" {
    race createRuntime --plugin "$PLUGIN" --spec "$BATS_TEST_TMPDIR/spec.json"
}
