#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# suite.sh SUITE: what a VM of an older Debian boots (run.sh with VM_SUITE): that release's kernel,
# podman, crun and docker in build/sysroot-SUITE. Made once; again when the list changes. The container
# images are the same as in any other VM.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
suite=${1:?usage: suite.sh SUITE}
root=$(cd "$here/../.." && pwd -P)/build/sysroot-$suite
# A kernel, what init and run.sh take, podman with its networks, the libraries of `apir`, and what scripts call.
packages=linux-image-amd64,kmod,busybox-static,podman,crun,catatonit,netavark,aardvark-dns,nftables,docker.io,libjson-c5,libdrm2,jq,curl

sh "$here/../env/inside.sh" || exec "$here/../env/enter.sh" tests/vm/suite.sh "$@"
case $suite in
bookworm) ;;
trixie) packages+=,docker-cli ;; # in bookworm docker.io has it
*)
    echo "vm: no such suite: $suite (bookworm, trixie)" >&2
    exit 2
    ;;
esac
if [[ ${SUITE_STAGE-} != mounted ]]; then
    SUITE_STAGE=mounted exec unshare --mount --propagation private "$here/suite.sh" "$@"
fi
exec 9>"${root%/*}/.sysroot-$suite.lock"
flock 9
[[ $(cat "$root/etc/apir-build-root" 2>/dev/null) != "$packages" ]] || exit 0
echo "vm: making build/sysroot-$suite (about 2 minutes)" >&2
rm -rf --one-file-system "$root" "$root.part"
# shellcheck source=tests/env/debian.bash
. "$here/../env/debian.bash"
# The initramfs is initramfs.sh's: the kernel's package makes none.
INITRD=No mmdebstrap --quiet --mode=root "${debian_args[@]}" \
    --dpkgopt='path-exclude=/usr/share/man/*' --include="$packages" "$suite" "$root.part" 9>&- >&2
# Those of this machine. Networks of podman ask for the first; the VM has nobody to name in it.
rm -f "$root.part/etc/"{resolv.conf,hostname}
: >"$root.part/etc/resolv.conf"
echo "$packages" >"$root.part/etc/apir-build-root"
mv "$root.part" "$root"
