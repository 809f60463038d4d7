#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# dist.sh VERSION: the source as an archive, build/dist/apir-VERSION.tar.xz: what the commit has, with its
# time, and so the same bytes for the same commit. What is not committed is not in it.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -eq 1 ]] || { echo "usage: dist.sh VERSION" >&2 && exit 2; }
name=apir-$1

# The folder is another user's where the build root is entered without root.
in_git() { git -c safe.directory='*' "$@"; }
in_git rev-parse --verify --quiet HEAD >/dev/null || {
    echo "dist: this is no git checkout; the archive that it came from is the source" >&2
    exit 1
}
in_git diff-index --quiet HEAD || echo "dist: changes that are not committed are left out" >&2
mkdir -p build/dist
work=$(mktemp -d build/dist/work-XXXXXX)
trap 'rm -rf "$work"' EXIT
in_git -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD | xz -6 --threads=1 >"$work/$name.tar.xz"
mv "$work/$name.tar.xz" build/dist/
echo "dist: build/dist/$name.tar.xz, sha256 $(sha256sum "build/dist/$name.tar.xz" | cut -d' ' -f1)"
