#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# nested.sh [ARG]...: what the outer VM of run.sh's VM_ACCEL=nested runs: run.sh once more, which boots the caller's
# script with KVM. The kernel and that script came with the job; the inner VM's disks are the outer one's.
set -euo pipefail

job=/run/vm/job
# shellcheck source=/dev/null
. "$job/vars"
# For the kernel that runs here; of AMD's and Intel's QEMU emulates the first.
modprobe -d "$PWD/build/sysroot-trixie" kvm_amd
[[ -c /dev/kvm ]] || { echo "nested: no /dev/kvm" && exit 1; }

# The build root's own tree, for run.sh, and folders of the repository that it may write to.
mkdir -p /boot /run/build-root /run/state/{upper,work}
cp "$job"/vmlinuz-* /boot/
mount --bind / /run/build-root
mount -t overlay -o lowerdir=build/vm,upperdir=/run/state/upper,workdir=/run/state/work overlay build/vm
# Of each disk what run.sh would take it from.
disks='' n=0
for name in $VM_DISK_NAMES; do
    disk=/dev/pmem$n
    n=$((n + 1))
    case $name in
    /) for image in build/vm/root-"$(uname -m)"-*.erofs; do ln -sf "$disk" "$image"; done ;;
    store)
        mount -t tmpfs tmpfs build/images
        ln -s "$disk" build/images/store.erofs
        ;;
    *) disks+=" $name=$disk" ;;
    esac
done

# The one of Mesa's that compiles nothing: a guest's driver waits five seconds for QEMU's first answer, and no longer.
export GALLIUM_DRIVER=softpipe
[[ ! -e $job/inner-host ]] || export VM_HOST_SCRIPT=$job/inner-host
rc=0
VM_SHARE=/mnt/share VM_DISKS=$disks bash tests/vm/run.sh "$job/inner" "$@" || rc=$?
# The outer console, which is kept if this fails.
[[ $rc -eq 0 ]] || tail -n +1 build/vm/run-*/*.log >/dev/console
exit "$rc"
