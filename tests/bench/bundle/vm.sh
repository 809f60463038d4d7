#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm.sh [--host gpu|CPU] [--seconds N] [MODEL]... OUT
#
# The main road, in the small build root of the bundle: stock QEMU, kernel and virglrenderer, and a
# worker that computes on this machine's first GPU (Vulkan0) or on its CPU. Models are of gguf-write's
# presets (135M and 1B; with a CPU 3M), random weights, q4_0 and for 135M q8_0. A row says
#
#   device        the VM's APIR0 is described as the host's device is
#   tokens-MODEL  all logits of a prompt of 64 and of 32 tokens after it are those of a native run, bit
#                 for bit
#   speed-MODEL   llama-bench's figures of both; in the VM every one is of APIR0
#
# The VM's CPU is emulated where there is no KVM. What llama.cpp itself does for each token is slow
# then, and a figure says how fast such a VM is, not what the way to the host costs.
#
# build/vm/bundle has what each side said. The last line is `vm: N of M rows pass`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/native/options/rows.sh
. tests/native/options/rows.sh

die() {
    echo "vm: $*" >&2
    exit 2
}

# shellcheck disable=SC2034 # rows.sh's
suite=vm
host=gpu seconds=540 words=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --host) host=$2 && shift ;;
    --seconds) seconds=$2 && shift ;;
    -*) die "$1: unknown option" ;;
    *) words+=("$1") ;;
    esac
    shift
done
[[ ${#words[@]} -gt 0 ]] || die "where is the build's output directory?"
out=${words[-1]}
models=("${words[@]:0:${#words[@]}-1}")
case $host in
gpu)
    device=Vulkan0 offload=(-dev Vulkan0 -ngl 99)
    export GGML_VK_VISIBLE_DEVICES=0 # ggml leaves a GPU that is a CPU out, unless it is named
    description=$(llama-bench --list-devices 2>/dev/null | sed -n 's/^ *Vulkan0: \(.*\) ([0-9]* MiB.*/\1/p')
    [[ ${#models[@]} -gt 0 ]] || models=(135M 1B)
    ;;
CPU)
    device=CPU offload=(-dev none -ngl 0)
    export GGML_VK_VISIBLE_DEVICES=
    description=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr -s ' ' | sed 's/ *$//')
    [[ ${#models[@]} -gt 0 ]] || models=(3M)
    ;;
*) die "--host is gpu or CPU" ;;
esac

work=build/vm/bundle
share=$work/share
rm -rf "$work"
mkdir -p "$work/models" "$share" build/models/bundle
for model in "${models[@]}"; do
    type=q4_0
    [[ $model != 135M ]] || type=q8_0
    write_file "build/models/bundle/$model.gguf" "$out/tests/lib/models/gguf-write" --preset "$model" --type "$type"
    ln "build/models/bundle/$model.gguf" "$work/models/"
done

# The native runs are over before there is a VM: neither takes from the other. One thread on each side:
# more would spin on the cores that emulate the VM's.
for model in "${models[@]}"; do
    file=$work/models/$model.gguf
    echo "natively: $model"
    "$out/tests/native/options/logits" --model "$file" --device "$device" --prompt-tokens 64 --gen 32 \
        --out "$share/native-$model" 2>>"$work/native.log" || :
    llama-bench -m "$file" "${offload[@]}" -t 1 -p 512 -n 64 -r 20 -o json 2>>"$work/native.log" \
        >"$share/bench-native-$model.json" || :
done

echo "in the VM: ${models[*]} ($SECONDS s so far)"
printf '{"threads": 1, "devices": ["%s"]}\n' "$device" >"$work/backend.json"
rc=0
# What QEMU draws Mesa draws on the CPU, whatever GPU there is: that one is for the worker alone.
env LIBGL_ALWAYS_SOFTWARE=1 APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$share" \
    VM_DISKS="models=$work/models" VM_IMAGES=0 \
    VM_TIMEOUT="$((seconds > SECONDS + 30 ? seconds - SECONDS - 10 : 20))" \
    tests/vm/run.sh tests/bench/bundle/vm-guest.sh "$out" "${models[@]}" || rc=$?
[[ $rc -eq 0 ]] || echo "the VM ended with $rc"

# ---- rows -------------------------------------------------------------------------
found=$(sed -n 's/^ *APIR0: \(.*\) ([0-9]* MiB.*/\1/p' "$share/devices" 2>/dev/null | tr -s ' ' || :)
ok=no
[[ -z $found || $found != "$description" ]] || ok=yes
verdict "$ok" device "here: ${description:-none}; in the VM: ${found:-none}"

# Two results of twenty turns, all above nothing, with all layers on this device.
measured() { # JSON DEVICE
    jq -e --arg device "$2" 'length == 2 and
        all(.[]; .devices == $device and (.samples_ts | length == 20 and min > 0))' "$1" >/dev/null 2>&1
}
# Medians of the last ten turns. In the first third of a second a GPU was seen to take three times as
# long, natively too; and an emulator translates a loop when it first runs.
rates() { # "PP TG", in tokens per second
    jq -r '[.[].samples_ts[10:] | sort | (.[4] + .[5]) / 2] | "\(.[0]) \(.[1])"' "$1"
}
for model in "${models[@]}"; do
    here=$share/bench-native-$model.json there=$share/bench-apir-$model.json
    ok=no
    ! detail=$("$out/tests/native/options/options-compare" "$share"/{native,apir}-"$model" 2>&1) || ok=yes
    verdict "$ok" "tokens-$model" "$detail"

    ok=no detail='not all of it was measured on its device'
    if measured "$here" "${offload[1]}" && measured "$there" APIR0; then
        ok=yes
        detail=$(awk -v native="$(rates "$here")" -v vm="$(rates "$there")" '
            BEGIN { split(native, n); split(vm, v)
                    printf "pp512 %.0f t/s natively, %.0f in the VM (%.3f); tg64 %.1f, %.1f (%.3f)",
                        n[1], v[1], v[1] / n[1], n[2], v[2], v[2] / n[2] }')
    fi
    verdict "$ok" "speed-$model" "$detail"
done
if [[ $failed -gt 0 ]]; then
    tail -n 15 "$work/native.log" "$share/log" 2>/dev/null || :
fi
# shellcheck disable=SC2154 # rows.sh's
echo "vm: $passed of $((passed + failed)) rows pass"
[[ $failed -eq 0 && $rc -eq 0 ]]
