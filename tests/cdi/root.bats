#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir as root runs it: in folders and over files that belong to users, who wish it ill.

load ../system/system.bash

setup() {
    common_setup
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'gives folders away, so root'; }
    chmod 0755 "$T"
    mkdir "$T/theirs"
    chown 4321 "$T/theirs"
    # Is there once a library or a program of theirs has run.
    export MARK=$T/mark
}

# trap_library FILE: a library that leaves the mark when it is loaded.
trap_library() {
    printf '#include <fcntl.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void mark(void)\n{\n%s\n}\n' \
        'open(getenv("MARK"), O_CREAT | O_WRONLY, 0600);' |
        cc -shared -fPIC -x c -o "$1" -
}

@test "root: no backend of ggml is loaded from the folder that doctor is run in" {
    local apir plugin
    apir=$(realpath "$APIR")
    plugin=$(realpath "$PLUGIN")
    server_start
    trap_library "$T/theirs/libggml-cpu-theirs.so"
    # The trap works: this is where any program of ggml would look.
    (cd "$T/theirs" && llama-bench --list-devices) >/dev/null 2>&1 || :
    rm "$MARK"
    (cd "$T/theirs" && APIR_TRANSPORT=vtest:$VTEST_SOCKET "$apir" doctor --json --plugin "$plugin" >"$T/json") || :
    jq -e '.checks[] | select(.name == "compute") | .status == "pass"' "$T/json"
    [[ ! -e $MARK ]]
}

@test "root: nor is one by what fills the shader cache of a server that is run there" {
    local worker
    worker=$(realpath "$OUT/backend/apir-worker")
    trap_library "$T/theirs/libggml-cpu-theirs.so"
    printf '{"shader_seconds": 1}' >"$T/backend.json"
    (cd "$T/theirs" && "$worker" --fill-shaders --config "$T/backend.json") >"$T/log" 2>&1 || :
    cat "$T/log"
    [[ ! -e $MARK ]]
}

@test "root: a record of another user's, or one that names a file which is not ours, takes nothing away" {
    local reset=("$APIR" engine reset podman --state-dir "$T/theirs")
    echo precious >"$T/precious"
    printf '{"version": 2, "engine": "podman", "file": "%s", "made": true}' "$T/precious" >"$T/theirs/engine-podman.json"
    # As root has made it: it is believed, and the file is not podman's drop-in.
    gives 1 "$T/precious is there and not ours" "${reset[@]}"
    chown 4321 "$T/theirs/engine-podman.json"
    gives 1 'is no record of ours' "${reset[@]}"
    chown root "$T/theirs/engine-podman.json"
    chmod 0666 "$T/theirs/engine-podman.json"
    gives 1 'is no record of ours' "${reset[@]}"
    mv "$T/theirs/engine-podman.json" "$T/record"
    chmod 0600 "$T/record"
    ln -s ../record "$T/theirs/engine-podman.json"
    gives 1 'symbolic link' "${reset[@]}"
    [[ $(<"$T/precious") == precious ]]
}
