#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir host serve looks at the folder of its socket before it serves; what it serves is in tests/system/host.

load ../system.bash

setup() {
    common_setup
    chmod 0755 "$T"
}

# serve DIR: until it serves, or refuses.
serve() {
    run timeout -s TERM "$(patience 20)" "$APIR" host serve --socket-dir "$1"
    echo "$output"
}

@test "serve: not in a folder that another user owns, or whose parents are another's to change" {
    [[ $(id -u) -eq 0 ]] || skip 'gives folders away, so root'
    mkdir -p "$T"/{theirs,open,sticky}/{of_theirs,of_ours}
    chown 4321 "$T/theirs" "$T"/*/of_theirs
    chmod 0777 "$T/open"
    chmod 1777 "$T/sticky"
    ln -s "$T/sticky/of_ours" "$T/sticky/link"
    chown -h 4321 "$T/sticky/link"
    for dir in sticky/of_theirs theirs/of_ours sticky/link theirs/of_ours/new; do
        serve "$T/$dir"
        [[ $status -eq 1 && $output == *'belongs to another user (4321)'* ]]
    done
    serve "$T/open/of_ours"
    [[ $status -eq 1 && $output == *"others may write to $T/open (mode 0777)"* ]]
    [[ -z $(find "$T" -name '*.sock') ]]
}

@test "serve: in a folder of ours below one where others only add; ends as soon as it is asked, and leaves no socket" {
    local socket=$T/sticky/new/folder/apir.sock

    mkdir -p "$T/sticky"
    chmod 1777 "$T/sticky"
    # Whoever sees the socket can send SIGTERM before the server does anything else.
    strace -D -f -qq -o "$T/trace" -e trace=rename -e inject=rename:delay_exit=300000 \
        "$APIR" host serve --socket-dir "$T/sticky/new//folder/" >"$T/log" 2>&1 3>&- &
    SERVER=$!
    until [[ -S $socket ]]; do
        [[ -e /proc/$SERVER ]] || { cat "$T/log"; false; }
    done
    kill -TERM "$SERVER"
    wait "$SERVER"
    [[ ! -e $socket ]]
}
