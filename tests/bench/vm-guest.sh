#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-guest.sh: what vm.sh runs in the VM. Samples go into files in $SHARE/samples,
# what the programs say to $SHARE/guest.log.
set -euo pipefail

SHARE=/mnt/share
MODELS=/mnt/models
# shellcheck source=/dev/null
. "$SHARE/agreed"
# shellcheck source=tests/vm/processes.sh
. tests/vm/processes.sh
log=$SHARE/guest.log

say() { printf 'bench: [%3d s in the VM] %s\n' "$SECONDS" "$*"; }
die() {
    echo "bench: $*"
    [[ ! -s $log ]] || tail -n 20 "$log"
    exit 1
}

# The plug-in alone, without the container that a user would have around it: it
# is out of the way once the program runs.
export GGML_BACKEND_PATH=$PWD/$BENCH_OUT/frontend/libggml-apir.so GGML_VK_VISIBLE_DEVICES=
bench=$BENCH_OUT/tests/bench/apir-bench

for port in /sys/class/virtio-ports/*; do
    read -r name <"$port/name"
    [[ $name != apir.ctl ]] || exec {ctl}<>"/dev/${port##*/}"
done

# A request to vm-host.sh; its answer is in $answer.
host() {
    echo "$*" >&"$ctl"
    read -r -t 600 -u "$ctl" answer || die "the host's side does not answer: $*"
    [[ $answer != error:* ]] || die "the host's side: $answer"
}

say "the link"
"$bench" link --case vm-link --graphs "$BENCH_GRAPHS" --repeat "$BENCH_REPEAT" \
    --out "$SHARE/samples/link" 2>>"$log" || die "apir-bench link failed"

for model in $BENCH_NAMES; do
    for ((round = 0; round < BENCH_ROUNDS; round++)); do
        say "$model, round $((round + 1)) of $BENCH_ROUNDS: $BENCH_PAIRS prompts and generations in" \
            "turns, and prompts at once, on the host and here"
        first=$((round * BENCH_PAIRS))
        # One thread: what is left to the guest's CPU is little, and threads of ggml spin.
        # Prompt and generation apart, as llama-bench does it: in turns llama.cpp builds its graph
        # anew each time, and emulated that takes longer than what is to be measured. Whose turn it
        # is has slept through the other's, so both settle first.
        for tokens in "$BENCH_PP 0" "0 $BENCH_TG"; do
            [[ $tokens != "0 0" ]] || continue # not asked for
            read -r pp tg <<<"$tokens"
            host "serve $model $pp $tg"
            "$bench" llama --model "$MODELS/$model.gguf" --side "native=peer:$ctl,$ctl" --side apir=APIR0 \
                --threads 1 --case "vm-$model" --pairs "$BENCH_PAIRS" --first "$first" --pp "$pp" --tg "$tg" \
                --same apir --settle --out "$SHARE/samples/turns" >>"$log" 2>&1 ||
                die "$model: apir-bench failed"
        done
        [[ $BENCH_PP -gt 0 ]] || continue
        host "at-once $model $BENCH_PP $BENCH_PAIRS $round"
        "$bench" serve --model "$MODELS/$model.gguf" --side apir=APIR0 --threads 1 --pp "$BENCH_PP" \
            --tg 0 <&"$ctl" >&"$ctl" 2>>"$log" || die "$model: apir-bench serve failed"
    done
done

# ---- idle -----------------------------------------------------------------------

[[ $BENCH_IDLE -gt 0 ]] || exit 0
model=${BENCH_NAMES%% *}
say "$model, loaded, idle for $BENCH_IDLE s"
# It loads, generates, sleeps, generates again. It need not say when it sleeps: it
# is when it has taken no CPU for three seconds. Ten more, so that we are done first.
"$bench" idle --model "$MODELS/$model.gguf" --side apir=APIR0 --threads 1 --case vm-idle \
    --seconds "$((BENCH_IDLE + 10))" --out "$SHARE/idle.process" >>"$log" 2>&1 &
pid=$!
last='' quiet=0
for ((i = 0; i < 120 && quiet < 3; i++)); do
    sleep 1
    now=$(cpu_time "$pid") || die "apir-bench idle failed"
    [[ $now == "$last" ]] && quiet=$((quiet + 1)) || quiet=0
    last=$now
done
[[ $quiet -eq 3 ]] || die "apir-bench takes CPU with nothing to do; look with APIR_LOG=debug at what wakes it"
host cpu
read -r ours_before vm_before <<<"$answer"
here_before=$(cpu_time "$pid") began=${EPOCHREALTIME/./}
sleep "$BENCH_IDLE"
took=$((${EPOCHREALTIME/./} - began)) here=$((($(cpu_time "$pid") - here_before) * 10))
host cpu
read -r ours vm <<<"$answer"
# It fails if what slept so well is dead.
wait "$pid" || die "apir-bench idle failed"
ours=$((ours - ours_before)) vm=$((vm - vm_before))
jq -cn --argjson ms "$((here + ours))" --argjson us "$took" \
    '{case: "vm-idle", side: "apir", metric: "idle", value: ($ms * 1000 / $us), unit: "core"}' \
    >"$SHARE/samples/idle"
say "CPU in $((took / 1000)) ms: the guest's process $here ms, server and worker $ours ms;" \
    "beside them QEMU, with all of the VM, $vm ms"
