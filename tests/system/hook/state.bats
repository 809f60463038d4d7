#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# States and configurations as nobody should write them.

. "${BATS_TEST_DIRNAME}/hook.bash"

setup() {
    hook_setup
    bundle "$B"
}

teardown() {
    [ -z "${OTHER-}" ] || kill "$OTHER"
}

refused() { # TEXT STATE-OBJECT: what createRuntime says of this state, after which it fails
    run -1 "$HOOK" createRuntime --plugin "$PLUGIN" --spec "$SPEC" < <(state "$2")
    [[ $output == *"$1"* ]]
}

asks='annotations: {"apir.device": "host0"}'

@test "a state without a pid, with pid 0, or with a pid that is none, is an error that says so" {
    refused "the state names no process (pid 0)" "{bundle: \"$B\", $asks}"
    refused "the state names no process (pid 0)" "{bundle: \"$B\", $asks, pid: 0}"
    for pid in -1 4194305 1.5 '"1"' true '[1]' 99999999999999999999; do
        refused '' "{bundle: \"$B\", $asks, pid: $pid}"
        [[ $output == *'"pid" is '* || $output == *"number expected"* ]]
    done
}

@test "a pid of a process that has ended, or of a thread, is an error" {
    /bin/true &
    ended=$!
    wait "$ended"
    refused "pid $ended is no process" "{bundle: \"$B\", $asks, pid: $ended}"
    for task in /proc/[0-9]*/task/*; do
        process=${task#/proc/} process=${process%%/*} thread=${task##*/}
        [ "$process" = "$thread" ] || break
    done
    [ "$process" != "$thread" ]
    refused "pid $thread is no process" "{bundle: \"$B\", $asks, pid: $thread}"
}

@test "a process in our own mount namespace is no container" {
    sleep 10000 3>&- &
    OTHER=$!
    mounts=$(</proc/self/mountinfo)
    refused "process $OTHER of the state has no mount namespace of its own" "{bundle: \"$B\", $asks, pid: $OTHER}"
    [ "$mounts" = "$(</proc/self/mountinfo)" ]
}

@test "a process of another mount namespace without the container's root is refused" {
    unshare --mount sleep 10000 3>&- &
    OTHER=$!
    until [ "$(readlink "/proc/$OTHER/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]; do :; done
    for root in / /proc/.. "$B/rootfs/../../../../../../../.."; do
        refused "is no container's root" "{bundle: \"$B\", $asks, pid: $OTHER, root: \"$root\"}"
    done
    refused "the container's root /none" "{bundle: \"$B\", $asks, pid: $OTHER, root: \"/none\"}"
}

@test "a state that is cut short, not UTF-8, huge, deep, or has a name twice is refused" {
    good=$(state "{bundle: \"$B\", $asks, pid: 1}")
    for ((n = 0; n < ${#good}; n += 7)); do
        run -1 "$HOOK" createContainer --plugin "$PLUGIN" <<<"${good:0:n}"
        [[ $output =~ 'container state: line '[0-9]+', byte '[0-9]+': ' ]]
    done
    deep=$(printf '[%.0s' {1..40})$(printf ']%.0s' {1..40})
    bad=(
        "{\"id\":\"a\",\"id\":\"b\",\"bundle\":\"$B\"}"
        "{\"id\":\"a\",\"annotations\":{\"apir.device\":\"host0\",\"apir.device\":\"gpu0\"}}"
        "{\"id\":\"a\",\"annotations\":{\"apir.device\\u0000x\":\"host0\"}}"
        "{'id':'a'}"
        $'{"id":"\xff"}'
        "{\"id\":\"a\",\"x\":$deep}"
        "{\"id\":\"a\"}{}"
        "[]"
        "null"
    )
    for text in "${bad[@]}"; do
        for stage in createContainer createRuntime prestart; do
            run -1 "$HOOK" "$stage" <<<"$text"
            [[ $output == *"container state: "* ]]
        done
    done
    huge() { head -c 1048577 /dev/zero | tr '\0' ' '; }
    run -1 "$HOOK" createContainer < <(huge)
    [[ $output == *"container state: larger than 1048576 bytes"* ]]
}

# What the runtime has taken is no reason to keep a container from starting.
@test "a config.json that is huge, deep, not UTF-8, cut short, or has a name twice changes nothing" {
    tree "$B/rootfs" >"$BATS_TEST_TMPDIR/before"
    good=$(jq -c '.annotations["apir.device"] = "host0"' "$B/config.json")
    deep=$(printf '{"a":%.0s' {1..40})1$(printf '}%.0s' {1..40})
    bad=(
        "${good:0:${#good}-1}"
        "${good%?},\"annotations\":{}}"
        "${good%?},\"x\":$deep}"
        "${good%?},\"x\":\""$'\xff"}'
        "${good%?},'x':1}"
        "${good%?},\"x\":NaN}"
        "${good%?},\"x\":\"$(head -c 8400000 /dev/zero | tr '\0' x)\"}"
        ""
    )
    for text in "${bad[@]}"; do
        printf %s "$text" >"$B/config.json"
        rm -f "$LOG"
        for stage in createContainer createRuntime; do
            once "$B" "$stage" --spec "$SPEC" >"$BATS_TEST_TMPDIR/out" 2>/dev/null
            diff - "$BATS_TEST_TMPDIR/out" <<<"exit 0"
        done
        [ "$(grep -c "cannot read the container's configuration" "$LOG")" -eq 2 ]
        # An engine gets back what it sent, to the byte.
        "$HOOK" precreate --spec "$SPEC" <"$B/config.json" >"$BATS_TEST_TMPDIR/out" || [ ${#text} -gt 8388608 ]
        cmp "$BATS_TEST_TMPDIR/out" "$B/config.json" || [ ${#text} -gt 8388608 ]
    done
    tree "$B/rootfs" | diff "$BATS_TEST_TMPDIR/before" -
    printf %s "$good" >"$B/config.json"
    once "$B" createRuntime --spec "$SPEC" | grep -q "^mount $INSIDE "
}

@test "what is odd inside a config.json is no crash" {
    cp "$B/config.json" "$BATS_TEST_TMPDIR/good"
    for filter in '.process = 1' '.process.env = {}' '.process.env = [1, null, {}, "x"]' '.mounts = 1' \
        '.mounts = [1, null, {"destination": 1}]' '.root = []' '.root.path = 1' '.annotations = []' \
        '.linux = 1' '.linux.devices = {}' '.hooks = []' '.hooks.createContainer = {}'; do
        jq "$filter" "$BATS_TEST_TMPDIR/good" >"$B/config.json"
        for stage in createContainer createRuntime; do
            once "$B" "$stage" --spec "$SPEC" >"$BATS_TEST_TMPDIR/out"
            grep -qx "exit 0" "$BATS_TEST_TMPDIR/out"
        done
        jq "$filter | if (.annotations | type) == \"array\" then . else .annotations[\"apir.device\"] = \"host0\" end" \
            "$BATS_TEST_TMPDIR/good" >"$B/config.json"
        "$HOOK" precreate --spec "$SPEC" <"$B/config.json" | jq -e 'type == "object"'
    done
}
