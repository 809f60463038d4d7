#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-host.sh: the host's side of the tests in the VM (VM_HOST_SCRIPT). Reads
# requests of the guest, one a line, from the pipe VM_CONTROL.out, which QEMU
# feeds from the port apir.ctl; answers each with a line on VM_CONTROL.in.
#
#   workers        the apir-workers of this VM, oldest first
#   busy PID       returns when that worker has computed for 0.2 s from now on
#   kill SIG PID   sends the signal to that worker
#   gone PID       returns when that process is no more
#
# Answers "error: …" otherwise. Only workers of VM_QEMU_PID are ever touched.
set -uo pipefail
# shellcheck source=tests/vm/processes.sh
. tests/vm/processes.sh

# Each waits for QEMU's end to open, and the first ends when QEMU ends.
exec 3<"$VM_CONTROL.out" 4>"$VM_CONTROL.in"

is_worker() { [[ " $(workers)" == *" $1 "* ]]; }

busy() {
    local start now
    start=$(cpu_time "$1") || return 1
    for ((i = 0; i < 500; i++)); do
        now=$(cpu_time "$1") || return 1
        [[ $((now - start)) -lt 20 ]] || return 0
        sleep 0.02
    done
    return 1
}

gone() {
    for ((i = 0; i < 250; i++)); do
        parent_of "$1" >/dev/null || return 0
        sleep 0.02
    done
    return 1
}

while read -r what a b <&3; do
    case $what in
    workers) answer=$(workers) ;;
    busy) answer='error: it does not compute' && busy "$a" && answer=ok ;;
    kill) answer='error: no worker of this VM' && is_worker "$b" && kill -s "$a" "$b" && answer=ok ;;
    gone) answer='error: it is still there' && gone "$a" && answer=ok ;;
    *) answer='error: not known' ;;
    esac
    printf '%s\n' "$answer" >&4
done
