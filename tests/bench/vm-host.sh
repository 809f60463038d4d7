#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-host.sh: the host's side of vm.sh (VM_HOST_SCRIPT). The guest leads: it asks,
# one line a request, over the port apir.ctl, and sleeps in read until the answer
# is there; so do we until it asks. Neither side is ever busy in the other's turn.
#
#   native MODEL ROUND   measures MODEL natively; ok
#   cpu                  milliseconds of CPU that our server and the one worker took
#                        so far, and that QEMU took
#
# Answers "error: …" otherwise. BENCH_* come from vm.sh.
set -uo pipefail
# shellcheck source=tests/vm/processes.sh
. tests/vm/processes.sh

# Each waits for QEMU's end to open, and the first ends when QEMU ends.
exec 3<"$VM_CONTROL.out" 4>"$VM_CONTROL.in"

native() { # MODEL ROUND
    local tokens
    for tokens in "--pp $BENCH_PP --tg 0" "--pp 0 --tg $BENCH_TG"; do
        [[ $tokens != "--pp 0 --tg 0" ]] || continue # not asked for
        # What the worker has: the CPU, one thread, nothing that a plug-in adds.
        # shellcheck disable=SC2086 # words on purpose
        env -u GGML_BACKEND_PATH GGML_VK_VISIBLE_DEVICES= \
            "$BENCH_OUT/tests/bench/apir-bench" llama --model "$BENCH_MODELS/$1.gguf" \
            --side native=CPU --threads 1 --case "vm-$1" --pairs "$BENCH_PAIRS" $tokens \
            --out "$VM_SHARE/samples/$2.$1.native" >>"$BENCH_WORK/host.log" 2>&1 || return 1
    done
}

cpu() {
    local pid ticks ours=0 pids
    # Both must be there: nobody would take no time at all.
    read -ra pids <<<"$(servers) $(workers)"
    [[ ${#pids[@]} -eq 2 ]] || return 1
    for pid in "${pids[@]}"; do
        ticks=$(cpu_time "$pid") || return 1
        ours=$((ours + ticks))
    done
    ticks=$(cpu_time "$VM_QEMU_PID") || return 1
    echo $((ours * 10)) $((ticks * 10))
}

while read -r what a b <&3; do
    case $what in
    native) answer='error: the native run failed' && native "$a" "$b" && answer=ok ;;
    cpu) answer=$(cpu) || answer='error: not one server and one worker' ;;
    *) answer='error: not known' ;;
    esac
    printf '%s\n' "$answer" >&4
done
