#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm.sh OUT: what only a VM has: a host-visible window that is full, a VM that is stopped and goes
# on, a VMM that is killed. vm-guest.sh runs in it, vm-host.sh beside it; both write their lines to
# the folder that they share, each a test. The last line is their sum.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
sh tests/env/inside.sh || exec tests/env/enter.sh tests/hostile/faults/vm.sh "$@"
out=${1:-build/release-gcc}
mkdir -p build/vm
share=$(mktemp -d "$PWD/build/vm/faults-XXXXXX")
before=" $(echo build/vm/run-*) "

printf '{"threads": 1, "devices": ["CPU"]}\n' >"$share/backend.json"
rc=0
APIR_CONFIG=$share/backend.json VM_SHARE=$share VM_IMAGES=0 VM_HOSTMEM=32M \
    VM_TIMEOUT="${VM_TIMEOUT:-4000}" VM_HOST_SCRIPT=$PWD/tests/hostile/faults/vm-host.sh \
    tests/vm/run.sh tests/hostile/faults/vm-guest.sh "$out" || rc=$?
cat "$share/results" 2>/dev/null
passed=$(grep -c '^ok - ' "$share/results")
failed=$(grep -c '^not ok - ' "$share/results")
# The VM is killed last of all: any other end came before the tests'.
if [[ $rc -ne 125 || ! -e $share/killed ]]; then
    echo "not ok - the VM ended with $rc before it was killed"
    failed=$((failed + 1))
fi
if [[ $failed -eq 0 ]]; then
    rm -rf "$share"
    # Of a VM that is killed its run is kept.
    for run in build/vm/run-*; do
        [[ $before == *" $run "* ]] || rm -rf "$run"
    done
fi
echo "faults in a VM: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
