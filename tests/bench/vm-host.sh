#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-host.sh: the host's side of vm.sh (VM_HOST_SCRIPT). The guest leads: it asks,
# one line a request, over the port apir.ctl, and sleeps in read until the answer
# is there; so do we until it asks. Neither side is ever busy in the other's turn.
#
#   serve MODEL PP TG    hands the line to `apir-bench serve` until that is told to end
#   cpu                  milliseconds of CPU that our server and the one worker took
#                        so far, and that QEMU took
#
# Answers "error: …" otherwise. BENCH_* come from vm.sh.
set -uo pipefail
# shellcheck source=tests/vm/processes.sh
. tests/vm/processes.sh

# Each waits for QEMU's end to open, and the first ends when QEMU ends.
exec 3<"$VM_CONTROL.out" 4>"$VM_CONTROL.in"

# Which core is the faster one changes within seconds, as the machine's neighbours come and go. So
# both sides compute on one and the same: here, and in the worker.
serve() { # MODEL PP TG
    local pid core=()
    if [[ $(nproc) -gt 1 ]]; then
        for pid in $(servers); do
            taskset -acp 1 "$pid" >>"$BENCH_WORK/host.log" 2>&1 || return 1
        done
        core=(taskset -c 1)
    fi
    # What the worker has: the CPU, one thread, nothing that a plug-in adds.
    env -u GGML_BACKEND_PATH GGML_VK_VISIBLE_DEVICES= ${core[@]+"${core[@]}"} \
        "$BENCH_OUT/tests/bench/apir-bench" serve --model "$BENCH_MODELS/$1.gguf" --side native=CPU \
        --threads 1 --pp "$2" --tg "$3" --settle <&3 >&4 2>>"$BENCH_WORK/host.log"
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

while read -r what model pp tg <&3; do
    case $what in
    serve)
        ! serve "$model" "$pp" "$tg" || continue
        answer='error: the native run failed'
        ;;
    cpu) answer=$(cpu) || answer='error: not one server and one worker' ;;
    *) answer='error: not known' ;;
    esac
    printf '%s\n' "$answer" >&4
done
