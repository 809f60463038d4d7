#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# corpus.sh unpack FOLDER: makes FOLDER, which has all inputs of every target: those of
# tests/hostile/fuzz/corpus/TARGET/ and those of tests/hostile/fuzz/corpus/TARGET.tar.gz; and the dictionaries, that of
# the configuration with all its keys.
#
# corpus.sh pack FOLDER TARGET...: writes each target's archive anew from FOLDER/TARGET, without the
# inputs that tests/hostile/fuzz/corpus/TARGET/ has. The same inputs make the same archive.
set -euo pipefail
export LC_ALL=C # the order of the names
cd "$(dirname "$0")/../../.."
kept=tests/hostile/fuzz/corpus
action=$1 folder=$2
shift 2
case $action in
unpack)
    rm -rf "$folder"
    mkdir -p "$folder"
    cp -r "$kept/." "$folder"
    for archive in "$folder"/*.tar.gz; do
        mkdir -p "${archive%.tar.gz}"
        tar -xzf "$archive" -C "${archive%.tar.gz}"
        rm "$archive"
    done
    # Every key of the configuration is a word of its fuzzer's.
    sed -n 's/^ *K([A-Z_]*, \([a-z_]*\),.*/"\\"\1\\""/p' backend/config/settings.h >>"$folder/config.dict"
    touch "$folder" # as new as make wants it
    ;;
pack)
    for target in "$@"; do
        mkdir -p "$kept/$target"
        comm -23 <(ls "$folder/$target") <(ls "$kept/$target") |
            tar -C "$folder/$target" --mtime=@0 --owner=0 --group=0 --numeric-owner \
                --mode=0644 -cf - -T - | gzip -n9 >"$kept/$target.tar.gz.new"
        mv "$kept/$target.tar.gz.new" "$kept/$target.tar.gz"
        echo "$target: $(find "$folder/$target" -type f | wc -l) inputs"
    done
    ;;
*) exit 2 ;;
esac
