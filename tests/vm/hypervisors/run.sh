#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh OUT [ROW]...: ways to start a hypervisor, or our server below it. In each a VM boots and computes
# tokens on APIR0, which must be those of a native run.
#
#   qemu      apir host run -- qemu-system-x86_64 ...
#   libvirt   docs/hypervisors/libvirt.xml, by Debian's libvirtd
#   bwrap     the server under bubblewrap, in a sandbox like the one that crun gives a render server
#   stream    the server behind a proxy that speaks to it as virglrenderer's macOS port does
#   kvm       QEMU with KVM, in an emulated machine; then apir-exercise on what a real virtual CPU does otherwise:
#             memory of both sides, growing, and naps from which the host must be woken
#
# build/hypervisors/ has what each row said. The last line is `hypervisors: N of M rows pass`.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
OUT=$1
shift
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh
rows=("$@")
[[ ${#rows[@]} -gt 0 ]] || rows=(qemu libvirt bwrap stream kvm)

rm -rf build/hypervisors
mkdir -p build/hypervisors build/vm
work=$(mktemp -d build/vm/hypervisors-XXXXXX)
trap 'rm -rf "$work"' EXIT
PREPARE_TOKENS=16
prepare_models build/models/vm || exit 1
prepare_native build/models/vm/first.gguf "$PREPARE_TOKENS" >"$work/native" && [[ -s $work/native ]] || exit 1
prepare_config "$work/backend.json"

# How run.sh of the VM is to start it, as environment; of the libvirt row only what its domain says.
backend=$(realpath "$OUT/backend")
environment_of() { # ROW
    case $1 in
    qemu) echo "VM_RENDER_SERVER=$backend/apir-render-server" ;;
    libvirt) printf '%s\n' "VM_RENDER_SERVER=$backend/apir-render-server" "VM_LAUNCH=$PWD/tests/vm/hypervisors/libvirt.sh" ;;
    bwrap) printf '%s\n' "VM_RENDER_SERVER=$PWD/tests/system/bwrap-server.sh" "BWRAP_BACKEND=$backend" ;;
    stream) printf '%s\n' "VM_RENDER_SERVER=$(realpath "$OUT/tests/system/stream-proxy")" \
        "STREAM_PROXY_SERVER=$backend/apir-render-server" ;;
    kvm) printf '%s\n' VM_ACCEL=nested "VM_RENDER_SERVER=$backend/apir-render-server" \
        "VM_HOST_SCRIPT=$PWD/tests/vm/hypervisors/kvm-host.sh" ;;
    *) return 1 ;;
    esac
}
exercises=(naps transfers host-buffers filled buffers events)

row() { # ROW
    local share=$PWD/$work/$1 native=$work/native environment name more=()
    mapfile -t environment < <(environment_of "$1")
    [[ ${#environment[@]} -gt 0 ]] || { echo "there is no row $1" && return 1; }
    if [[ $1 == kvm ]]; then
        more=("$PWD/$OUT/tests/system/apir-exercise" "${exercises[@]}")
        native+=-kvm
        VM_ACCEL=nested prepare_native build/models/vm/first.gguf "$PREPARE_TOKENS" >"$native" || return 1
    fi
    mkdir -p "$share"
    for name in PREPARE_TOKENS PREPARE_PROMPT; do
        printf '%s=%q\n' "$name" "${!name}"
    done >"$share/agreed"
    env "${environment[@]}" APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$share" VM_IMAGES=0 \
        VM_DISKS=models=build/models/vm VM_TIMEOUT="${VM_TIMEOUT:-600}" \
        tests/vm/run.sh tests/vm/hypervisors/guest.sh "$PWD/$OUT/frontend/libggml-apir.so" "${more[@]}" || return 1
    [[ $(<"$share/text") == "$(<"$native")" ]] && return 0
    printf 'here:   %s\nnative: %s\n' "$(<"$share/text")" "$(<"$native")"
    return 1
}

passed=0
for name in "${rows[@]}"; do
    began=$SECONDS
    if row "$name" >"build/hypervisors/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name ($((SECONDS - began)) s)"
    else
        echo "FAILED  $name ($((SECONDS - began)) s)"
        cat "$work/$name/log" >"build/hypervisors/$name.llama.log" 2>/dev/null
        tail -n 15 "build/hypervisors/$name.log" | sed 's/^/        /'
    fi
done
echo "hypervisors: $passed of ${#rows[@]} rows pass"
[[ $passed -eq ${#rows[@]} ]]
