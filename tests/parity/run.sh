#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--native] [OUT]
#
# Parity of native and remoted runs, one line for each model: the same logits bit for bit, for
# prompt, generation and full chunks, all layers on APIR0. --native compares two native runs, which
# tests the tools alone. OUT is the build's output directory.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/options/rows.sh
. tests/options/rows.sh

native=
if [[ ${1-} == --native ]]; then
    native=yes
    shift
fi
out=${1:-build/release-gcc}
suite=parity models=build/models
writer=$out/tests/models/gguf-write
work=$(mktemp -d "${TMPDIR:-/tmp}/parity.XXXXXX")
logits=$out/tests/parity/logits
compare=$out/tests/parity/compare
mkdir -p "$models"

finish() {
    vtest_stop || :
    rm -rf "$work"
}

# name, then gguf-write's options: every query head with a key head of its own; grouped; with
# biases; with norms on query and key; experts.
shapes=(
    "llama --arch llama --heads 4 --heads-kv 4"
    "llama-gqa --arch llama --heads 4 --heads-kv 2"
    "qwen2 --arch qwen2 --heads 8 --heads-kv 2"
    "qwen3 --arch qwen3 --heads 4 --heads-kv 2"
    "qwen3moe --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 --experts-used 2"
)
types=(q4_0 q8_0 f16)

# A run that hangs is a failure, not a stop of everything.
run_native() {
    timeout "$(patience 120)" env -u GGML_BACKEND_PATH GGML_VK_VISIBLE_DEVICES= "$logits" --device CPU "$@"
}
run_remoted() {
    local vars
    mapfile -t vars < <(vtest_env "$out")
    timeout "$(patience 120)" env "${vars[@]}" "$logits" --device APIR0 "$@"
}

compare_runs() { # NAME ARGS...
    local name=$1 detail ok=no second=run_remoted
    shift
    [[ -z $native ]] || second=run_native
    if ! run_native "$@" --out "$work/a" 2>"$work/err"; then
        detail="the native run failed: $(tail -n 3 "$work/err")"
    elif ! $second "$@" --out "$work/b" 2>"$work/err"; then
        detail="the remoted run failed: $(tail -n 3 "$work/err")"
    elif detail=$("$compare" "$work/a" "$work/b" 2>&1); then
        ok=yes
    fi
    verdict "$ok" "$name" "$detail"
}

trap finish EXIT
if [[ -z $native ]]; then
    # One: a second compute thread beside the client and its server only waits on two cores.
    VTEST_CONFIG='{"threads": 1}'
    vtest_start "$out"
fi
trap finish EXIT

for shape in "${shapes[@]}"; do
    read -r -a args <<<"$shape"
    name=${args[0]}
    for type in "${types[@]}"; do
        file=$models/$name-$type.gguf
        write_file "$file" "$writer" "${args[@]:1}" --type "$type"
        for fa in on off; do
            # More prompt than one batch holds, so that the cache grows within it too.
            compare_runs "$name-$type-fa-$fa" --model "$file" --fa "$fa" --prompt-tokens 96 \
                --ubatch 64 --gen 48 --chunks
        done
    done
done

# A model with as many nodes as a real one, and a context in which the mask grows.
write_file "$models/135M-q4_0.gguf" "$writer" --preset 135M --type q4_0
compare_runs 135M-q4_0 --model "$models/135M-q4_0.gguf" --prompt-tokens 64 --gen 48

# Past 256 positions the cache's views grow: the graph is patched on the host.
compare_runs llama-gqa-q8_0-growing --model "$models/llama-gqa-q8_0.gguf" --prompt-tokens 200 \
    --gen 140

echo "parity: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
