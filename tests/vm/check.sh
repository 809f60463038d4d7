#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh: the tests that need the VM, in three boots: with our host side, with it
# and two devices there, and with the stock one alone. Each test is one in tests/vm/check*.bats. The last
# line is "vm: N passed, N failed". A directory that failed is kept.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
sh tests/env/inside.sh || exec tests/env/enter.sh tests/vm/check.sh "$@"
# shellcheck source=tests/lib/patience.bash
. tests/lib/patience.bash
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh

PREPARE_TOKENS=24
mkdir -p build/vm
work=$(mktemp -d build/vm/check-XXXXXX)
share=$work/share
mkdir "$share"
passed=0 failed=0

summary() {
    echo "vm: $passed passed, $failed failed"
    if [[ $failed -eq 0 ]]; then
        rm -rf "$work"
        exit 0
    fi
    exit 1
}

set -e
prepare_models build/models/vm
for model in first second; do
    prepare_native "build/models/vm/$model.gguf" "$PREPARE_TOKENS" >"$share/native.$model"
done
if cmp -s "$share/native.first" "$share/native.second" || [[ ! -s $share/native.first ]]; then
    echo "not ok the native runs: two models must say two things"
    failed=1
    summary
fi
for name in PREPARE_TOKENS PREPARE_PROMPT PREPARE_GREEDY; do
    printf '%s=%q\n' "$name" "${!name}"
done >"$share/agreed"
prepare_install "$PWD/$share/root"
prepare_config "$work/backend.json"
set +e

# boot NAME BATS-FILE [VARIABLE=VALUE]...
boot() {
    local name=$1 file=$2 rc=0 log=$work/$1.tap plan ok began=$SECONDS
    shift 2
    env APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$share" VM_DISKS=models=build/models/vm \
        VM_TIMEOUT="${VM_TIMEOUT:-$(patience 600)}" "$@" tests/vm/run.sh tests/vm/check-guest.sh "$file" \
        > >(tee "$log") || rc=$?
    wait # for tee
    # What the plan promises and nobody reports has failed too: the VM may have died. A skip, too: the
    # VM is ours and has all that its tests need.
    plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$log" | head -n 1)
    ok=$(grep '^ok ' "$log" | grep -vc ' # skip')
    echo "vm: $name: $ok of ${plan:-none} tests passed, exit code $rc, $((SECONDS - began)) s"
    passed=$((passed + ok))
    if [[ -z $plan ]]; then
        failed=$((failed + 1))
    else
        failed=$((failed + plan - ok))
        [[ $rc -eq 0 || $plan -ne $ok ]] || failed=$((failed + 1))
    fi
}

# The tests' own line to the host: check-host.sh sits at the other end.
control=$PWD/$work/control
mkfifo "$control.in" "$control.out"
boot "with our host side" check.bats VM_HOST_SCRIPT="$PWD/tests/vm/check-host.sh" VM_CONTROL="$control" \
    VM_QEMU_ARGS="-chardev pipe,id=ctl,path=$control -device virtserialport,chardev=ctl,name=apir.ctl"
prepare_config "$work/two.json"
sed -i 's/\["CPU"\]/["CPU", "Vulkan0"]/' "$work/two.json"
# ggml leaves a GPU that is a CPU out, unless it is named.
boot "with two devices" check-cdi.bats APIR_CONFIG="$PWD/$work/two.json" GGML_VK_VISIBLE_DEVICES=0
boot "with the stock host side" check-nohost.bats VM_RENDER_SERVER=/usr/libexec/virgl_render_server
summary
