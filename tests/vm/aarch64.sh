#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# aarch64.sh: what a VM of another architecture boots (run.sh with VM_ARCH=aarch64): Debian's arm64 kernels, of
# 4 and of 16 KiB pages, and packages in build/sysroot-aarch64, and the container images of image.sh for it.
# Made once; again when a list changes.
#
# Their maintainers' scripts are arm64 programs, which the kernel gives to qemu-user: in a user namespace of
# ours that is told so, and nobody else on the machine sees. Before Linux 6.7 the machine itself must have
# been told.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)/build/sysroot-aarch64
# Kernels, what init and run.sh take, podman with its networks, the libraries of `apir`, what scripts call, and
# for check-archs-arm64 and check-options-arm64 llama.cpp's tests and programs.
packages=linux-image-arm64,linux-image-arm64-16k,kmod,busybox-static,podman,crun,catatonit,aardvark-dns,nftables,libjson-c5,libdrm2,jq,curl,llama.cpp-tests,llama.cpp,llama.cpp-tools,llama.cpp-tools-extra

sh "$here/../env/inside.sh" || exec "$here/../env/enter.sh" tests/vm/aarch64.sh
if [[ ${AARCH64_STAGE-} != namespace ]]; then
    AARCH64_STAGE=namespace exec unshare --user --map-users=all --map-groups=all --setuid 0 --setgid 0 \
        --mount --pid --fork --mount-proc "$here/aarch64.sh"
fi
if mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null; then
    cat /usr/share/qemu/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
fi
arch-test arm64 >/dev/null || {
    echo "vm: programs of arm64 do not run here: this takes Linux 6.7, or qemu-user-binfmt installed on the machine" >&2
    exit 1
}

exec 9>"${root%/*}/.sysroot-aarch64.lock"
flock 9
if [[ $(cat "$root/etc/apir-build-root" 2>/dev/null) != "$packages" ]]; then
    echo "vm: making build/sysroot-aarch64 (about 4 minutes)" >&2
    rm -rf --one-file-system "$root" "$root.part"
    # shellcheck source=tests/env/debian.bash
    . "$here/../env/debian.bash"
    # The initramfs is initramfs.sh's: the kernel's package makes none.
    INITRD=No mmdebstrap --quiet --mode=root --arch=arm64 "${debian_args[@]}" \
        --dpkgopt='path-exclude=/usr/share/man/*' --include="$packages" forky "$root.part" 9>&- >&2
    # Those of this machine. Networks of podman ask for the first; the VM has nobody to name in it.
    rm -f "$root.part/etc/"{resolv.conf,hostname}
    : >"$root.part/etc/resolv.conf"
    echo "$packages" >"$root.part/etc/apir-build-root"
    mv "$root.part" "$root"
fi
"$here/image.sh" aarch64
