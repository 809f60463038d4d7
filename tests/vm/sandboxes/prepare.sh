#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# prepare.sh FOLDER: what the VM of this suite is given: a user's ~/.local/share/flatpak with an application
# and its runtime, which is the files of localhost/llama, as an archive.
set -euo pipefail
work=$(realpath "$1")
at=$work/flatpak
mkdir -p "$at/root" "$at/runtime/files" "$at/app/files/bin"
tar --extract --to-stdout --file build/images/archives/llama.tar --wildcards '*.tar' |
    tar --extract --directory "$at/root" --exclude './dev/*' --no-same-owner
mv "$at/root/usr" "$at/runtime/usr"
mv "$at/root/etc" "$at/runtime/usr/etc"
printf '%s\n' '[Runtime]' 'name=org.apir.Platform' "runtime=org.apir.Platform/$(uname -m)/1" \
    "sdk=org.apir.Platform/$(uname -m)/1" >"$at/runtime/metadata"
ln -s /usr/bin/llama-bench "$at/app/files/bin/llama-bench"
mkdir -p "$at/app/export"
printf '%s\n' '[Application]' 'name=org.apir.Llama' "runtime=org.apir.Platform/$(uname -m)/1" 'command=llama-bench' \
    >"$at/app/metadata"
export FLATPAK_USER_DIR=$at/user HOME=$at
flatpak build-export --disable-sandbox --runtime "$at/repo" "$at/runtime" 1
flatpak build-export --disable-sandbox "$at/repo" "$at/app" 1
flatpak --user remote-add --no-gpg-verify here "$at/repo"
flatpak --user install --assumeyes --noninteractive here org.apir.Llama//1
# What is installed needs nothing of the objects that it was made of.
tar --create --file "$work/archives/flatpak.tar" --directory "$at/user" --exclude './repo/objects/*' .
rm -rf "$at"
