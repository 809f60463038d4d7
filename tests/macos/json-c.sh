#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# json-c.sh CC FOLDER: json-c from Debian's source package, compiled with CC into FOLDER (an archive, headers and
# FOLDER/lib/pkgconfig). The source is fetched once into build/macos/source, by apt and its keys.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cc=$1 out=$2 source=build/macos/source

# Of the first of these releases that the mirror still has all of. apt's lists are kept out of the build root.
fetch() {
    local suite apt=$PWD/$source/apt
    local options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
    for suite in forky trixie bookworm; do
        rm -rf "$source"
        mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
        # Where the build root has its packages from.
        sed -nE "s/^deb ([^ ]+) [a-z]+ main.*/deb-src \\1 $suite main/p; T; q" /etc/apt/sources.list >"$apt/sources.list"
        if apt-get "${options[@]}" update && (cd "$source" && apt-get "${options[@]}" source json-c); then
            mv "$source"/json-c-*/ "$source/json-c"
            return
        fi
    done
    echo "json-c.sh: no source of json-c can be had" >&2
    exit 1
}

[[ -d $source/json-c ]] || fetch
cmake -S "$source/json-c" -B "$out.build" -DCMAKE_SYSTEM_NAME=Darwin -DCMAKE_C_COMPILER="$cc" -DCMAKE_AR="$PWD/build/macos/ar" \
    -DCMAKE_RANLIB=/bin/true -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PWD/$out" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DBUILD_APPS=OFF -DDISABLE_WERROR=ON
cmake --build "$out.build" -j2 --target install
