#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A host whose ggml is older than the program's: node-llama-cpp's, on its CPU.

load system.bash

old_start() {
    tests/system/hook/npm.sh node-x64-3.18.1 >"$T/npm" || { [[ -z ${CI-} ]]; skip "the package is not here and cannot be fetched"; }
    local folder library
    folder=$(realpath "$(cat "$T/npm")/bins/linux-x64")
    library=$(find "$folder" -name 'libggml.*so')
    VTEST_CONFIG="{\"threads\": 1, \"ggml\": \"$library\", \"ggml_backends_dir\": \"$folder\"}"
    VTEST_ENV=(APIR_LOG=info)
    server_start
}

@test "old host: rows that it cannot set are refused with a sentence, and nothing else" {
    old_start
    exercise rows-refused APIR0
    grep "apir: APIR0: the host's ggml cannot do SET_ROWS in '.*', as this program's asks" "$T/exercise.err"
    [[ $(grep -c 'cannot do SET_ROWS' "$T/exercise.err") -eq 1 ]]
}
