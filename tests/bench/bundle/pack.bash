# SPDX-License-Identifier: Apache-2.0
#
# Programs with the libraries and the loader that they need, for a machine that has none of
# them. Sourced; $top is the folder that is packed: programs in bin/, the rest in lib/.
# shellcheck shell=bash disable=SC2154

# The libraries that these files are linked against.
pack_libraries() {
    local f
    for f in $(ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u); do
        cp -L "$f" "$top/lib/$(basename "$f")"
    done
    cp -L /lib64/ld-linux-x86-64.so.2 "$top/lib/"
}

# A program is started through our own loader: the machine's C library may be older.
pack_program() {
    local name
    name=$(basename "$1")
    cp -L "$1" "$top/lib/$name.bin"
    cat >"$top/bin/$name" <<'W'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")/../lib
exec "$here/ld-linux-x86-64.so.2" --library-path "$here${APIR_DRIVER_PATH:+:$APIR_DRIVER_PATH}" \
    --argv0 "$0" "$here/$(basename "$0").bin" "$@"
W
    chmod +x "$top/bin/$name"
}

# $1 holds the folder $2, which becomes the archive $3.
pack_archive() {
    mkdir -p "$(dirname "$3")"
    tar -C "$1" -cf - "$2" | gzip -9 >"$3"
    echo "bundle: $3 $(stat -c %s "$3") bytes"
}

# The files in $1 that the list $2 names become one archive in pieces $3.1, $3.2 and so on, of which
# each is small enough for ways that take no more than 64 MiB at a time: `cat $3.* | tar -xJ`.
pack_pieces() {
    local piece
    mkdir -p "$(dirname "$3")"
    rm -f "$3".[0-9]
    tar -C "$1" -T "$2" -cf - | xz -6 -T0 | split -b 56M -a 1 --numeric-suffixes=1 - "$3."
    for piece in "$3".[0-9]; do
        echo "bundle: $piece $(stat -c %s "$piece") bytes"
    done
}
