#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir doctor with a real host side: over vtest, and on the socket of a machine without VM. The
# links of a render node are tried in the VM (make check-vm).

load ../system.bash

# status NAME: of that check in $T/json.
status() { jq -r --arg name "$1" '.checks[] | select(.name == $name) | .status' "$T/json"; }
text() { jq -r --arg name "$1" '.checks[] | select(.name == $name) | .text' "$T/json"; }

examine() { # VARIABLE=VALUE...
    env "$@" "$APIR" doctor --json >"$T/json" || [[ $? -eq 1 ]]
    cat "$T/json"
}

# The server on a socket, without a VM.
listen() { SYSTEM_TRANSPORT=unix server_start; }

@test "doctor: over vtest, from the socket to a computed result" {
    server_start
    examine "APIR_TRANSPORT=vtest:$VTEST_SOCKET"
    for name in socket connect session versions devices plugin compute; do
        [[ $(status "$name") == pass ]]
    done
    [[ $(text versions) == *"the host: protocol "*"ggml"* ]]
    [[ $(text devices) == "APIR0 is CPU "* ]]
    [[ $(text compute) == "APIR0: "* ]]
    # No node is part of this chain.
    [[ -z $(status node) ]]
}

@test "doctor: over the unix transport, and what it says when the server is gone" {
    listen
    examine "APIR_TRANSPORT=unix:$VTEST_SOCKET"
    for name in socket connect session versions devices plugin compute; do
        [[ $(status "$name") == pass ]]
    done
    # No GPU and no VM: the user is told that nothing is gained.
    jq -e '.checks[] | select(.name == "devices") | .text | contains("own CPU")' "$T/json"
    kill -KILL "$VTEST_PID"
    wait_until 20 gone "$VTEST_PID"
    examine "APIR_TRANSPORT=unix:$VTEST_SOCKET"
    [[ $(status socket) == pass && $(status connect) == fail ]]
    [[ $(jq -r .broken "$T/json") == connect && $(jq -r .ok "$T/json") == false ]]
    for name in session versions devices compute; do
        [[ $(status "$name") == unchecked ]]
    done
    rm "$VTEST_SOCKET"
    examine "APIR_TRANSPORT=unix:$VTEST_SOCKET"
    [[ $(status socket) == fail && $(status connect) == unchecked ]]
    touch "$VTEST_SOCKET"
    examine "APIR_TRANSPORT=unix:$VTEST_SOCKET"
    [[ $(status socket) == fail && $(text socket) == *"no socket"* ]]
}

@test "doctor: another user is told the group to join" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'only root can be somebody else'; }
    listen
    chgrp tty "$VTEST_SOCKET"
    chmod 0660 "$VTEST_SOCKET"
    chmod 0755 "$VTEST_DIR"
    examine "APIR_TRANSPORT=unix:$VTEST_SOCKET" setpriv --reuid nobody --regid nogroup --clear-groups
    [[ $(status connect) == fail ]]
    jq -e '.checks[] | select(.name == "connect") | .todo | startswith("usermod -aG tty nobody")' "$T/json"
    examine "APIR_TRANSPORT=unix:$VTEST_SOCKET" setpriv --reuid nobody --regid nogroup --groups tty
    [[ $(status connect) == pass && $(status session) == pass ]]
}

@test "doctor: the table says the same as JSON, and the exit code" {
    server_start
    run -1 env "APIR_TRANSPORT=vtest:$VTEST_SOCKET" "$APIR" doctor --spec /nonexistent
    grep -Eq '^PASS  a computed result +APIR0: ' <<<"$output"
    grep -Eq '^FAIL  CDI spec ' <<<"$output"
    grep -Eq '^----  hook +not checked; needs: CDI spec' <<<"$output"
    [[ $output == *$'\nFirst broken link: CDI spec'*$'\nWhat to do: apir cdi generate'* ]]
    # With a spec for the socket's folder nothing is broken.
    vtest_stop
    listen
    "$APIR" cdi generate --host-socket "$VTEST_DIR" --no-hook --output "$T/spec.json"
    run -0 env "APIR_TRANSPORT=unix:$VTEST_SOCKET" "$APIR" doctor --spec "$T/spec.json"
    [[ $output != *FAIL* && $output != *'First broken'* ]]
}

