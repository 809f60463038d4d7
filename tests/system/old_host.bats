#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A host whose ggml is older than the program's: node-llama-cpp's, on its CPU.

load system.bash

old_start() {
    tests/hook/npm.sh node-x64-3.18.1 >"$T/npm" || { [[ -z ${CI-} ]]; skip "the package is not here and cannot be fetched"; }
    local folder library
    folder=$(realpath "$(cat "$T/npm")/bins/linux-x64")
    library=$(find "$folder" -name 'libggml.*so')
    VTEST_CONFIG="{\"threads\": 1, \"ggml\": \"$library\", \"ggml_backends_dir\": \"$folder\"}"
    VTEST_ENV=(APIR_LOG=info)
    server_start
}

@test "old host: rows that it cannot set are set by the plug-in" {
    "$EXERCISE" rows CPU
    local try
    for try in {1..50}; do
        old_start
        exercise rows APIR0
        ! grep -q GRAPH_EXEC "$VTEST_LOG" || break # what a worker says at its end
        vtest_stop
    done
    # Three times, each in two parts.
    [[ $(vtest_graphs) -eq 6 ]]
    exercise rows-beyond APIR0
    grep -q "apir: APIR0: rows cannot be set in '.*': it has no row of such a number" "$T/exercise.err"
}
