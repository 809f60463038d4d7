#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm.sh OUT SAMPLES [OPTION]...: measurements in a VM, in one boot, appended to the
# file SAMPLES as one JSON object per line:
#
#   vm-link   apir-bench link in the guest: the link itself
#   vm-135M   llama-bench on the host, and remoted in the guest, in turns; a round has new processes. The worker has
#             one CPU thread, and so has the native run
#   vm-idle   what the guest's llama-server, our server and its worker take with nothing to do
#
# OUT is the build's output directory. Options:
#
#   --rounds N           8
#   --idle-seconds N     60; 0: not measured
#
# Exits with 0 only if all of it was measured. build/vm/bench-* is kept if not.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

sh tests/env/inside.sh || exec tests/env/enter.sh tests/bench/vm.sh "$@"
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh

usage() {
    sed -n '/^# vm.sh OUT/,/^# Exits/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[[ $# -ge 2 && $1 != -* && $2 != -* ]] || usage
OUT=$1 samples=$2
shift 2

BENCH_ROUNDS=8 BENCH_IDLE=60
while [[ $# -gt 0 ]]; do
    [[ ${2-} =~ ^[0-9]{1,7}$ ]] || usage
    case $1 in
    --rounds) BENCH_ROUNDS=$2 ;;
    --idle-seconds) BENCH_IDLE=$2 ;;
    *) usage ;;
    esac
    shift 2
done

for program in tests/bench/apir-bench tests/lib/models/gguf-write \
    frontend/libggml-apir.so backend/apir-render-server; do
    [[ -x $OUT/$program ]] || { echo "bench: no $OUT/$program; make all" >&2 && exit 1; }
done

# The guest sees the repository where we do, so one relative path serves both.
BENCH_OUT=$(realpath --relative-to=. "$OUT")
BENCH_MODELS=build/models/bench
mkdir -p build/vm "$BENCH_MODELS"
BENCH_WORK=$(mktemp -d "$PWD/build/vm/bench-XXXXXX")
share=$BENCH_WORK/share
mkdir -p "$share/samples"

fail() {
    echo "bench: $*" >&2
    echo "bench: what the programs said is in ${BENCH_WORK#"$PWD"/}" >&2
    exit 1
}

# Of a type that ggml repacks for the CPU: others are natively for a BLAS backend, if there is one.
prepare_model "$BENCH_MODELS/135M-q4_0.gguf" --preset 135M --type q4_0 || fail "no model"
# vm-host.sh finds them in its environment, vm-guest.sh in a file.
export BENCH_OUT BENCH_ROUNDS BENCH_IDLE BENCH_MODELS BENCH_WORK
for name in "${!BENCH_@}"; do
    printf '%s=%q\n' "$name" "${!name}"
done >"$share/agreed"
prepare_config "$BENCH_WORK/backend.json"

# The two sides' own line: vm-host.sh sits at the other end.
control=$BENCH_WORK/control
mkfifo "$control.in" "$control.out"
rc=0
env APIR_CONFIG="$BENCH_WORK/backend.json" VM_SHARE="$share" VM_DISKS="models=$BENCH_MODELS" VM_IMAGES=0 \
    VM_TIMEOUT="${VM_TIMEOUT:-1800}" VM_RENDER_SERVER="$OUT/backend/apir-render-server" \
    VM_HOST_SCRIPT="$PWD/tests/bench/vm-host.sh" VM_CONTROL="$control" \
    VM_QEMU_ARGS="-chardev pipe,id=ctl,path=$control -device virtserialport,chardev=ctl,name=apir.ctl" \
    tests/vm/run.sh tests/bench/vm-guest.sh || rc=$?
if [[ $rc -ne 0 ]]; then
    [[ ! -s $BENCH_WORK/host.log ]] || tail -n 10 "$BENCH_WORK/host.log" >&2
    case $rc in
    124) fail "the VM took longer than VM_TIMEOUT; set it higher, or measure less" ;;
    125) fail "the VM did not boot or ended early; tests/vm/run.sh has said above what its console said" ;;
    *) fail "a measurement failed in the VM (exit code $rc)" ;;
    esac
fi
jq -c . "$share"/samples/* >"$BENCH_WORK/samples" || fail "these are no samples: $share/samples"

# Of each side and metric as many as agreed.
n=$(jq -r 'select(.case == "vm-135M") | "\(.side) \(.metric) \(.pair)"' "$BENCH_WORK/samples" | sort -u | wc -l)
[[ $n -eq $((4 * BENCH_ROUNDS)) ]] || fail "vm-135M: $n samples, not $((4 * BENCH_ROUNDS))"
cat "$BENCH_WORK/samples" >>"$samples" || fail "cannot write $samples"

tests/bench/report.sh "$BENCH_WORK/report" --targets vm- "$BENCH_WORK/samples" || fail "no report"
rm -rf "$BENCH_WORK"
