#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The unix transport: real llama.cpp programs and apir-render-server's own socket. (Losses and
# memory over it: run.sh runs those files over this transport too.)

load system.bash

setup() {
    common_setup
    SYSTEM_TRANSPORT=unix
    model_small
}
teardown() {
    [[ -z ${AUTO_DIR-} ]] || rm -rf "$AUTO_DIR"
    common_teardown
}

fds_are() { [[ $(n_fds "$1") -eq $2 ]]; }

# A program that is to run on its own, and says why in one line of ours.
declines() { # PATTERN VARIABLE=VALUE...
    run -0 --separate-stderr remote "${@:2}" "$EXERCISE" list
    refute grep -q '^APIR' <<<"$output"
    grep '^apir:' <<<"$stderr" | tee "$T/declined"
    [[ $(wc -l <"$T/declined") -eq 1 ]]
    grep -q "$1" "$T/declined"
}

@test "unix: the same tokens as a native run" {
    server_start
    text_as_natively
    refute grep '^apir:' "$T/greedy.err"
}

@test "unix: many runs leave no process and no descriptor behind" {
    server_start
    local fds
    fds=$(n_fds "$VTEST_PID")
    many_runs 0
    wait_until 10 fds_are "$VTEST_PID" "$fds"
}

@test "unix: no system call per graph while both are awake" {
    server_start
    # A kick, were there one, would be a message on the socket, or a wake of the worker.
    run -0 --separate-stderr env "${REMOTE[@]}" strace -f --seccomp-bpf -qq -o "$T/calls" \
        -e trace=sendto,sendmsg,recvmsg,recvfrom llama-bench -m "$MODEL" -dev APIR0 -t 1 -p 0 -n 64 -r 3
    local sent
    sent=$(grep -cE 'send(to|msg)\(' "$T/calls") || :
    echo "messages: $sent"
    # The greeting and the memory: some tens, whatever was computed (some thousand messages).
    [[ $sent -gt 2 && $sent -lt 60 ]]
    exercise awake
    cat "$T/exercise.out"
}

