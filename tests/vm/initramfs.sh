#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# initramfs.sh ROOT KERNEL-VERSION OUT: ROOT's busybox, tests/vm/init and the few
# modules that the VM needs before it has a root; all others come from the root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source=$1 version=$2 out=$3
# What all others need, which newer kernels have built in; then two lists that share no module: the
# VM loads them at the same time.
bus=(virtio_pci virtio_console)
root=(9pnet_virtio 9p overlay virtio_pmem nd_pmem virtio_blk erofs)
gpu=(virtio_gpu)

tree=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/bin" "$tree/modules"
cp "$source/usr/bin/busybox" "$tree/bin/busybox"
cp "$here/init" "$tree/init"
chmod 755 "$tree/init"

# Each module after what it needs. Unpacked here, because unpacking xz in an
# emulated CPU takes longer than all the rest of the boot.
load_list() {
    local list=$1 module file name
    shift
    : >"$tree/modules/$list"
    for module in "$@"; do
        modprobe -d "$source" -S "$version" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while IFS= read -r file; do
        name=$(basename "$file")
        name=${name%%.ko*}.ko
        [[ ! -e $tree/modules/$name ]] || continue
        case $file in
        *.xz) xz -dc "$file" ;;
        *.zst) zstd -qdc "$file" ;;
        *) cat "$file" ;;
        esac >"$tree/modules/$name"
        # No console on the GPU: it would only cost time.
        [[ $name != drm_client_lib.ko ]] || name+=" active="
        echo "$name" >>"$tree/modules/$list"
    done
}
load_list bus "${bus[@]}"
load_list root "${root[@]}"
load_list gpu "${gpu[@]}"

(cd "$tree" && find . | sort | cpio --quiet -o -H newc -R 0:0) >"$tree.cpio"
mv "$tree.cpio" "$out"
