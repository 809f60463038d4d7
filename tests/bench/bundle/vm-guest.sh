#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-guest.sh OUT MODEL...: what vm.sh runs in the VM. Results go to /mnt/share: devices, and for each
# model apir-MODEL (tokens and logits) and bench-apir-MODEL.json; log is what the programs said. What
# fails leaves no result, and vm.sh looks for each.
set -uo pipefail
SHARE=/mnt/share
out=$1
shift
export GGML_BACKEND_PATH=$PWD/$out/frontend/libggml-apir.so GGML_VK_VISIBLE_DEVICES=

llama-bench --list-devices >"$SHARE/devices" 2>>"$SHARE/log"
for model; do
    file=/mnt/models/$model.gguf
    echo "  $model: tokens ($SECONDS s in the VM)"
    "$out/tests/native/options/logits" --model "$file" --device APIR0 --prompt-tokens 64 --gen 32 \
        --out "/tmp/$model" 2>>"$SHARE/log" && cp "/tmp/$model" "$SHARE/apir-$model"
    echo "  $model: llama-bench ($SECONDS s in the VM)"
    llama-bench -m "$file" -dev APIR0 -ngl 99 -t 1 -p 512 -n 64 -r 20 -o json 2>>"$SHARE/log" \
        >"$SHARE/bench-apir-$model.json"
done
echo "  done ($SECONDS s in the VM)"
