#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir as root runs it: in folders and over files that belong to users, who wish it ill.

load ../system.bash

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

# trap_program FILE: a program that leaves the mark when it is run.
trap_program() {
    printf '#!/bin/sh\n: >"%s"\necho podman version 5.6.0\n' "$MARK" >"$1"
    chmod 0755 "$1"
}

@test "root: no program is run that another user can put on PATH" {
    local apir path
    apir=$(realpath "$APIR")
    mkdir "$T/theirs/root" "$T/open" "$T/bin"
    chmod 0777 "$T/open"
    for path in "$T/theirs" "$T/theirs/root" "$T/open"; do trap_program "$path/podman"; done
    chown 4321 "$T/theirs/podman"
    ln -s "$T/theirs/podman" "$T/bin/podman"
    cd "$T/theirs"
    for path in "$T/theirs:$PATH" "$T/theirs/root:$PATH" "$T/open:$PATH" "$T/bin:$PATH" ":$PATH" ".:$PATH"; do
        PATH=$path "$apir" doctor >/dev/null 2>&1 || [[ $? -eq 1 ]]
        PATH=$path "$apir" doctor --image nosuch >/dev/null 2>&1 || [[ $? -eq 1 ]]
        PATH=$path "$apir" engine configure podman --dry-run >/dev/null
        [[ ! -e $MARK ]] || { echo "$path"; false; }
    done
    # Where there is no other, it is said why.
    PATH=$T/theirs gives 1 'another user' "$apir" engine configure podman --dry-run
    PATH=$T/theirs run "$apir" doctor
    grep -Eq '^WARN  podman .*another user' <<<"$output"
    [[ ! -e $MARK ]]
}

@test "root: podman is asked by root's environment, and no daemon of a user's" {
    mkdir "$T/bin"
    printf '#!/bin/sh\nenv >>"%s/env"\nexit 125\n' "$T" >"$T/bin/podman"
    chmod 0755 "$T/bin/podman"
    mkdir "$T/ours"
    gives 1 '' env "PATH=$T/bin:$PATH" "HOME=$T/theirs" "XDG_CONFIG_HOME=$T/theirs/new" "XDG_DATA_HOME=$T/ours" \
        "CONTAINERS_CONF_OVERRIDE=$T/theirs/conf" CONTAINER_HOST=unix:///nonexistent "$APIR" doctor --image nosuch
    cat "$T/env"
    grep -qx "HOME=$(getent passwd 0 | cut -d: -f6)" "$T/env"
    grep -qx "XDG_DATA_HOME=$T/ours" "$T/env"
    refute grep -E "theirs|CONTAINER_HOST" "$T/env"
}

@test "root: a daemon that never answers is not waited for" {
    local listener
    # shellcheck disable=SC2016 # Perl's
    perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 9) or die; sleep 100' \
        "$T/theirs/podman.sock" 3>&- &
    listener=$!
    JOBS_STARTED+=("$listener")
    until [[ -S $T/theirs/podman.sock ]]; do [[ -e /proc/$listener ]]; done
    CONTAINER_HOST=unix://$T/theirs/podman.sock gives 1 'can be looked at as a folder' \
        timeout -k 5 60 "$APIR" doctor --image localhost/nosuch
}

@test "root: what a user's files make of little is not taken into memory" {
    local list=("$APIR" cdi list --spec-dir "$T/theirs")
    # The kind is part of each name: 500 kB, 20000 times.
    { printf '{"cdiVersion": "0.5.0", "kind": "a/'; printf '%0500000d' 0 | tr 0 b
        printf '", "devices": [{"name": "d0"}'; printf ',{"name": "d%d"}' {1..20000}; printf ']}'; } >"$T/theirs/a.json"
    gives 1 'more devices than are listed' sh -c 'ulimit -v 1000000; exec "$@" 2>&1 >/dev/null' sh "${list[@]}"
    rm "$T/theirs/a.json"
    # shellcheck disable=SC2016 # the inner shell's
    seq -f "$T/theirs/%.0f.json" 20001 | xargs touch
    gives 1 'Argument list too long' sh -c 'exec "$@" 2>&1 >/dev/null' sh "${list[@]}"
}

@test "root: a server has root's home, and no other user's" {
    mkdir "$T/ours"
    HOME=$T/theirs XDG_CACHE_HOME=$T/theirs/cache "$APIR" host serve --socket-dir "$T/ours" >"$T/log" 2>&1 3>&- &
    SERVER=$!
    JOBS_STARTED+=("$SERVER")
    until [[ -S $T/ours/apir.sock ]]; do
        [[ -e /proc/$SERVER ]] || { cat "$T/log"; false; }
    done
    tr '\0' '\n' <"/proc/$SERVER/environ" >"$T/env"
    grep -qx "HOME=$(getent passwd 0 | cut -d: -f6)" "$T/env"
    refute grep -E '^(HOME|XDG.*)=.*theirs' "$T/env"
    kill -TERM "$SERVER"
    wait "$SERVER"
}

@test "root: a spec that another user can change sets no variables of what root runs" {
    local spec=$T/theirs/spec.json
    printf '{"cdiVersion": "0.3.0", "kind": "aa/bb", "devices": [{"name": "d", "containerEdits": {"env": ["%s"]}}]}' \
        "LD_PRELOAD=$T/theirs/trap.so" >"$spec"
    trap_library "$T/theirs/trap.so"
    gives 125 'another user (4321)' "$APIR" run --spec "$spec" --device d true
    chown -R root "$T/theirs"
    chmod 0666 "$spec"
    gives 125 'others may write' "$APIR" run --spec "$spec" --device d true
    [[ ! -e $MARK ]]
    chmod 0644 "$spec"
    run -0 "$APIR" run --spec "$spec" --device d true
    [[ -e $MARK ]]
}

@test "root: it is said where the server's answers can be another user's" {
    server_start
    chmod 0755 "$VTEST_DIR"
    APIR_TRANSPORT=vtest:$VTEST_SOCKET "$APIR" doctor --json >"$T/json" || [[ $? -eq 1 ]]
    jq -e '.checks[] | select(.name == "socket") | .status == "pass"' "$T/json"
    chown 4321 "$VTEST_DIR"
    APIR_TRANSPORT=vtest:$VTEST_SOCKET "$APIR" doctor --json >"$T/json" || [[ $? -eq 1 ]]
    jq -e '.checks[] | select(.name == "socket") | .status == "warn" and (.text | contains("another user (4321)"))' "$T/json"
}

# A hypervisor has the environment that root's sudo or su left to it, and what it starts would have it.
@test "root: a worker has no home of another user's" {
    mkdir "$T/ours"
    # shellcheck disable=SC2034 # for the server
    VTEST_ENV=("HOME=$T/theirs" "XDG_CACHE_HOME=$T/theirs/cache" "XDG_CONFIG_HOME=$T/ours")
    server_start
    hold_start
    tr '\0' '\n' <"/proc/$(workers)/environ" >"$T/env"
    grep -qx "XDG_CONFIG_HOME=$T/ours" "$T/env"
    refute grep theirs "$T/env"
}
