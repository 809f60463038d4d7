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

@test "no host support: a container prints one line and runs on its CPU" {
    apir cdi generate --no-handshake
    container --rm "${DEVICE[@]}" localhost/llama llama-completion -m /models/first.gguf $PREPARE_GREEDY \
        -ngl 99 -n 4 -p "$PREPARE_PROMPT" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/log"
    cat "$BATS_TEST_TMPDIR/log"
    [ -s "$BATS_TEST_TMPDIR/out" ]
    [ "$(grep -c '^apir: ' "$BATS_TEST_TMPDIR/log")" -eq 1 ]
    run ! grep -q APIR0 "$BATS_TEST_TMPDIR/log"
}
