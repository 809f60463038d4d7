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
# shellcheck source=tests/lib/patience.bash
. tests/lib/patience.bash

# Each waits for QEMU's end to open, and the first ends when QEMU ends.
exec 3<"$VM_CONTROL.out" 4>"$VM_CONTROL.in"

is_worker() { [[ " $(workers)" == *" $1 "* ]]; }

# The guest waits for an answer for twice as long.
busy() {
    local start
    start=$(cpu_time "$1") && wait_until 10 has_computed "$1" "$start" && parent_of "$1" >/dev/null
}
has_computed() { # PID BEFORE: or is gone
    local now
    now=$(cpu_time "$1") || return 0
    [[ $((now - $2)) -ge 20 ]]
}

gone() { wait_until 10 is_gone "$1"; }
is_gone() { ! parent_of "$1" >/dev/null; }

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
