#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# make install into an empty folder, under a prefix that is nobody's default, from a build folder that is
# nobody else's: some files know the prefix.

load ../system.bash

PREFIX=/opt/apir-test

setup_file() {
    DEST=$BATS_FILE_TMPDIR/dest
    export DEST
    mkdir "$DEST"
    cp -a "$OUT" "$BATS_FILE_TMPDIR/build"
    install_to "$DEST" "$PREFIX"
}

install_to() { # DESTDIR PREFIX [GOAL]
    "${MAKE:-make}" --no-print-directory -s "${3:-install}" O="$BATS_FILE_TMPDIR/build" \
        DESTDIR="$1" prefix="$2" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/log"
        return 1
    }
}

installed() { (cd "$DEST" && find . ! -type d -printf '/%P\n' | sort); }

# The code in the first column of the table.
# shellcheck disable=SC2016 # code of Markdown
documented() {
    sed -n '/^# Install/,/^## /s/^| \(`[^|]*`\) |.*/\1/p' docs/install.md | grep -o '`[^`]*`' | tr -d '`' | sort
}

@test "install: the files are those of the table in docs/install.md" {
    run -0 documented
    [[ -n $output ]]
    # Names without a slash at their start are below the prefix.
    # shellcheck disable=SC2001 # on every line
    diff -u <(sed "s|^[^/]|$PREFIX/&|" <<<"$output" | sort) <(installed)
}

@test "install: programs are executable, files are readable, nothing is anybody's to write" {
    run -0 find "$DEST" ! -type l ! -type d -perm /022
    [[ -z $output ]]
    run -0 find "$DEST" ! -type l ! -perm -0444 ! -name apir-hook
    [[ -z $output ]]
    # Who can read a program can look into its processes.
    [[ $(stat -c %a "$DEST$PREFIX/libexec/apir/apir-hook") == 711 ]]
    run -0 find "$DEST$PREFIX/bin" "$DEST$PREFIX/libexec" -type f ! -perm 0755 ! -name apir-hook
    [[ -z $output ]]
    run -0 find "$DEST$PREFIX/share" -type f ! -perm 0644
    [[ -z $output ]]
}

@test "install: no file names the folder it was built in" {
    local file
    while read -r file; do
        refute grep -E "(^|[^[:alnum:]_./-])$PWD(/|\$)" <(strings -n 3 "$DEST$file")
        refute grep -F "$BATS_FILE_TMPDIR" <(strings -n 3 "$DEST$file")
    done < <(installed)
}

@test "install: what names other files of ours names them below the prefix" {
    run -0 jq -r .hook.path "$DEST$PREFIX/share/apir/hooks.d-runtime/90-apir.json"
    [[ $output == "$PREFIX/libexec/apir/apir-hook" ]]
    # One that was built with another prefix before must not stay.
    install_to "$BATS_TEST_TMPDIR" /usr
    run -0 jq -r .hook.path "$BATS_TEST_TMPDIR/usr/share/apir/hooks.d-runtime/90-apir.json"
    [[ $output == /usr/libexec/apir/apir-hook ]]
    run -0 strings -n 3 "$BATS_TEST_TMPDIR/usr/bin/apir"
    [[ $output != *"$PREFIX"* ]]
    install_to "$DEST" "$PREFIX"
    gives 0 "$PREFIX" strings -n 3 "$DEST$PREFIX/bin/apir"
}

@test "install: the installed programs run and find each other" {
    run -0 "$DEST$PREFIX/bin/apir" --version
    [[ $output =~ ^apir\ [0-9]+\.[0-9]+ ]]
    run -0 "$DEST$PREFIX/libexec/apir/apir-hook" --version
    run -0 "$DEST$PREFIX/libexec/apir/apir-render-server" --version
    # Not run as in a VM: how far it gets is the machine's; that it says so is ours.
    "$DEST$PREFIX/bin/apir" doctor --json >"$T/json" || [[ $? -eq 1 ]]
    jq -e --arg plugin "$DEST$PREFIX/lib/apir/libggml-apir.so" \
        'any(.checks[]; .name == "plugin" and .status == "pass" and .text == $plugin)' "$T/json"
}

# That of Debian 12 is 2.36; the plug-in's limit is another one (plugin.bats).
@test "install: apir starts with a C library of 2.34" {
    readelf --wide --version-info "$DEST$PREFIX/bin/apir" | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu >"$BATS_TEST_TMPDIR/wanted"
    cat "$BATS_TEST_TMPDIR/wanted"
    grep -qx 'GLIBC_2\.34' "$BATS_TEST_TMPDIR/wanted"
    [[ $(tail -n 1 "$BATS_TEST_TMPDIR/wanted") == GLIBC_2.34 ]]
}

@test "uninstall: takes away what install has put there, and nothing else" {
    local dest=$BATS_TEST_TMPDIR/dest
    mkdir "$dest"
    install_to "$dest" "$PREFIX"
    touch "$dest$PREFIX/bin/other"
    install_to "$dest" "$PREFIX" uninstall
    run -0 bash -c "cd '$dest' && find . ! -type d"
    [[ $output == ".$PREFIX/bin/other" ]]
    [[ ! -e $dest$PREFIX/libexec/apir && ! -e $dest$PREFIX/lib/apir ]]
}
