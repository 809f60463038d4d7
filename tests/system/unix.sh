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
    vtest_place "$1" unix apir.sock || return 1
    unix_restart "$1"
}

unix_restart() {
    vtest_launch unix_listens ${VTEST_ENV[@]+"${VTEST_ENV[@]}"} \
        "$(realpath "$1/backend/apir-render-server")" --listen "$VTEST_SOCKET"
}
