#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# pack.sh OUT: a root file system as a tar: what fetch.sh has fetched, the build
# root's node, and the libraries that both need. No other ggml, no shell.
set -euo pipefail
work=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/root"
tar -C "$work/root" -xf build/images/node.tar
find "$work/root/app" \( -name "*.so" -o -name "*.node" \) -exec ldd /usr/bin/node /usr/bin/env {} + |
    awk '$3 ~ /^\/(usr\/)?lib/ { print $3 } $1 ~ /^\/lib/ { print $1 }' | grep -v : | sort -u |
    xargs cp --dereference --parents -t "$work/root"
cp --dereference --parents -r -t "$work/root" /usr/bin/node /usr/bin/env /etc/os-release /etc/passwd \
    /usr/share/nodejs/{acorn,acorn-walk,undici}
tar -C "$work/root" --owner=0 --group=0 -cf "$1" .
