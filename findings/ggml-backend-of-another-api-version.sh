#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# ggml (Debian forky's 0.27.0, its llama-bench) and a Vulkan backend built with ggml 0.25.1 (of the npm package
# @node-llama-cpp/linux-x64-vulkan 3.22.1), whose version of the backend's interface is 2 where 3 is wanted. In the folder where
# ggml looks for backends by itself it is opened and asks the driver for its devices, which it prints ("Found 1 Vulkan devices"), and
# is then dropped without a word: no line that it was loaded or refused, no device, and status 0. The reason is said where
# GGML_BACKEND_PATH names the same file: "incompatible API version (backend: 2, current: 3)".
#
# Wants Debian on amd64, root, mmdebstrap, npm and network. What was seen: the last lines, with "ok". Fails if that changes.
set -euo pipefail
version=0.27.0-1
package=@node-llama-cpp/linux-x64-vulkan@3.22.1
sum=6c1c6a53e24e701bb59dbe508f6cdc31c8be241c93d44f046a31ef62877235f5483e41215e1fbf1ccc11d7f053ef13f4f182b4864b3e90cf1f825111d0ff0912
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
say() { echo "ok    $*"; }
die() {
    echo "FAIL  $*"
    exit 1
}

# As this machine's own apt is told about the age of indexes.
mapfile -t age < <(apt-config dump | sed -nE "s/^(Acquire::Check-(Valid-Until|Date) .*)/--aptopt=\1/p")
mmdebstrap --quiet --variant=minbase "${age[@]}" --aptopt='APT::Install-Recommends "false"' \
    --include=llama.cpp-tools,libggml0-backend-vulkan,mesa-vulkan-drivers forky "$work/root"
found=$(chroot "$work/root" dpkg-query -W -f '${Version}' libggml0-backend-vulkan)
[[ $found == "$version" ]] || die "forky has ggml $found now, this was seen with $version"

archive=$(cd "$work" && npm pack --silent "$package")
sha512sum --check --status <<<"$sum  $work/$archive" || die "$package is not what it was"
tar -x --no-same-owner -f "$work/$archive" -C "$work"
backends=$work/root/usr/lib/x86_64-linux-gnu/ggml/backends0
mkdir "$work/root/srv/other"
cp "$work"/package/bins/*/libggml-vulkan.so "$work/root/srv/other/"
# What it asks for by the name that it has in its own package.
ln -s libggml-base.so.0 "$work/root/usr/lib/x86_64-linux-gnu/libggml-base.so"

list() { # NAME=VALUE...: the devices in $devices, what was said in $said
    devices=$(unshare --mount chroot "$work/root" env GGML_VK_VISIBLE_DEVICES=0 VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json \
        "$@" llama-bench --list-devices 2>"$work/said") || die "llama-bench ended with $?"
    said=$(<"$work/said")
}

list
[[ $devices == *Vulkan0* && $said == *"loaded Vulkan backend"* ]] || die "Debian's own backend: $devices $said"
say "Debian's own backend is loaded, and Vulkan0 listed"

rm "$backends/libggml-vulkan.so"
cp "$work/root/srv/other/libggml-vulkan.so" "$backends/"
list
[[ $said == *"Found 1 Vulkan devices"* ]] || die "it does not get as far as its devices: $said"
[[ $devices != *Vulkan* && $said != *"loaded Vulkan backend"* && $said != *incompatible* && $said != *failed* ]] ||
    die "something is said of it: $devices $said"
say "the other one in its place finds its device, and is dropped without a word"

list GGML_BACKEND_PATH=/srv/other/libggml-vulkan.so
grep -F 'incompatible API version (backend: 2, current: 3)' <<<"$said" | head -n 1 || die "no reason: $said"
[[ $devices != *Vulkan* ]] || die "it is listed: $devices"
say "named by GGML_BACKEND_PATH it has the reason"
