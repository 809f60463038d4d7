#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Images whose file system does not answer (tests/system/hook/stall.c): a hook that is late is killed by
# the engine, after 120 s, and the container fails.

. "${BATS_TEST_DIRNAME}/hook.bash"

# A hook that is not bounded ends when its test does.
setup_file() {
    BATS_TEST_TIMEOUT=$(patience 100)
    export BATS_TEST_TIMEOUT
}

setup() {
    hook_setup
    bundle "$B"
    asking "$B" host0
}

# The root does not answer any more.
stall() {
    exec {READY}< <(exec "$APIR_OUT/tests/system/hook/stall" "$B/rootfs" 3>&-)
    STALL=$!
    read -r -u "$READY" line
    [ "$line" = ready ]
}

# With the file system's own process everybody who hangs in it comes free.
teardown() {
    [ -z "${STALL-}" ] || { kill "$STALL" || :; umount -l "$B/rootfs"; }
}

# The hook ends, the container starts, and the log has one line.
bounded() { # STAGE
    stall
    start=$(now_ms)
    # Whoever keeps its output open keeps this waiting, as it would an engine.
    run -0 once "$B" "$1" --spec "$SPEC"
    took=$(($(now_ms) - start))
    echo "$took ms"
    # Not before its time is over. Nothing but that ends it.
    [ "$took" -ge 10000 ]
    in_time "$took" 14000
    grep -qx 'exit 0' <<<"$output"
    [ "$(grep -c "the image's file system has not answered within 10 s" "$LOG")" -eq 1 ]
    # It was really one that hangs where no signal reaches it.
    ps -C apir-hook -o stat= | grep -q '^D'
}

@test "a root that does not answer keeps createContainer for 10 s, and the container starts" {
    bounded createContainer
}

@test "a root that does not answer keeps createRuntime for 10 s, and the container starts" {
    bounded createRuntime
}

@test "a hundredth of a processor: the container starts, and the plug-in is where it would be, or nowhere" {
    [ -d /sys/fs/cgroup/cpu ] || grep -qw cpu /sys/fs/cgroup/cgroup.controllers || {
        [ -z "${CI-}" ]
        skip 'no control group has a share of a processor here'
    }
    # Much to look at after the first program and library, and before the folder that this one names.
    mkdir -p "$B/rootfs/usr/bin"
    cp "$(command -v llama-bench)" "$B/rootfs/usr/bin/"
    for folder in {0..29}; do
        mkdir -p "$B/rootfs/opt/llama$folder"
        cp "$B/rootfs/usr/bin/llama-bench" "$B/rootfs/opt/llama$folder/llama"
        for n in {1..250}; do
            ln "$B/rootfs/opt/llama$folder/llama" "$B/rootfs/opt/llama$folder/llama-$n"
        done
    done
    hooked "$B" createContainer --plugin "$PLUGIN"
    # With the time that a spec gives it.
    mkdir "$BATS_TEST_TMPDIR/socket"
    "$APIR_OUT/cdi/apir" cdi generate --output - --dev-root / --plugin "$PLUGIN" --hook "$HOOK" \
        --host-socket "$BATS_TEST_TMPDIR/socket" >"$BATS_TEST_TMPDIR/generated"
    timeout=$(jq '.containerEdits.hooks[0].timeout' "$BATS_TEST_TMPDIR/generated")
    edit "$B" ".hooks.createContainer[0].timeout = $timeout | .linux.resources.cpu = {quota: 1000, period: 100000}"
    run -0 container "$B" 'cat /proc/self/mountinfo'
    cat "$LOG"
    grep 'placed as' "$LOG" | { ! grep -v "placed as $SLOT\$"; }
    grep -q "placed as\|placed nowhere\|not answered within" "$LOG"
}
