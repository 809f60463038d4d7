#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-guest.sh: what vm.sh runs in the VM. Samples go into files in $SHARE/samples,
# what the programs say to $SHARE/guest.log.
set -euo pipefail

SHARE=/mnt/share
# shellcheck source=/dev/null
. "$SHARE/agreed"
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
programs() { # COMMAND CASE OPTION...
    tests/bench/programs.sh "$1" --case "$2" --model /mnt/models/135M-q4_0.gguf --side apir=APIR0 --out "$SHARE/samples/$2" \
        "${@:3}" >>"$log" 2>&1 || die "$2 failed"
}

for port in /sys/class/virtio-ports/*; do
    read -r name <"$port/name"
    [[ $name != apir.ctl ]] || exec {ctl}<>"/dev/${port##*/}"
done

say "the link"
"$BENCH_OUT/tests/bench/apir-bench" link --case vm-link --repeat 60 --out "$SHARE/samples/link" 2>>"$log" || die "apir-bench link failed"

for ((round = 0; round < BENCH_ROUNDS; round++)); do
    say "135M, round $((round + 1)) of $BENCH_ROUNDS: on the host and here"
    echo "native $round" >&"$ctl"
    read -r -t 600 -u "$ctl" answer && [[ $answer == "done" ]] || die "the native run failed"
    # One thread: what is left to the guest's CPU is little, and threads of ggml spin.
    programs default vm-135M --pairs 1 --first "$round" --repeat 7 -- -t 1
done

[[ $BENCH_IDLE -gt 0 ]] || exit 0
say "135M, loaded, idle for $BENCH_IDLE s"
printf '#!/bin/bash\necho cpu >&%d\nread -r -t 60 -u %d ns\necho "$ns"\n' "$ctl" "$ctl" >/tmp/host-cpu
chmod +x /tmp/host-cpu
programs idle vm-idle --seconds "$BENCH_IDLE" --host-cpu /tmp/host-cpu
