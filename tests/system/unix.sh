# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The unix transport in vtest's place, for tests that run over either; after vtest.sh:
#
#   unix_start OUT      starts OUT/backend/apir-render-server on a socket of its own
#   unix_restart OUT    starts another one on the same socket, after the end of the first
#
# It sets what vtest_start sets, reads the same variables (but for VTEST_SERVER and VTEST_ARGS),
# and vtest_env, vtest_alive and vtest_stop go on from there.

unix_listens() {
    # Flags 00010000 is __SO_ACCEPTCON; made under another name, it is renamed once it listens.
    [[ -S $VTEST_SOCKET ]] && awk -v path="$VTEST_SOCKET.new" '
        $4 == "00010000" && $8 == path { found = 1 } END { exit !found }' /proc/net/unix
}

unix_start() {
    local config=${VTEST_CONFIG-'{"threads": 2}'}
    [[ -x $1/backend/apir-render-server ]] ||
        { vtest_fail "$1/backend/apir-render-server is missing; build it first"; return 1; }
    [[ -z $VTEST_PID ]] || { vtest_fail "already started"; return 1; }

    VTEST_DIR=$(mktemp -d "${TMPDIR:-/tmp}/unix.XXXXXX")
    VTEST_SOCKET=$VTEST_DIR/apir.sock
    VTEST_LOG=$VTEST_DIR/log
    VTEST_TRANSPORT=unix
    printf '%s\n' "$config" >"$VTEST_DIR/backend.json"
    unix_restart "$1"
}

unix_restart() {
    local tries
    # A session, so a process group, of its own: workers are ended with it, and only they.
    setsid env APIR_CONFIG="$VTEST_DIR/backend.json" GGML_VK_VISIBLE_DEVICES= \
        ${VTEST_ENV[@]+"${VTEST_ENV[@]}"} \
        "$(realpath "$1/backend/apir-render-server")" --listen "$VTEST_SOCKET" \
        >>"$VTEST_LOG" 2>&1 </dev/null 3>&- &
    VTEST_PID=$!
    [[ -n ${BATS_VERSION-} ]] || trap vtest_stop EXIT

    for ((tries = 0; tries < 1000; tries++)); do
        unix_listens && return 0
        kill -0 "$VTEST_PID" 2>/dev/null ||
            { vtest_fail "the server ended before it listened"; vtest_stop; return 1; }
        vtest_pause 0.02
    done
    vtest_fail "the server does not listen on $VTEST_SOCKET"
    vtest_stop
    return 1
}
