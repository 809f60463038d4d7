#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# guest.sh PLUG-IN [APIR-EXERCISE COMMAND...]: the greedy run of run.sh on APIR0, in the VM. Its text goes to
# /mnt/share/text. By llama-server: llama-completion loses the end of its text on a busy machine. Then each command.
set -uo pipefail
SHARE=/mnt/share
# shellcheck source=/dev/null
. "$SHARE/agreed"
export GGML_BACKEND_PATH=$1 GGML_VK_VISIBLE_DEVICES=
llama-server -m /mnt/models/first.gguf -dev APIR0 -ngl 99 --host 127.0.0.1 --port 8080 -np 1 -c 4096 \
    -b 16 -ub 16 -t 1 -tb 1 --no-warmup -lv 4 >"$SHARE/log" 2>&1 </dev/null &
server=$!
exec {nap}<> <(:) # nothing ever comes from it
until curl -sf http://127.0.0.1:8080/health >/dev/null; do
    kill -0 "$server" 2>/dev/null || { echo "llama-server ended" && exit 1; }
    read -r -t 0.2 -u "$nap" _ || :
done
jq -n --arg prompt "$PREPARE_PROMPT" --argjson n "$PREPARE_TOKENS" \
    '{prompt: $prompt, n_predict: $n, temperature: 0, seed: 1, cache_prompt: false}' |
    curl -sS --max-time 300 -d @- http://127.0.0.1:8080/completion | jq -r .content >"$SHARE/text" || exit 1
if [[ $# -gt 1 ]]; then
    # The guest's kernel maps our memory, which is at the window's start, as memory that is cached.
    mount -t debugfs debugfs /sys/kernel/debug
    window=$(sed -n 's/^ *\([0-9a-f]*\)-.* : virtio[0-9]*$/\1/p' /proc/iomem)
    mapped=$(grep "mem 0x0*${window%??????}" /sys/kernel/debug/x86/pat_memtype_list)
    echo "$mapped"
    [[ -n $window && -n $mapped ]] && ! grep -v 'write-back$' <<<"$mapped" || exit 1
fi
kill "$server"
wait "$server" 2>/dev/null || :
# All layers were there, and none on the CPU.
grep -qE 'offloaded ([0-9]+)/\1 layers' "$SHARE/log" || exit 1
for command in "${@:3}"; do
    began=$SECONDS
    "$2" "$command" APIR0 >"$SHARE/$command.log" 2>&1 || { echo "$command failed"; tail -n 5 "$SHARE/$command.log"; exit 1; }
    echo "$command: $((SECONDS - began)) s"
done
