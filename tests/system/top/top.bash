# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A server over the unix transport whose socket for `apir top` is below the test's own folder.

SYSTEM_TRANSPORT=unix
setup() {
    common_setup
    declare -gA CLIENT_PID CLIENT_FD
    export XDG_RUNTIME_DIR=$T
    [[ ! -w /run/apir/top ]] || skip "this machine's own servers are in /run/apir/top"
}
teardown() { common_teardown; }

top_start() {
    VTEST_ENV+=("XDG_RUNTIME_DIR=$T")
    server_start
}

client() { # NAME: a program that does what `tell` says
    remote_talk "$1" "$EXERCISE" limits
    CLIENT_PID[$1]=$JOB CLIENT_FD[$1]=$TALK
    wait_until 30 grep -q ready "$T/$1.out"
}

longer_than() { (($(wc -l <"$T/$1.out") > $2)); }

tell() { # NAME WORDS: sets TOLD, the answer
    local before
    before=$(wc -l <"$T/$1.out")
    echo "$2" >&"${CLIENT_FD[$1]}"
    wait_until 30 longer_than "$1" "$before"
    TOLD=$(tail -n 1 "$T/$1.out")
}
answers() { # NAME WORDS ANSWER
    tell "$1" "$2"
    echo "$1: $2: $TOLD"
    [[ $TOLD == "$3" ]]
}

# look: sets SEEN, what apir top says of our one server.
look() {
    SEEN=$("$APIR" top --once --json --interval 0.1 | jq -c '.servers[0]')
}
looks() { look && [[ $(jq -r '.contexts | length' <<<"$SEEN") -gt 0 ]]; }
context() { jq -r ".contexts[0] | $1" <<<"$SEEN"; }
context_is() { # EXPRESSION, of the newest context
    jq -e ".contexts[0] | $1" <<<"$SEEN" >/dev/null || { jq . <<<"$SEEN"; echo "not so: $1"; return 1; }
}

as_other() { # UID CMD...
    setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}
