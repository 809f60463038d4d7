#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# image.sh: the container images that the test VM has, in one read-only image
# store (podman's "additional image store"), packed as a disk for the VM:
# build/images/store.erofs. Made once; again when a list below changes.
# image.sh aarch64: those for a VM of that architecture, in build/images-aarch64;
# aarch64.sh runs it where arm64 programs run.
# image.sh demo: the first of them alone, in the store only, where there is none yet.
#
#   localhost/llama         Debian's llama.cpp packages and nothing else
#   localhost/llama-vulkan  the same with ggml's Vulkan backend and Mesa
#
# No file of ours is in any of them. build/images/archives/llama.tar is the first
# one again, as `docker load` takes it: for engines with a store of their own.
set -euo pipefail

# shellcheck disable=SC2054 # the commas are mmdebstrap's
declare -A images=(
    [llama]=llama.cpp,llama.cpp-tools,llama.cpp-tools-extra
    [llama-vulkan]=llama.cpp,llama.cpp-tools,libggml0-backend-vulkan,mesa-vulkan-drivers
)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(cd "$here/../.." && pwd -P)
out=$repo/build/images names=(llama llama-vulkan)
case ${1-} in
demo) names=(llama) ;;
?*) out+=-$1 ;;
esac

say() { printf 'images: %s\n' "$*" >&2; }

sh "$here/../env/inside.sh" || exec "$here/../env/enter.sh" tests/vm/image.sh "$@"

# Mounts of our own, so that nothing is left behind if we are killed.
if [[ ${IMAGE_STAGE-} != mounted ]]; then
    IMAGE_STAGE=mounted exec unshare --mount --propagation private "$here/image.sh" "$@"
fi

arch=$(dpkg --print-architecture)
[[ ${1-} != aarch64 ]] || arch=arm64
mkdir -p "$out"
key_of() {
    local name
    for name in "$@"; do echo "$name ${images[$name]}"; done | cat - "$here/pack.sh" | sha256sum | cut -d' ' -f1
}
up_to_date() {
    local key
    [[ -e $out/store.erofs && -e $out/store.key ]] || return 1
    key=$(<"$out/store.key")
    [[ $key == "$(key_of llama llama-vulkan)" || $key == "$(key_of "${names[@]}")" ]]
}
up_to_date && exit 0
exec 9>"$out/.lock"
flock 9
up_to_date && exit 0

work=$(mktemp -d "$out/work.XXXXXX")
# shellcheck disable=SC2317,SC2329 # called by trap
cleanup() {
    umount --recursive --lazy "$work/store" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

# shellcheck source=tests/env/debian.bash
. "$here/../env/debian.bash"
args=(--quiet --arch="$arch" --format=tar "${debian_args[@]}" --dpkgopt='path-exclude=/usr/share/man/*')
# In aarch64.sh's user namespace podman could not unpack device nodes. Engines make a container's own.
[[ ${1-} != aarch64 ]] || args+=(--skip=output/dev)

pids=()
for name in "${names[@]}"; do
    say "making localhost/$name (${images[$name]})"
    TMPDIR=$work mmdebstrap "${args[@]}" --include="${images[$name]}" forky "$work/$name.tar" \
        >"$work/$name.log" 2>&1 9>&- &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid" || {
        cat "$work"/*.log >&2
        say "mmdebstrap failed"
        exit 1
    }
done

# podman itself writes the store. On a tmpfs: it wants to see a file system
# that can carry an overlay, which the one under build/ need not be.
in_store() {
    PODMAN_IGNORE_CGROUPSV1_WARNING=1 podman --root "$work/store" --runroot "$work/run" \
        --storage-driver overlay --cgroup-manager cgroupfs "$@"
}
mkdir "$work/store" "$work/run" "$work/archives"
mount -t tmpfs -o mode=0755 tmpfs "$work/store"
for name in "${names[@]}"; do
    in_store import --quiet --os linux --arch "$arch" \
        --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
        --change 'CMD ["/bin/bash"]' "$work/$name.tar" "localhost/$name:latest" >/dev/null
    rm "$work/$name.tar"
done
[[ ${1-} == demo ]] || in_store save --quiet --format docker-archive --output "$work/archives/llama.tar" localhost/llama
umount "$work/store/overlay" 2>/dev/null || true
bash "$here/pack.sh" "$work/store" "$out/store.erofs"
rm -rf "$out/archives"
mv "$work/archives" "$out/archives"
key_of "${names[@]}" >"$out/store.key"
say "${out#"$repo"/}/store.erofs is ready ($SECONDS s)"
