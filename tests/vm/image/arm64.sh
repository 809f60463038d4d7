#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# arm64.sh: programs of the arm64 image under qemu-user (`make check-image-arm64`): on their CPU, and
# through the image's plug-in on a server and worker of this machine, over a socket. No VM and no engine
# have a part in it. The last line is "image-arm64: N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
sh tests/env/inside.sh || exec tests/env/enter.sh tests/vm/image/arm64.sh "$@"

# As in image/build.sh: a user namespace in which the kernel gives arm64 programs to qemu-user.
if [[ ${ARM64_STAGE-} == namespace ]]; then
    set -e
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    cat /usr/share/qemu/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
    mount -t tmpfs tmpfs "$ARM64_WORK/root"
    mkdir "$ARM64_WORK/root/image"
    umoci raw unpack --image "$ARM64_WORK/oci:localhost/remoting:latest" "$ARM64_WORK/root/image" >/dev/null
    mkdir -p "$ARM64_WORK/root/image"/{models,run/host}
    mount --bind build/models/vm "$ARM64_WORK/root/image/models"
    mount --bind "$ARM64_WORK/run" "$ARM64_WORK/root/image/run/host"
    mount --rbind /dev "$ARM64_WORK/root/image/dev"
    mount -t proc proc "$ARM64_WORK/root/image/proc"
    exec bats --timing --tap tests/vm/image/arm64.bats
fi

# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh
ARM64_WORK=$(mktemp -d "$PWD/build/image/arm64-XXXXXX")
export ARM64_WORK ARM64_STAGE=namespace
server=
# shellcheck disable=SC2317,SC2329 # called by trap
cleanup() {
    [[ -z $server ]] || kill "$server"
    rm -rf --one-file-system "$ARM64_WORK"
}
trap cleanup EXIT
mkdir "$ARM64_WORK"/{oci,root,run}
prepare_models build/models/vm || exit 1
tar -xf build/image/remoting-arm64.tar -C "$ARM64_WORK/oci" || exit 1
prepare_config "$ARM64_WORK/backend.json"
APIR_CONFIG=$ARM64_WORK/backend.json "$OUT/backend/apir-render-server" --listen "$ARM64_WORK/run/apir.sock" &
server=$!
unshare --user --map-users=all --map-groups=all --setuid 0 --setgid 0 --mount --pid --fork --mount-proc \
    "$0" > >(tee "$ARM64_WORK/tap")
rc=$?
wait %2 2>/dev/null
plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$ARM64_WORK/tap" | head -n 1)
ok=$(grep '^ok ' "$ARM64_WORK/tap" | grep -vc ' # skip')
failed=$((${plan:-1} - ok))
[[ $rc -eq 0 || $failed -gt 0 ]] || failed=1
echo "image-arm64: $ok passed, $failed failed"
[[ $failed -eq 0 ]]
