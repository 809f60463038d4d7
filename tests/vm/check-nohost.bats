#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# In a VM whose host has the stock render server only: the device is there,
# nobody answers.

bats_require_minimum_version 1.5.0
. "${BATS_TEST_DIRNAME}/check-guest-lib.sh"

@test "no host support: the doctor names it, and no spec is written" {
    run -1 apir doctor
    echo "$output"
    [[ $output == *'First broken link: '* ]]
    [[ $output == *RENDER_SERVER_EXEC_PATH* ]]
    rm -f /etc/cdi/apir.json
    run -1 apir cdi generate
    echo "$output"
    [ ! -e /etc/cdi/apir.json ]
}

@test "no host support: a spec that is there stays as it is" {
    mkdir -p /etc/cdi
    apir cdi generate --no-handshake
    jq '.devices[0].containerEdits.env = ["APIR_DEVICE_0=6e1b"]' /etc/cdi/apir.json >"$BATS_TEST_TMPDIR/spec"
    cp "$BATS_TEST_TMPDIR/spec" /etc/cdi/apir.json
    run -1 apir cdi generate
    echo "$output"
    [[ $output == *"/dev/dri/renderD128: as it was: "*apir-render-server* ]]
    cmp "$BATS_TEST_TMPDIR/spec" /etc/cdi/apir.json
    # With another device to write, what the file knows of this node is kept.
    mkdir -p "$BATS_TEST_TMPDIR/host"
    apir cdi generate --host-socket "$BATS_TEST_TMPDIR/host"
    jq -e '[.devices[].name] == ["gpu0", "host0"] and
        .devices[0].containerEdits.env == ["APIR_DEVICE_0=6e1b"]' /etc/cdi/apir.json
    rm /etc/cdi/apir.json
}

@test "no host support: a container prints one line and runs on its CPU" {
    apir cdi generate --no-handshake
    out=$BATS_TEST_TMPDIR/out
    container --rm "${DEVICE[@]}" localhost/llama llama-bench -m /models/first.gguf -ngl 99 -p 4 -n 4 -r 1 \
        -t 1 -o json >"$out" 2>"$out.log"
    cat "$out.log"
    jq -e 'length == 2 and all(.[]; .backends == "CPU" and .avg_ts > 0)' "$out"
    [ "$(grep -c '^apir: ' "$out.log")" -eq 1 ]
    run ! grep -q APIR0 "$out" "$out.log"
}
