#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-host.sh: the host's side of vm.sh (VM_HOST_SCRIPT). The guest leads: it asks,
# one line a request, over the port apir.ctl, and sleeps in read until the answer
# is there; so do we until it asks. Neither side is busy in the other's turn, but at once.
#
#   serve MODEL PP TG    answers "ready", then hands the line to `apir-bench serve` until that is
#                        told to end
#   at-once MODEL PP TURNS PAIR
#                        answers "ready", then leads: prompts here and in the guest, where an
#                        `apir-bench serve` is to be at the other end of the line, at the same
#                        time on one core. Samples go into $BENCH_WORK/share/samples/at-once
#   cpu                  milliseconds of CPU that our server and the one worker took
#                        so far, and that QEMU took
#
# Answers "error: …" otherwise. BENCH_* come from vm.sh.
set -uo pipefail
# shellcheck source=tests/vm/processes.sh
. tests/vm/processes.sh

# Each waits for QEMU's end to open, and the first ends when QEMU ends.
exec 3<"$VM_CONTROL.out" 4>"$VM_CONTROL.in"

# Both sides compute on one and the same core, here and in the worker (why: docs/bench-method.md, Cores).
core=$(($(nproc) > 1))
bench=$BENCH_OUT/tests/bench/apir-bench
log=$BENCH_WORK/host.log

on_core() { # CORE PID...: with their threads, and what they will start
    local pid
    for pid in "${@:2}"; do
        taskset -acp "$1" "$pid" >>"$log" 2>&1 || return 1
    done
}

# What the worker has: the CPU, one thread, nothing that a plug-in adds.
native() { # MODEL PP TG OPTION...
    exec env -u GGML_BACKEND_PATH GGML_VK_VISIBLE_DEVICES= taskset -c "$core" "$bench" serve \
        --model "$BENCH_MODELS/$1.gguf" --side native=CPU --threads 1 --pp "$2" --tg "$3" "${@:4}" \
        2>>"$log"
}

serve() { # MODEL PP TG
    # shellcheck disable=SC2046 # a list
    on_core "$core" $(servers) || return 1
    echo ready >&4
    (native "$@" --settle) <&3 >&4
}

# Waits, half a minute at most, until the VM has so many workers; sets $found to them.
workers_wait() { # N
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        read -ra found <<<"$(workers)"
        [[ ${#found[@]} -ne $1 ]] || return 0
        sleep 0.1
    done
    echo "there should be $1 workers, not ${#found[@]}" >>"$log"
    return 1
}

at_once() { # MODEL PP TURNS PAIR
    local found pid to from rc=0 pipe=$BENCH_WORK/native
    workers_wait 0 || return 1
    # Who only starts and forwards is not on the core of those who compute.
    # shellcheck disable=SC2046 # a list
    on_core 0 $(servers) || return 1
    mkfifo "$pipe.in" "$pipe.out"
    native "$1" "$2" 0 <"$pipe.in" >"$pipe.out" 3>&- 4>&- &
    pid=$!
    exec {to}>"$pipe.in" {from}<"$pipe.out"
    rm "$pipe.in" "$pipe.out"
    echo ready >&4
    workers_wait 1 && on_core "$core" "${found[0]}" &&
        "$bench" llama --case "vm-$1" --at-once \
            --side "native=peer:$from,$to,$pid" --side "apir=peer:3,4,${found[0]}" --pp "$2" --tg 0 \
            --pairs "$3" --first "$4" --out "$BENCH_WORK/share/samples/at-once" >>"$log" 2>&1 || rc=1
    exec {to}>&- {from}<&-
    wait "$pid" || rc=1
    return "$rc"
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

while read -ra request <&3; do
    case ${request[*]} in
    "serve "*" "*" "*)
        ! serve "${request[@]:1}" || continue
        answer='error: the native run failed'
        ;;
    "at-once "*" "*" "*" "*)
        ! at_once "${request[@]:1}" || continue
        answer='error: prompts at once failed'
        ;;
    cpu) answer=$(cpu) || answer='error: not one server and one worker' ;;
    *) answer='error: not known' ;;
    esac
    printf '%s\n' "$answer" >&4
done