@test "doctor: without node and socket the first link says what to do" {
    [[ ! -e /run/apir/host && ! -e /dev/dri ]] || { [[ -z ${CI-} ]]; skip 'this machine has a device'; }
    run -1 "$APIR" doctor
    [[ ${lines[0]} == 'FAIL  render node '* ]]
    # On a machine that is no VM, and in a VM whose GPU is its own, no hypervisor can help.
    [[ $output == *'What to do: This '*'apir host serve'*'apir cdi generate'* ]]
    run -3 "$APIR" cdi generate --output "$T/spec.json"
    [[ $output == *'no virtio-gpu node'*'apir host serve'* ]]
    run -1 env APIR_TRANSPORT=virtgpu:/dev/dri/renderD999 "$APIR" doctor
    [[ ${lines[0]} == 'FAIL  render node '* ]]
}

# Versions that need a setting are older than any that can be had here: a program that says one
# stands in for its --version, and for nothing else.
@test "doctor: a user is sent to root for a docker that is root's, and not for one's own" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'only root can be somebody else'; }
    [[ ! -e /etc/docker/daemon.json ]] || { [[ -z ${CI-} ]]; skip 'this machine has settings for docker'; }
    mkdir -p "$T/bin" "$T/run" "$T/config/docker"
    printf '#!/bin/sh\necho Docker version 27.5.1, build 1\n' >"$T/bin/dockerd"
    chmod 0755 "$T/bin/dockerd"
    chmod -R a+rX "$T" && chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
    echo '{"features": {"cdi": true}}' >"$T/config/docker/daemon.json"
    as_nobody() {
        setpriv --reuid nobody --regid nogroup --clear-groups env "PATH=$T/bin:$PATH" "XDG_CONFIG_HOME=$T/config" \
            "XDG_RUNTIME_DIR=$T/run" "$APIR" doctor --json >"$T/json" || [[ $? -eq 1 ]]
        cat "$T/json"
    }
    as_nobody
    [[ $(status docker) == warn ]]
    jq -e '.checks[] | select(.name == "docker") | .todo == "As root: apir engine configure docker"' "$T/json"
    touch "$T/run/docker.sock"
    as_nobody
    [[ $(status docker) == pass ]]
}

@test "doctor: one engine alone, without CDI: it is broken, and the advice is not to configure it" {
    mkdir "$T/bin"
    printf '#!/bin/sh\necho Docker version 20.10.24+dfsg1, build 5d6db84\n' >"$T/bin/dockerd"
    chmod 0755 "$T/bin/dockerd"
    examine "PATH=$T/bin"
    [[ $(status docker) == warn && $(text docker) == *'has no CDI'* && $(status engine) == fail ]]
    jq -e '.checks[] | select(.name == "docker") | .todo | startswith("Update docker, use podman, or ")' "$T/json"
    jq -e '.checks[] | select(.name == "engine") | .todo | (contains("configure") | not)' "$T/json"
}

@test "doctor: names out of an image and a spec move no cursor and forge no line" {
    local name=$'x\n\033[31mFAIL\xc2\x9b2J\x9b\xe2\x80\xae'
    mkdir -p "$T/image/opt/$name" "$T/cdi"
    cp /usr/lib/x86_64-linux-gnu/libggml.so.0 "$T/image/opt/$name/libggml.so.0"
    "$APIR" doctor --image "$T/image" >"$T/out" || :
    cat -v "$T/out"
    # It was found, so that there is a name to print.
    grep -q 'x??\[31mFAIL??2J????/libggml.so.0' "$T/out"
    refute grep -q $'\xe2\x80\xae' "$T/out"
    refute grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$T/out"
    "$APIR" doctor --image "$T/image" --json >"$T/out" || :
    jq -e '.ggml[0].path | test("\n\u001b\\[31mFAIL\u009b2J.?\u202e")' "$T/out"
    refute grep -q $'\xe2\x80\xae' "$T/out"
    refute grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$T/out"
    printf '{"cdiVersion": "0.3.0", "kind": "aa/bb", "x\xc2\x9b\\u001b": 1, "devices": [{"name": "d\\u001b\xc2\x9b"}]}' \
        >"$T/cdi/a.json"
    "$APIR" cdi validate "$T/cdi/a.json" >"$T/out" 2>&1 || :
    "$APIR" cdi validate --json "$T/cdi/a.json" >>"$T/out" 2>&1 || :
    "$APIR" cdi list --spec-dir "$T/cdi" >>"$T/out" 2>&1 || :
    cat -v "$T/out"
    grep -q 'd???' "$T/out"
    refute grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$T/out"
}
