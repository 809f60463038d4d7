#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# host.sh: beside the VM (VM_HOST_SCRIPT): what QEMU and our server and workers say is there for the guest
# to read, in VM_SHARE/host.log, as it comes.
exec tail -n +1 -f --pid "$VM_QEMU_PID" "$VM_DIR/qemu.log" >"$VM_SHARE/host.log"
