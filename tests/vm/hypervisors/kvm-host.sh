#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# kvm-host.sh: beside the VM of the row kvm (VM_HOST_SCRIPT). What its guest writes and reads in our memory must never
# leave it: each word would be an exit from KVM to QEMU, as the registers of devices are. Those that are left are
# doorbells and the boot's: some thousands, where the guest touches some hundred million words.
set -euo pipefail
mount -t debugfs debugfs /sys/kernel/debug
exits=0
exec {nap}<> <(:) # nothing ever comes from it
while [[ -d /proc/$VM_QEMU_PID ]]; do
    now=$(cat /sys/kernel/debug/kvm/mmio_exits)
    [[ $now -eq 0 ]] || exits=$now # 0: that VM has ended
    read -r -t 1 -u "$nap" _ || :
done
echo "kvm: $exits exits for devices"
[[ $exits -gt 1000 && $exits -lt 200000 ]]
