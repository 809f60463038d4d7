#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-host.sh: the host's part of vm.sh (VM_HOST_SCRIPT): stops and kills the VM, or stops its servers
# and workers, when the guest asks for it by a file in VM_SHARE.
set -uo pipefail
# shellcheck source=tests/vm/processes.sh
. tests/vm/processes.sh
# shellcheck source=tests/lib/patience.bash
. tests/lib/patience.bash
asked() {
    until [[ -e $VM_SHARE/$1 ]]; do
        [[ -e /proc/$VM_QEMU_PID ]] || exit 1
        pause 0.05
    done
}

asked stop
for _ in 1 2 3; do
    kill -STOP "$VM_QEMU_PID"
    pause 5
    kill -CONT "$VM_QEMU_PID"
    pause 1.5
done
echo "stopped three times" >"$VM_SHARE/continued"

# The VM's host alone: its servers and workers, while the guest runs on.
asked stop-host
host=$(servers)$(workers)
# A list of pids.
# shellcheck disable=SC2086
kill -STOP $host
echo "stopped:" $host >"$VM_SHARE/host-stopped"
pause 5
touch "$VM_SHARE/host-continued" # before it: who computes without this file did so on a stopped host
# shellcheck disable=SC2086
kill -CONT $host

asked kill
left=$(servers)$(workers)
before=$(wc -w <<<"$left")
began=$(now_ms)
kill -KILL "$VM_QEMU_PID"
all_gone() { # sets left to those that are not
    local still='' pid
    for pid in $left; do
        ! parent_of "$pid" >/dev/null || still+="$pid "
    done
    left=$still
    [[ -z $left ]]
}
wait_until 10 all_gone
took=$(($(now_ms) - began))
if [[ $before -ge 2 && -z $left ]] && in_time "$took" 2000; then
    echo "ok - QEMU killed: its server and workers are gone $took ms later" >>"$VM_SHARE/results"
else
    echo "not ok - QEMU killed: of $before processes these are left after $took ms: $left" >>"$VM_SHARE/results"
fi
touch "$VM_SHARE/killed"
