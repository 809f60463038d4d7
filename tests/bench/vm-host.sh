#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-host.sh: the host's side of vm.sh (VM_HOST_SCRIPT). The guest leads: it asks, one line a request, over the port
# apir.ctl, and sleeps in read until the answer is there; so do we until it asks. Neither side is busy in the other's
# turn.
#
#   native ROUND   llama-bench here, with what the worker has: the CPU, one thread. Answers "done"
#   cpu            nanoseconds of CPU that our server and the one worker took so far
#
# Answers "error" otherwise. BENCH_* come from vm.sh.
set -uo pipefail
# shellcheck source=tests/vm/processes.sh
. tests/vm/processes.sh

# Each waits for QEMU's end to open, and the first ends when QEMU ends.
exec 3<"$VM_CONTROL.out" 4>"$VM_CONTROL.in"

native() { # ROUND
    GGML_VK_VISIBLE_DEVICES='' tests/bench/programs.sh default --case vm-135M --model "$BENCH_MODELS/135M-q4_0.gguf" \
        --side native=CPU --pairs 1 --first "$1" --repeat 7 --out "$BENCH_WORK/share/samples/native" -- -t 1 >>"$BENCH_WORK/host.log" 2>&1 || return 1
    echo "done"
}

cpu() {
    local pids
    # Both must be there: nobody would take no time at all.
    read -ra pids <<<"$(servers) $(workers)"
    [[ ${#pids[@]} -eq 2 ]] || return 1
    cat "/proc/${pids[0]}/task/"*/schedstat "/proc/${pids[1]}/task/"*/schedstat | awk '{ ns += $1 } END { printf "%.0f\n", ns }'
}

while read -ra request <&3; do
    case ${request[*]} in
    "native "* | cpu) answer=$("${request[@]}") || answer=error ;;
    *) answer=error ;;
    esac
    printf '%s\n' "$answer" >&4
done
