#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fetch.sh: makes build/images/node.tar, node-llama-cpp with its binaries for this
# machine, for the row image-node of `make check-engines`. Wants npm and its
# registry; called by hand, since nothing else here needs either.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
out=$here/../../../../build/images
version=3.22.1
case $(uname -m) in
x86_64) arch=x64 ;;
aarch64) arch=arm64 ;;
*) echo "node-llama-cpp has no binaries for $(uname -m)" >&2 && exit 1 ;;
esac

mkdir -p "$out"
work=$(mktemp -d "$out/node.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/app"
cp "$here/complete.mjs" "$work/app/"
# Those for other machines and other GPU libraries are its optional dependencies.
(cd "$work/app" && npm install --ignore-scripts --no-package-lock --no-audit --no-fund --omit=optional --no-save \
    "node-llama-cpp@$version" "@node-llama-cpp/linux-$arch@$version")
# What only building llama.cpp from its sources would read.
rm -f "$work/app/node_modules/node-llama-cpp/llama/gitRelease.bundle"
find "$work/app" -name '*.map' -delete
tar -C "$work" --owner=0 --group=0 -cf "$work/node.tar" app
mv "$work/node.tar" "$out/node.tar"