@test "unix: the next program gets the spare worker, which is in its sandbox before" {
    VTEST_CONFIG='{"threads": 1, "spare_workers": 1}'
    VTEST_ENV=(APIR_LOG=info)
    server_start
    exercise compute
    wait_until 20 n_spares_is 1
    local spare task
    spare=$(spares)
    for task in /proc/"$spare"/task/*/status; do
        grep -Eq '^NoNewPrivs:\s1$' "$task"
        grep -Eq '^Seccomp:\s2$' "$task"
    done
    # Nothing of a guest's: no ring, no arena.
    refute grep -E 'memfd:apir-(ring|arena)' "/proc/$spare/maps"

    hold_start
    wait_until 10 n_workers_is 1
    [[ $(workers) == "$spare" ]]
    grep -q 'has a spare worker' "$VTEST_LOG"
    echo go >&"$TALK"
    wait_until 60 grep -q "right 1" "$T/hold.out"
    # While it works for this one, the next one has another.
    wait_until 20 n_spares_is 1
    text_as_natively
    [[ $(workers) == "$spare" ]]
    # The server's end is everybody's.
    spare=$(spares)
    kill -KILL "$VTEST_PID"
    wait_until 10 gone "$(workers)"
    [[ -z $spare ]] || wait_until 10 gone "$spare"
}

@test "unix: a socket that nobody serves is one clear line" {
    server_start
    declines "nobody serves $T/none.sock.*apir host serve.*going on without" "APIR_TRANSPORT=unix:$T/none.sock"
    # A stale one, too.
    kill -KILL "$VTEST_PID"
    wait "$VTEST_PID" || :
    [[ -S $VTEST_SOCKET ]]
    declines 'nobody serves'
}

@test "unix: a program whose user may not goes on without, with one clear line" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip "needs root, to be two users"; }
    VTEST_CONFIG='{"threads": 1, "allow_users": [0]}'
    server_start
    chmod 755 "$VTEST_DIR"
    remote "$EXERCISE" compute
    # The socket's own permissions.
    declines 'no permission to use' setpriv --reuid 1001 --regid 1001 --clear-groups
    # As nspawn, Incus and rootless podman have it: no group in there is that of the socket.
    declines 'its owner and group are nobody here.*mode 0666.*--group-add keep-groups' \
        setpriv --reuid 1001 --regid 1001 --clear-groups unshare --user --map-root-user
    declines 'its owner and group are nobody here.*mode 0666.*--group-add keep-groups' \
        setpriv --reuid 1001 --regid 1001 --clear-groups unshare --user --map-root-user \
        env "APIR_TRANSPORT=virtgpu:$VTEST_SOCKET"
    APIR_TRANSPORT=unix:$VTEST_SOCKET setpriv --reuid 1001 --regid 1001 --clear-groups unshare --user --map-root-user \
        "$(realpath "$OUT/cdi/apir")" doctor --json >"$T/json" || [[ $? -eq 1 ]]
    jq -e '.checks[] | select(.name == "connect") | .todo | test("0666") and (test("usermod") | not)' "$T/json"
    chmod 666 "$VTEST_SOCKET"
    # The configuration's.
    declines 'user 1001 may not use' setpriv --reuid 1001 --regid 1001 --clear-groups
    # And it computes, on its own.
    run -0 --separate-stderr remote setpriv --reuid 1001 --regid 1001 --clear-groups \
        llama-bench -m "$MODEL" -t 2 -p 8 -n 2 -r 1 -o json
    jq -e 'length == 2 and all(.[]; .avg_ts > 0 and (.backends | contains("APIR") | not))' <<<"$output"
}

@test "unix: auto finds the socket where there is no render node" {
    [[ ! -e /dev/dri/renderD128 ]] || { [[ -z ${CI-} ]]; skip "this machine has a render node of its own"; }
    local dir=/run/apir/host
    # /run is the build root's own; elsewhere it is left alone.
    [[ ! -e ${dir%/*} && -w /run ]] || { [[ -z ${CI-} ]]; skip "there is a $dir already"; }
    VTEST_CONFIG='{"threads": 1}'
    server_start
    AUTO_DIR=${dir%/*}
    mkdir -p "$dir"
    ln -s "$VTEST_SOCKET" "$dir/apir.sock"
    run -0 --separate-stderr remote APIR_TRANSPORT=auto "$EXERCISE" list
    rm -r "$AUTO_DIR"
    grep -q '^APIR0' <<<"$output"
    run -0 --separate-stderr remote APIR_TRANSPORT=auto "$EXERCISE" list
    refute grep -q '^APIR' <<<"$output"
    refute grep '^apir:' <<<"$stderr"
}

@test "unix: a stopped server does not hold up a program that starts" {
    server_start
    kill -STOP "$VTEST_PID"
    local since took
    since=$(now_ms)
    declines 'no apir-render-server answers' APIR_SILENCE_SECONDS=5
    kill -CONT "$VTEST_PID"
    took=$(($(now_ms) - since))
    echo "$took ms"
    # Not before its patience is over. Nobody answers at all.
    ((took >= 5000))
    in_time "$took" 12000
}

@test "unix: a socket that systemd passes" {
    # systemd's own program for that; the units themselves: systemd-analyze.
    local socket=$T/passed.sock
    APIR_CONFIG=$T/backend.json GGML_VK_VISIBLE_DEVICES='' systemd-socket-activate --seqpacket \
        --listen="$socket" "$OUT/backend/apir-render-server" --listen-fds \
        >"$T/activate.out" 2>"$T/activate.err" </dev/null 3>&- &
    echo '{"threads": 1}' >"$T/backend.json"
    JOBS_STARTED+=("$!")
    wait_until 10 test -S "$socket"
    REMOTE=("APIR_TRANSPORT=unix:$socket" "GGML_BACKEND_PATH=$(realpath "$PLUGIN")")
    # The first connection starts it.
    remote "$EXERCISE" compute
    remote "$EXERCISE" compute
    [[ $(ps -o comm= -p "${JOBS_STARTED[-1]}") == apir-render-ser ]]
}

@test "unix: systemd's units are sound, and name what is installed" {
    local root=$T/root unit
    make --no-print-directory -s install-backend MODE=release O="$OUT" DESTDIR="$root" prefix=/usr >/dev/null
    unit=$root/usr/lib/systemd/system
    # The group that the socket names is the one that sysusers makes.
    [[ $(sed -n 's/^SocketGroup=//p' "$unit/apir-host.socket") == \
        $(awk '$1 == "g" { print $2 }' "$root/usr/lib/sysusers.d/apir.conf") ]]
    grep -qx 'ListenSequentialPacket=/run/apir/host/apir.sock' "$unit/apir-host.socket"
    local program
    program=$(sed -nE 's/^ExecStart=([^ ]+).*/\1/p' "$unit/apir-host.service")
    [[ -x $root$program ]]
    # Where servers add up: the folder, who may write there, and the service's way to it.
    mkdir -p "$root/etc"
    printf 'root:x:0:0::/:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\nrender:x:4711:\n' >"$root/etc/group"
    systemd-tmpfiles --root="$root" --create apir.conf
    [[ $(stat -c '%a %u %g' "$root/run/apir/limits") == '1770 0 4711' ]]
    grep -qF /run/apir/limits "$root$program"
    grep -qx 'ReadWritePaths=-/run/apir/limits' "$unit/apir-host.service"
    # And where they are looked at.
    [[ $(stat -c '%a %u %g' "$root/run/apir/top") == '1770 0 4711' ]]
    grep -qF /run/apir/top "$root$program"
    grep -qx 'ReadWritePaths=-/run/apir/top' "$unit/apir-host.service"
    grep -q '^SupplementaryGroups=.*render' "$unit/apir-host.service"
    # verify looks at the program where this machine would have it.
    sed -i "s|^ExecStart=/|ExecStart=$root/|" "$unit/apir-host.service"
    run -0 env SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$unit/apir-host.socket" \
        "$unit/apir-host.service"
    [[ -z $output ]]
}
