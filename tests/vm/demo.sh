#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh: the main job, in a real VM (`make demo`). With VM_ARCH in one of that architecture (`make demo
# ARCH=aarch64`), and with VM_PAGES on its kernel of larger pages (`make demo ARCH=aarch64 PAGES=16k`); with
# VM_SUITE in one of an older Debian (`make demo SUITE=bookworm`), which installs the packages of `make deb`
# and has docker, too; with VM_ACCEL=nested under KVM in an emulated machine.
# A container that holds nothing of ours computes on the host. The last line is "demo: ok", or "demo: FAILED
# at STEP" with exit code 1; tests/vm/demo-guest.sh has the steps.
# build/vm/demo/ holds what every step printed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
sh tests/env/inside.sh || exec tests/env/enter.sh tests/vm/demo.sh "$@"
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh

began=$SECONDS
# Two demos at once share a build tree, not this directory.
mkdir -p build/vm
exec 9>build/vm/.demo.lock
flock -n 9 || { echo "demo: another one is running; waiting" && flock 9; }
work=build/vm/demo
rm -rf "$work"
mkdir -p "$work/share"

fail() {
    [[ ! -s $work/share/$1.log ]] || tail -n 20 "$work/share/$1.log"
    echo "demo: the logs are in $work"
    echo "demo: FAILED at $1"
    exit 1
}

echo "demo: the same greedy completion natively on this machine, for comparison"
PREPARE_TOKENS=24
PREPARE_PROMPT='Once upon a time'
prepare_models build/models/vm >"$work/share/native.log" 2>&1 || fail native
prepare_native build/models/vm/first.gguf "$PREPARE_TOKENS" >"$work/share/native.text" || fail native
[[ -s $work/share/native.text ]] || fail native
for name in PREPARE_TOKENS PREPARE_PROMPT PREPARE_GREEDY; do
    printf '%s=%q\n' "$name" "${!name}"
done >"$work/share/agreed"
sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 >"$work/share/host-cpu"
# There the host is the outer VM, and this its CPU.
[[ ${VM_ACCEL-} != nested ]] || echo 'QEMU TCG CPU version 2.5+' >"$work/share/host-cpu"
if [[ -n ${VM_SUITE-} ]]; then
    mkdir "$work/share"/{packages,log}
    find build/deb -name "*_$(dpkg --print-architecture).deb" ! -name '*-dbgsym_*' ! -name 'apir-host_*' \
        -exec cp -t "$work/share/packages" {} + || fail install
else
    prepare_install "$PWD/$work/share/root" >"$work/share/install.log" 2>&1 || fail install
fi
prepare_config "$work/backend.json"

echo "demo: booting the ${VM_SUITE:+$VM_SUITE }${VM_ARCH:-$(uname -m)} VM${VM_PAGES:+ with pages of $VM_PAGES}${VM_ACCEL:+, $VM_ACCEL}: stock QEMU, stock Debian kernel, virtio-gpu with Venus"
echo boot >"$work/share/step"
rc=0 limit=300 disks=models=build/models/vm
# There docker takes the image, too.
[[ -z ${VM_SUITE-} ]] || limit=900 disks+=" archives=build/images/archives"
env APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$work/share" VM_DISKS="$disks" \
    VM_TIMEOUT="${VM_TIMEOUT:-$limit}" tests/vm/run.sh tests/vm/demo-guest.sh 9>&- || rc=$?
[[ $rc -eq 0 ]] || fail "$(<"$work/share/step")"
echo "demo: $((SECONDS - began)) s"
rm -rf "$work"
echo "demo: ok"
