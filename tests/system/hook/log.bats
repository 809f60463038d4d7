#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Where an operator finds the hook's lines, as root and rootless.

. "${BATS_TEST_DIRNAME}/hook.bash"

setup() {
    rm -rf "$LOG" "$LOG.1" /run/user
}

teardown() {
    [ -z "${SYSLOGD-}" ] || kill "$SYSLOGD" || true
    [ -z "${OTHER-}" ] || kill "$OTHER" || true
    rm -rf /dev/log "$LOG" /run/user
}

# As rootless engines are: uid 1000 of the host, called root in a user namespace.
rootless() {
    setpriv --reuid=1000 --regid=1000 --clear-groups unshare --user --map-root-user "$@"
}

say() { # [PREFIX...]: makes the hook log one line
    "$@" "$HOOK" nosuchstage </dev/null 2>/dev/null
}

LINE='stage "nosuchstage" is not known to this version'

@test "with a syslog, there: root and rootless" {
    busybox syslogd -n -O "$BATS_TEST_TMPDIR/messages" 3>&- &
    SYSLOGD=$!
    until [ -S /dev/log ]; do :; done
    chmod 666 /dev/log
    say
    say rootless
    until [ "$(grep -c "daemon.warn.* apir-hook: $LINE" "$BATS_TEST_TMPDIR/messages")" -eq 2 ]; do :; done
    [ ! -e "$LOG" ]
}

@test "without one, in /run: and a line is one line, whatever is in it" {
    say
    logged "^apir-hook: $LINE"
    "$HOOK" $'x\nforged: line\e[31m' </dev/null 2>/dev/null
    [ "$(wc -l <"$LOG")" -eq 2 ]
    logged 'stage "x.forged: line.\[31m" is not'
    [ "$(stat -c %a "$LOG")" = 600 ]
}

@test "rootless without one, in the user's own folder below /run/user" {
    mkdir -p /run/user/0 /run/user/1000 /run/user/1001
    chmod 700 /run/user/*
    chown 1000:1000 /run/user/1000
    chown 1001:1001 /run/user/1001
    say rootless
    grep -q "$LINE" /run/user/1000/apir-hook.log
    [ "$(find /run/user -name '*.log' | wc -l)" -eq 1 ]
    [ ! -e "$LOG" ]
    # In a user namespace where root is none of the host's users, as with --userns.
    rm /run/user/1000/apir-hook.log
    unshare --user sleep 10000 3>&- &
    OTHER=$!
    until [ "$(readlink "/proc/$OTHER/ns/user")" != "$(readlink /proc/self/ns/user)" ]; do :; done
    for map in uid_map gid_map; do
        /usr/bin/printf '0 100000 1\n1000 1000 1\n' >"/proc/$OTHER/$map"
    done
    say nsenter --user --target "$OTHER" --setuid 0 --setgid 0
    grep -q "$LINE" /run/user/1000/apir-hook.log
    [ "$(find /run/user -name '*.log' | wc -l)" -eq 1 ]
}

@test "where all of that is missing, beside the container's configuration" {
    bundle=$(mktemp -d /run/tests/bundle.XXXXXX)
    echo '{"annotations":{"apir.device":"gpu0"}}' >"$bundle/config.json"
    chmod 644 "$bundle/config.json"
    chown 1000:1000 "$bundle"
    rootless "$HOOK" createContainer --plugin "$PLUGIN" 2>/dev/null < <(state "{bundle: \"$bundle\"}")
    grep -q '^apir-hook: \[c1\] cannot find the container' "$bundle/apir-hook.log"
}

@test "a full log goes on, and what was in it is kept once" {
    head -c 1048577 /dev/zero >"$LOG"
    say
    say
    [ "$(wc -l <"$LOG")" -eq 2 ]
    [ "$(stat -c %s "$LOG.1")" -eq 1048577 ]
}

@test "a link, a fifo or a folder of the log's name is no log" {
    ln -s "$BATS_TEST_TMPDIR/elsewhere" "$LOG"
    say
    [ ! -e "$BATS_TEST_TMPDIR/elsewhere" ]
    rm "$LOG"
    mkfifo "$LOG"
    say timeout "$(patience 10)"
    rm "$LOG"
    mkdir "$LOG"
    say
    rmdir "$LOG"
}
