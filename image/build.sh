#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh ARCH FILES VERSION: the image `remoting` for amd64 or arm64, as an OCI archive:
# build/image/remoting-ARCH.tar (`podman load` takes it). FILES is what `make install-frontend
# install-backend` installs for that architecture.
#
# The packages, and the lists that they were chosen from, are kept in build/image/cache-ARCH: what is
# made from them is the same to the last bit every time, without a network. IMAGE_REFRESH=1
# fetches the lists again. Its date is that of the newest list.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
[[ $# -eq 3 ]] || { echo "usage: build.sh ARCH FILES VERSION" >&2 && exit 2; }
arch=$1 files=$(realpath "$2") version=$3
out=$(realpath "$here/..")/build/image
cache=$out/cache-$arch
ref=localhost/remoting:latest

say() { printf 'image: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# The packages of another architecture are configured by its own programs, which the kernel gives to
# qemu-user: in a user namespace of ours that is told so, and nobody else on the machine sees.
# Before Linux 6.7 the machine itself must have been told.
if [[ $arch != "$(dpkg --print-architecture)" && ${IMAGE_STAGE-} != namespace ]]; then
    IMAGE_STAGE=namespace exec unshare --user --map-users=all --map-groups=all --setuid 0 --setgid 0 \
        --mount --pid --fork --mount-proc "$here/build.sh" "$@"
fi
if [[ ${IMAGE_STAGE-} == namespace ]]; then
    if mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null; then
        case $arch in
        arm64) cat /usr/share/qemu/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register ;;
        esac
    fi
    arch-test "$arch" >/dev/null ||
        die "programs of $arch do not run here: this takes Linux 6.7, or qemu-user-binfmt installed on the machine"
fi

mkdir -p "$cache/lists" "$cache/archives"
exec 9>"$out/.lock-$arch"
flock 9
work=$(mktemp -d "$out/work-$arch.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

mapfile -t packages < <(sed 's/#.*//' "$here/packages" | awk 'NF { print $1 }')
# shellcheck disable=SC2054 # the commas are mmdebstrap's
args=(--mode=root --arch="$arch" --variant=minbase --format=tar --skip=output/dev,download/empty,essential/unlink
    --aptopt='APT::Install-Recommends "false"'
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*'
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-include=/usr/share/doc/*/copyright')
while IFS= read -r opt; do
    args+=(--aptopt="$opt")
done < <(apt-config dump | grep -E '^Acquire::(Check-Valid-Until|Check-Date) ' || true)
# What it has /bin/sh do takes no descriptor beyond 9, so none of the caller's is left to it.
bootstrap() { TMPDIR=$work mmdebstrap --quiet "${args[@]}" "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; }

[[ -z ${IMAGE_REFRESH-} ]] || rm -rf "$cache"/{lists,archives}/*
if ! compgen -G "$cache/lists/*InRelease" >/dev/null; then
    say "$arch: fetching the lists of packages (kept in build/image/cache-$arch)"
    bootstrap --variant=custom \
        --customize-hook="sync-out /var/lib/apt/lists '$cache/lists'" forky /dev/null
fi
# The age of what is in it: nothing in the image is younger.
SOURCE_DATE_EPOCH=$(sed -n 's/^Date: //p' "$cache"/lists/*InRelease | date -f - +%s | sort -n | tail -n 1)
export SOURCE_DATE_EPOCH

# Made already, from the same: the digest then is the same, so that work is saved.
key=$(cd "$files" && { find . -type f -print0 | sort -z | xargs -0 sha256sum; echo "$version"
    sha256sum "$here"/{build.sh,setup.sh,packages} "$cache"/lists/*InRelease; } | sha256sum)
if [[ -e $out/remoting-$arch.tar && $(cat "$out/remoting-$arch.key" 2>/dev/null) == "$key" ]]; then
    say "$arch: $(<"$out/remoting-$arch.digest") is made already"
    exit 0
fi
rm -f "$out/remoting-$arch.key"

say "$arch: making the root"
# shellcheck disable=SC2016 # $1, the root, is expanded by the hooks' own shell
bootstrap --skip=update --include="$(IFS=, && echo "${packages[*]}")" \
    --setup-hook="sync-in '$cache/lists' /var/lib/apt/lists" \
    --setup-hook='mkdir -p "$1/var/cache/apt/archives"' \
    --setup-hook="sync-in '$cache/archives' /var/cache/apt/archives" \
    --customize-hook="sync-out /var/cache/apt/archives '$cache/archives'" \
    --customize-hook="cp -r --no-preserve=ownership '$files/.' \"\$1\"" \
    --customize-hook="chroot \"\$1\" sh -eu <'$here/setup.sh'" \
    --customize-hook='rm "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap' \
    forky "$work/root.tar"

say "$arch: writing the image"
layout=$work/oci
made=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%FT%TZ)
label=org.opencontainers.image
umoci init --layout "$layout"
umoci new --image "$layout:remoting"
umoci raw add-layer --image "$layout:remoting" --history.created "$made" \
    --history.created_by "Debian forky: ${packages[*]}" "$work/root.tar"
annotations=(
    --config.label "$label.title=remoting" --manifest.annotation "$label.title=remoting"
    --config.label "$label.version=$version" --manifest.annotation "$label.version=$version"
    --config.label "$label.created=$made" --manifest.annotation "$label.created=$made"
)
text='llama.cpp and whisper.cpp of Debian, computing on the GPU of the host of this VM'
umoci config --image "$layout:remoting" --no-history --created "$made" --os linux --architecture "$arch" \
    --config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    --config.env RENDER_SERVER_EXEC_PATH=/usr/libexec/apir/apir-render-server \
    --config.cmd /bin/bash "${annotations[@]}" \
    --config.label "$label.description=$text" --manifest.annotation "$label.description=$text"
umoci gc --layout "$layout"
umoci tag --image "$layout:remoting" "$ref"
umoci rm --image "$layout:remoting"
digest=$(jq -r '.manifests[0].digest' "$layout/index.json")
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
    -C "$layout" -cf "$out/remoting-$arch.tar.new" .
mv "$out/remoting-$arch.tar.new" "$out/remoting-$arch.tar"
echo "$digest" >"$out/remoting-$arch.digest"
echo "$key" >"$out/remoting-$arch.key"
say "$arch: $digest, $(($(stat -c %s "$out/remoting-$arch.tar") >> 20)) MiB ($SECONDS s)"
say "$arch: load it with: podman load --input build/image/remoting-$arch.tar"
