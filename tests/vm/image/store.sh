#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# store.sh OUT ARCHIVE...: podman loads the archives, as anybody would, and the image store that it
# has made is packed as a disk for the VM. Nothing is done where OUT was made from the same ones.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

# Mounts of our own, so that nothing is left behind if we are killed.
if [[ ${STORE_STAGE-} != mounted ]]; then
    STORE_STAGE=mounted exec unshare --mount --propagation private "$here/store.sh" "$@"
fi
out=$1
shift
key=$(cat "$here/store.sh" "$here/../pack.sh" "$@" | sha256sum | cut -d' ' -f1)
[[ ! -e $out || $(cat "$out.key" 2>/dev/null) != "$key" ]] || exit 0
work=$(mktemp -d "$out.XXXXXX")
trap 'umount --recursive --lazy "$work/store" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT

# A tmpfs: podman wants a file system that can carry an overlay.
mkdir "$work/store"
mount -t tmpfs -o mode=0755 tmpfs "$work/store"
for archive; do
    PODMAN_IGNORE_CGROUPSV1_WARNING=1 podman --root "$work/store" --runroot "$work/run" \
        --storage-driver overlay --cgroup-manager cgroupfs load --quiet --input "$archive"
done
umount "$work/store/overlay" 2>/dev/null || true
bash "$here/../pack.sh" "$work/store" "$out"
echo "$key" >"$out.key"
