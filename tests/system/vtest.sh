# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# To be sourced by tests which talk to the host side over vtest, without a VM:
#
#   vtest_start OUT     starts a stock virgl_test_server with OUT/backend/apir-render-server
#   vtest_env           arguments for `env`: what a program needs to find APIR0
#   vtest_alive         is the server still there?
#   vtest_graphs        how many graphs the last program had computed that has left (with APIR_LOG=info there)
#   vtest_stop          ends it and all that it started; also done at exit
#
# OUT is the build's output directory. After vtest_start:
#   VTEST_DIR     a directory of our own: socket, config, log
#   VTEST_SOCKET  the socket
#   VTEST_LOG     what server and workers printed; kept, if VTEST_KEEP_LOG names a file
#   VTEST_PID     the server, which leads a process group of its own
#   VTEST_TRANSPORT  vtest, or what unix.sh has started instead
# Before it, a caller may set VTEST_CONFIG (the worker's configuration, JSON), VTEST_SERVER (which
# virgl_test_server), VTEST_RENDER_SERVER (what that one starts in place of apir-render-server), VTEST_ARGS (more
# arguments for it, an array) and VTEST_ENV (environment for server and workers, an array of NAME=VALUE).

# shellcheck source=tests/lib/patience.bash
. "$(dirname "${BASH_SOURCE[0]}")/../lib/patience.bash"

VTEST_PID=
VTEST_DIR=

vtest_fail() {
    echo "vtest: $*" >&2
    if [[ -s ${VTEST_LOG-} ]]; then
        sed 's/^/vtest:   /' "$VTEST_LOG" | tail -n 20 >&2
    fi
    return 1
}

# True once somebody listens on the socket. The file alone is not enough: it appears with bind().
vtest_listens() {
    # Flags 00010000 is __SO_ACCEPTCON.
    awk -v path="$VTEST_SOCKET" '$4 == "00010000" && $8 == path { found = 1 }
                                 END { exit !found }' /proc/net/unix
}

# Makes VTEST_DIR with the configuration, for a server that is none yet.
vtest_place() { # OUT TRANSPORT SOCKET'S-NAME
    [[ -x $1/backend/apir-render-server ]] ||
        { vtest_fail "$1/backend/apir-render-server is missing; build it first"; return 1; }
    [[ -z $VTEST_PID ]] || { vtest_fail "already started"; return 1; }

    # A path in sun_path is short: 107 bytes.
    VTEST_DIR=$(mktemp -d "${TMPDIR:-/tmp}/$2.XXXXXX")
    VTEST_SOCKET=$VTEST_DIR/$3
    VTEST_LOG=$VTEST_DIR/log
    VTEST_TRANSPORT=$2
    local config=${VTEST_CONFIG-'{"threads": 2}'}
    printf '%s\n' "$config" >"$VTEST_DIR/backend.json"
}

# Starts the server, in a session, so a process group, of its own: workers are ended with it, and
# only they. Returns once LISTENS succeeds.
vtest_launch() { # LISTENS ENV-ARGUMENT...
    setsid env APIR_CONFIG="$VTEST_DIR/backend.json" GGML_VK_VISIBLE_DEVICES= "${@:2}" \
        >>"$VTEST_LOG" 2>&1 </dev/null 3>&- &
    VTEST_PID=$!
    [[ -n ${BATS_VERSION-} ]] || trap vtest_stop EXIT

    if wait_until 20 vtest_listens_or_ended "$1"; then
        ! "$1" || return 0
        vtest_fail "the server ended before it listened"
    else
        vtest_fail "the server does not listen on $VTEST_SOCKET"
    fi
    vtest_stop
    return 1
}
vtest_listens_or_ended() { "$1" || ! vtest_alive; }

vtest_start() {
    local server
    server=$(command -v "${VTEST_SERVER:-virgl_test_server}") ||
        { vtest_fail "no virgl_test_server here (package virgl-server)"; return 1; }
    vtest_place "$1" vtest socket || return 1
    # SIGPIPE as under QEMU: a client that is killed before it has its answer ends the test server
    # otherwise.
    vtest_launch vtest_listens RENDER_SERVER_EXEC_PATH="$(realpath "${VTEST_RENDER_SERVER:-$1/backend/apir-render-server}")" \
        ${VTEST_ENV[@]+"${VTEST_ENV[@]}"} env --ignore-signal=PIPE \
        "$server" --no-virgl --venus --socket-path "$VTEST_SOCKET" \
        ${VTEST_ARGS[@]+"${VTEST_ARGS[@]}"}
}

vtest_alive() {
    [[ -n $VTEST_PID ]] && kill -0 "$VTEST_PID" 2>/dev/null
}

vtest_graphs() { sed -nE 's/.* GRAPH_EXEC +([0-9]+) times.*/\1/p' "$VTEST_LOG" | tail -n 1 | grep . || echo 0; }

# usage: env $(vtest_env OUT) PROGRAM...
vtest_env() {
    printf '%s\n' "APIR_TRANSPORT=$VTEST_TRANSPORT:$VTEST_SOCKET" \
        "GGML_BACKEND_PATH=$(realpath "$1")/frontend/libggml-apir.so" \
        "GGML_VK_VISIBLE_DEVICES="
}

vtest_stop() {
    local status=$?
    if [[ -n $VTEST_PID ]]; then
        kill -TERM -- "-$VTEST_PID" 2>/dev/null || :
        wait "$VTEST_PID" 2>/dev/null || :
        # What ignored SIGTERM, or came in between.
        kill -KILL -- "-$VTEST_PID" 2>/dev/null || :
        VTEST_PID=
    fi
    if [[ -n $VTEST_DIR ]]; then
        if [[ -n ${VTEST_KEEP_LOG-} && -f $VTEST_LOG ]]; then
            cat "$VTEST_LOG" >>"$VTEST_KEEP_LOG"
        fi
        rm -rf "$VTEST_DIR"
        VTEST_DIR=
    fi
    return "$status"
}
