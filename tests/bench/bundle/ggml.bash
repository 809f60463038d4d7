# SPDX-License-Identifier: Apache-2.0
#
# What the small build root of the bundle takes besides for tests/native/ggml/run.sh: node, and node-llama-cpp's
# packages, of whose many backends for one CPU and another there are two. Sourced after root.bash; $out,
# $root, $top and $built are bundle.sh's.
# shellcheck shell=bash disable=SC2154

ggml_root() {
    local package file node
    node=$(command -v node)
    root_programs "$node"
    # Debian's node reads parts of itself from files that its library names.
    # shellcheck disable=SC2046 # names without spaces
    root_files $(ldd "$node" | awk '/libnode/ { print $3 }' |
        xargs grep -aohE '/usr/share/nodejs/[A-Za-z0-9_./-]+\.c?js' | sort -u)
    for package in build/npm/node-x64{,-old,-3.13.0,-3.18.1,-3.20.0,-3.21.1} \
        build/npm/node-x64-vulkan-{3.6.0,3.13.0,3.18.1,3.20.0,3.21.1,3.22.1}; do
        [[ -d $package ]] || { echo "bundle: no $package: tests/system/hook/npm.sh" >&2 && return 1; }
        for file in "$package"/bins/linux-x64*/*; do
            case $file in
            */libggml-cpu-haswell.so | */libggml-cpu-x64.so) ;;
            */libggml-cpu-*.so) continue ;;
            esac
            cp --parents "$file" "$top"
        done
    done
    cp --parents tests/native/ggml/*.{sh,bash} tests/system/hook/node_llama.cjs "$top"
    install -D "$out/tests/native/ggml/guest" "$built/tests/native/ggml/guest"
    root_programs "$out/tests/native/ggml/guest"
}
