#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh ARCH FILES VERSION: the image `apir-installer` for this machine's architecture, as an OCI archive:
# build/image/installer-ARCH.tar. FILES is what it puts into a machine. Else there is busybox in it and entry.sh.
# The same files make the same bytes; the date is the commit's.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ $# -eq 3 ]] || { echo "usage: build.sh ARCH FILES VERSION" >&2 && exit 2; }
umask 022
arch=$1 files=$2 version=$3
out=build/image
work=$(mktemp -d "$out/work-installer.XXXXXX")
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
made=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%FT%TZ)
pack() { # FOLDER FILE
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$1" -cf "$2" .
}

root=$work/root
mkdir -p "$root"/{bin,usr/bin,tmp,host}
cp /bin/busybox "$root/bin/busybox"
# The names that entry.sh uses.
for name in sh chown cp find grep mkdir mv nsenter rm rmdir sed sort; do
    ln -s busybox "$root/bin/$name"
done
cp -r "$files" "$root/files"
install -m 0755 image/installer/entry.sh "$root/entry"
chmod -R go=rX "$root/files"
# Nobody but root reads the hook.
chmod 0711 "$root/files/usr/local/libexec/apir/apir-hook"
pack "$root" "$work/root.tar"

layout=$work/oci label=org.opencontainers.image
umoci init --layout "$layout"
umoci new --image "$layout:installer"
umoci raw add-layer --image "$layout:installer" --history.created "$made" \
    --history.created_by 'busybox, and the files to install' "$work/root.tar"
umoci config --image "$layout:installer" --no-history --created "$made" --os linux --architecture "$arch" \
    --config.env PATH=/bin --config.entrypoint /entry \
    --config.label "$label.title=apir-installer" --config.label "$label.version=$version" \
    --config.label "$label.created=$made"
umoci gc --layout "$layout"
umoci tag --image "$layout:installer" localhost/apir-installer:latest
umoci rm --image "$layout:installer"
pack "$layout" "$out/installer-$arch.tar.new"
mv "$out/installer-$arch.tar.new" "$out/installer-$arch.tar"
echo "installer: $out/installer-$arch.tar, $(($(stat -c %s "$out/installer-$arch.tar") >> 10)) KiB"
