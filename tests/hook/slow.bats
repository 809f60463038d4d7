#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Images whose file system does not answer (tests/hook/stall.c): a hook that is late is killed by
# the engine, after 10 s, and the container fails.

. "${BATS_TEST_DIRNAME}/hook.bash"

setup() {
    hook_setup
    bundle "$B"
    asking "$B" host0
    exec {READY}< <(exec "$APIR_OUT/tests/hook/stall" "$B/rootfs" 3>&-)
    STALL=$!
    read -r -u "$READY" line
    [ "$line" = ready ]
}

# With the file system's own process everybody who hangs in it comes free.
teardown() {
    kill "$STALL" || :
    umount -l "$B/rootfs"
}

# The hook ends, the container starts, and the log has one line.
bounded() { # STAGE
    start=$(now_ms)
    # Whoever keeps its output open keeps this waiting, as it would an engine.
    run -0 once "$B" "$1" --spec "$SPEC"
    took=$(($(now_ms) - start))
    echo "$took ms"
    # Not before its time is over. Nothing but that ends it.
    [ "$took" -ge 5000 ]
    in_time "$took" 9000
    grep -qx 'exit 0' <<<"$output"
    [ "$(grep -c "the image's file system has not answered within 5 s" "$LOG")" -eq 1 ]
    # It was really one that hangs where no signal reaches it.
    ps -C apir-hook -o stat= | grep -q '^D'
}

@test "a root that does not answer keeps createContainer for 5 s, and the container starts" {
    bounded createContainer
}

@test "a root that does not answer keeps createRuntime for 5 s, and the container starts" {
    bounded createRuntime
}
