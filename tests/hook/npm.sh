#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# npm.sh NAME: a real third-party package with a ggml of its own, unpacked to
# build/npm/NAME. Prints that folder. Fetched once, and checked against the sum below
# each time it is unpacked; fails where there is neither a copy nor a network.
#
#   node-x64, node-arm64   node-llama-cpp's prebuilt addon and libraries
#   node-x64-old           the same from before ggml knew a registration that it has
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case ${1-} in
node-x64) file=@node-llama-cpp/linux-x64/-/linux-x64-3.22.1.tgz sum=5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg== ;;
node-arm64) file=@node-llama-cpp/linux-arm64/-/linux-arm64-3.22.1.tgz sum=W+7naKCXX9/eEjjFmRS8vvx91QyLXDbeFxexZc3bh/PtQABZgmRL3C0AtYYXn4YGTj/3Qor4lWZn2tpjZFPLdQ== ;;
node-x64-old) file=@node-llama-cpp/linux-x64/-/linux-x64-3.6.0.tgz sum=lUzTTY7AwRz5j/f6rss6fPc2u3YNOmo4k8Zap38kzy9H6rL+U2nlanN+4STs5j/7gcx5f/VHRnPrYDl5OPcmTw== ;;
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
    good() { [[ $(openssl dgst -sha512 -binary "$archive" 2>/dev/null | base64 -w 0) == "$sum" ]]; }
    good || curl --silent --show-error --fail --location --max-time 120 \
        --output "$archive" "https://registry.npmjs.org/$file"
    good || { echo "npm.sh: $archive is not what it should be" >&2; exit 1; }
    rm -rf "$out.new"
    mkdir "$out.new"
    tar -x --no-same-owner -f "$archive" -C "$out.new" --strip-components=1
    mv "$out.new" "$out"
fi
echo "$out"
