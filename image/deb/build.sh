#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh VERSION [ARCHITECTURE]: Debian packages of build/dist/apir-VERSION.tar.xz, in build/deb/. What is
# beside this file is debian/ of the unpacked source; debian/changelog is made of docs/CHANGELOG.md. For another
# ARCHITECTURE they are cross-built.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ $# -ge 1 ]] || { echo "usage: build.sh VERSION [ARCHITECTURE]" >&2 && exit 2; }
# Lower than the -1 that a distribution's own package would have.
version=$1 revision=0apir1
own=$(dpkg --print-architecture)
arch=${2:-$own}

mkdir -p build/deb
exec 9>build/deb/.lock
flock 9
work=$(mktemp -d build/deb/work-XXXXXX)
trap 'rm -rf "$work"' EXIT
cp "build/dist/apir-$version.tar.xz" "$work/apir_$version.orig.tar.xz"
tar -C "$work" -xf "$work/apir_$version.orig.tar.xz"
source=$work/apir-$version
cp -r "$source/image/deb" "$source/debian"
rm "$source/debian"/{build.sh,changelog.awk}
who=$(sed -n 's/^Maintainer: //p' "$source/debian/control")
TZ=UTC LC_ALL=C awk -v who="$who" -v revision="$revision" -f "$source/image/deb/changelog.awk" \
    "$source/docs/CHANGELOG.md" >"$source/debian/changelog"
[[ $(dpkg-parsechangelog -l "$source/debian/changelog" -S Version) == "$version-$revision" ]] || {
    echo "deb: the first version of docs/CHANGELOG.md is not $version, the Makefile's" >&2
    exit 1
}

# Nothing of the caller's make or settings; cross-built, without the programs of that architecture.
args=(--no-sign)
[[ $arch == "$own" ]] || args+=(--build=any --host-arch="$arch" --no-check-builddeps)
(cd "$source" && env -i PATH="$PATH" HOME="$HOME" LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS="parallel=${JOBS:-$(nproc)}" \
    dpkg-buildpackage "${args[@]}") >"build/deb/$arch.log" 2>&1 9>&- || {
    tail -n 30 "build/deb/$arch.log" >&2
    echo "deb: dpkg-buildpackage failed; all it said is in build/deb/$arch.log" >&2
    exit 1
}
find build/deb -maxdepth 1 -name "*_$arch.deb" -delete
find "$work" -maxdepth 1 -type f -exec mv -t build/deb {} +
for package in build/deb/*"_${version}-${revision}_$arch.deb"; do
    [[ $package == *-dbgsym_* ]] || echo "deb: $package"
done
