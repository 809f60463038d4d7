#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# host0 on the bare machine: real containers of runc on this very kernel, with no VM, no GPU node
# and no driver. `apir host serve` is the host, `apir cdi generate` writes the spec, and what that
# spec says is put into the bundle as an engine would. The root file system is Debian's with
# llama.cpp; nothing of ours is in it.

load ../system.bash

# Of no account in passwd; their numbers are all that counts.
MEMBER=4001 GROUP=4777 STRANGER=4002

setup_file() {
    # An overlay over an overlay may not be had: the machine's /tmp may be one.
    mkdir -p build/host
    H=$(mktemp -d "$PWD/build/host/run.XXXXXX")
    export H
    chmod 755 "$H"
    mount -t tmpfs -o mode=0755 tmpfs "$H"
    mkdir -p "$H"/{upper,work,root,models,socket,state}
    mount -t overlay -o "lowerdir=${HOST0_ROOT:-/run/build-root},upperdir=$H/upper,workdir=$H/work" \
        overlay "$H/root"
    "$OUT/tests/lib/models/gguf-write" --arch llama --preset 3M --output "$H/models/3m.gguf"
    serve
    # Beside it: the spec as an administrator gets it.
    "$OUT/cdi/apir" cdi generate --host-socket "$H/socket" --output "$H/apir.json"
    "$OUT/cdi/apir" cdi validate "$H/apir.json"
}

teardown_file() {
    local container
    for container in $(runc --root "$H/state" list -q); do
        runc --root "$H/state" delete --force "$container"
    done
    if [[ -s $H/serve.pid ]]; then serve_end TERM || :; fi
    umount "$H/root"
    # Its last process may still be ending.
    umount --lazy "$H"
    rmdir "$H"
}

setup() {
    export GGML_VK_VISIBLE_DEVICES=
}

# What a failed test has to say.
teardown() {
    [[ -n ${BATS_TEST_COMPLETED-} ]] || tail -n 30 "$H/serve.log" "$H"/*.err 2>/dev/null || :
}

# serve [KEY...]: `apir host serve` with these members of the configuration. Without spare workers:
# these tests take each worker for a program's.
serve() {
    printf '{"threads": 1, "spare_workers": 0, "shader_seconds": 0%s}\n' "${1:+, $1}" >"$H/backend.json"
    : >"$H/serve.log"
    env APIR_CONFIG="$H/backend.json" GGML_VK_VISIBLE_DEVICES= "${SERVE_ENV[@]}" "$OUT/cdi/apir" host serve \
        --socket-dir "$H/socket" >>"$H/serve.log" 2>&1 </dev/null 3>&- &
    echo $! >"$H/serve.pid"
    wait_until 20 grep -q 'listening on' "$H/serve.log"
    # The group of a machine that has one; this one has only the number.
    chgrp "$GROUP" "$H/socket/apir.sock"
}

serve_end() { # SIGNAL
    local pid
    pid=$(<"$H/serve.pid")
    kill "-$1" "$pid"
    wait_until 10 gone "$pid"
}
no_workers() { [[ -z $(pgrep -P "$(<"$H/serve.pid")") ]]; }

# bundle NAME UID GID GROUPS CMD...: a bundle as `docker run --device virtgpu/apir=host0 --user
# UID:GID --group-add GROUPS` would make it; GROUPS is a JSON list. DEVICES: others than host0, a
# JSON list; SPEC: of another file.
bundle() {
    local name=$1 uid=$2 gid=$3 groups=$4
    shift 4
    rm -rf "${H:?}/$name"
    mkdir -p "$H/$name"
    (cd "$H/$name" && runc spec)
    jq --slurpfile cdi "${SPEC:-$H/apir.json}" --argjson devices "${DEVICES:-[\"host0\"]}" \
        'reduce ($cdi[0] | .containerEdits, ($devices[] as $d | .devices[] | select(.name == $d).containerEdits)) as $edit (.;
             .process.env += ($edit.env // [])
             | .mounts += [($edit.mounts // [])[]
                 | {destination: .containerPath, source: .hostPath, type: (.type // "bind"), options}]
             | reduce ($edit.hooks // [])[] as $h (.;
                 .hooks[$h.hookName] += [$h | del(.hookName)]))' \
        "$H/$name/config.json" >"$H/$name/edited.json" ||
        return 1
    # The machine's cgroups are no business of this test.
    jq --arg root "$H/root" --arg models "$H/models" \
        --argjson uid "$uid" --argjson gid "$gid" --argjson groups "$groups" \
        '.root = {path: $root, readonly: true}
         | .process.terminal = false
         | .process.args = $ARGS.positional
         | .process.user = {uid: $uid, gid: $gid, additionalGids: $groups}
         | .process.capabilities = {}
         | .process.noNewPrivileges = true
         | .mounts += [{destination: "/mnt", source: $models, type: "bind",
                        options: ["ro", "rbind"]}]
         | del(.linux.resources)
         | .linux.namespaces |= map(select(.type != "cgroup"))' \
        --args -- "$@" <"$H/$name/edited.json" >"$H/$name/config.json"
}

# contained NAME UID GID GROUPS CMD...
contained() {
    bundle "$@"
    runc --root "$H/state" run --bundle "$H/$1" "host0-$$-$1" </dev/null 3>&-
}

BENCH=(llama-bench -m /mnt/3m.gguf -t 1 -p 16 -n 8 -r 1 -o json)

computed_on() { # JSON DEVICE
    jq -e --arg on "$2" 'length == 2 and all(.[]; .avg_ts > 0 and .devices == $on)' <<<"$1"
}

@test "host0: the spec is what CDI knows, and without a node or a driver" {
    jq -e '.devices | map(.name) == ["host0", "host0-0"]' "$H/apir.json"
    jq -e '[.. | .deviceNodes? // empty] == []' "$H/apir.json"
}

@test "host0: nothing of ours is in the image" {
    [[ -x $H/root/usr/bin/llama-bench ]]
    run -0 find "$H/root/usr" "$H/root/etc" "$H/root/opt" -name '*apir*' -not -name 'apir-build-root*'
    [[ -z $output ]]
}

@test "host0: llama-bench computes on it" {
    run -0 --separate-stderr contained bench 0 0 '[]' "${BENCH[@]}" -dev APIR0
    computed_on "$output" APIR0
    refute_ours "$stderr"
    wait_until 10 no_workers
}

# Our lines begin with apir: and there is none unless something is wrong.
refute_ours() { ! grep '^apir:' <<<"$1"; }

@test "host0: the computation is the worker's, not the container's" {
    bundle held 0 0 '[]' llama-bench -m /mnt/3m.gguf -t 1 -p 0 -n 64 -r 100000 -dev APIR0
    runc --root "$H/state" run --bundle "$H/held" "host0-$$-held" >"$H/held.out" 2>"$H/held.err" \
        </dev/null 3>&- &
    local job=$! worker
    wait_until 30 has_worker
    worker=$(pgrep -P "$(<"$H/serve.pid")")
    [[ $(<"/proc/$worker/comm") == apir-worker ]]
    wait_until 30 computes "$worker" "$(cpu_ticks "$worker")"
    # And outside: it sees the host's root, not the container's.
    [[ /proc/$worker/root/ -ef / ]]
    runc --root "$H/state" kill "host0-$$-held" KILL
    wait "$job" || :
    wait_until 10 no_workers
}
has_worker() { [[ -n $(pgrep -P "$(<"$H/serve.pid")") ]]; }

@test "host0: a user of the group computes on it" {
    run -0 --separate-stderr contained member "$MEMBER" "$MEMBER" "[$GROUP]" "${BENCH[@]}" -dev APIR0
    computed_on "$output" APIR0
    refute_ours "$stderr"
}

@test "host0: a user outside the group gets one clear line and computes on the CPU" {
    run -0 --separate-stderr contained stranger "$STRANGER" "$STRANGER" '[]' "${BENCH[@]}"
    jq -e 'length == 2 and all(.[]; .avg_ts > 0 and (.backends | contains("APIR") | not))' <<<"$output"
    [[ $(grep -c '^apir:' <<<"$stderr") -eq 1 ]]
    grep '^apir: no permission to use /run/apir/host/apir.sock.*group' <<<"$stderr"
}

@test "host0: a user namespace's root is the user it is mapped to" {
    serve_end TERM
    serve '"allow_users": [100000]'
    chmod 666 "$H/socket/apir.sock"
    bundle mapped 0 0 '[]' "${BENCH[@]}" -dev APIR0
    jq '.linux.namespaces += [{type: "user"}]
        | .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
        | .linux.gidMappings = .linux.uidMappings' "$H/mapped/config.json" >"$H/mapped/c"
    mv "$H/mapped/c" "$H/mapped/config.json"
    run -0 --separate-stderr runc --root "$H/state" run --bundle "$H/mapped" "host0-$$-mapped" 3>&-
    computed_on "$output" APIR0
    serve_end TERM
    serve
}

@test "host0: a program in a container that runs finds the daemon that was started again" {
    bundle again 0 0 '[]' sleep 1000
    runc --root "$H/state" run --detach --bundle "$H/again" "host0-$$-again" </dev/null \
        >"$H/again.out" 2>"$H/again.err" 3>&-
    run -0 --separate-stderr runc --root "$H/state" exec "host0-$$-again" "${BENCH[@]}" -dev APIR0
    computed_on "$output" APIR0
    # Killed, too: its socket stays behind then.
    local signal
    for signal in TERM KILL; do
        serve_end "$signal"
        run -0 --separate-stderr runc --root "$H/state" exec "host0-$$-again" "${BENCH[@]}"
        grep '^apir: nobody serves' <<<"$stderr"
        serve
        run -0 --separate-stderr runc --root "$H/state" exec "host0-$$-again" "${BENCH[@]}" -dev APIR0
        computed_on "$output" APIR0
    done
    runc --root "$H/state" delete --force "host0-$$-again"
}

# exec_lists NAME [VARIABLE=VALUE]...: our devices as a program sees them that was started in this
# container with no other variables, as `podman exec` and `docker exec`, sudo and cron do.
exec_lists() {
    runc --root "$H/state" exec "host0-$$-$1" /usr/bin/env -i PATH=/usr/bin LP_NUM_THREADS=1 "${@:2}" \
        llama-bench --list-devices 2>"$H/lists.err" | sed -nE 's/^ *(APIR[0-9]+: .*) \([0-9]+ MiB.*/\1/p'
}

# offers LIST LINE...: a container with these devices, run and exec: such are its devices.
offers() {
    local expected
    expected=$(printf '%s\n' "${@:2}")
    DEVICES=$1 SPEC=$H/two.json contained chosen 0 0 '[]' llama-bench --list-devices >"$H/run.out" 2>"$H/run.err"
    diff - <(sed -nE 's/^ *(APIR[0-9]+: .*) \([0-9]+ MiB.*/\1/p' "$H/run.out") <<<"$expected"
    DEVICES=$1 SPEC=$H/two.json bundle chosen 0 0 '[]' sleep 1000
    runc --root "$H/state" run --detach --bundle "$H/chosen" "host0-$$-chosen" </dev/null \
        >"$H/chosen.out" 2>"$H/chosen.err" 3>&-
    diff - <(exec_lists chosen) <<<"$expected"
    refute_ours "$(<"$H/lists.err")"
}

@test "host0: the devices that a container was given are those of every process in it" {
    local cpu gpu SERVE_ENV
    [[ -r $LAVAPIPE ]] || { [[ -z ${CI-} ]]; skip "no lavapipe here"; }
    serve_end TERM
    SERVE_ENV=("${VULKAN[@]}")
    serve '"devices": ["CPU", "Vulkan0"]'
    "$OUT/cdi/apir" cdi generate --host-socket "$H/socket" --output "$H/two.json"
    jq -e '[.devices[].name] == ["host0", "host0-0", "host0-1"]' "$H/two.json"
    DEVICES='["host0"]' SPEC=$H/two.json contained all 0 0 '[]' llama-bench --list-devices >"$H/all.out"
    cpu=$(sed -nE 's/^ *APIR0: (.*) \([0-9]+ MiB.*/\1/p' "$H/all.out")
    gpu=$(sed -nE 's/^ *APIR1: (.*) \([0-9]+ MiB.*/\1/p' "$H/all.out")
    [[ -n $cpu && $gpu == *llvmpipe* ]]

    offers '["host0"]' "APIR0: $cpu" "APIR1: $gpu"
    runc --root "$H/state" delete --force "host0-$$-chosen"
    offers '["host0-1", "host0-0"]' "APIR0: $cpu" "APIR1: $gpu"
    runc --root "$H/state" delete --force "host0-$$-chosen"
    offers '["host0-0"]' "APIR0: $cpu"
    runc --root "$H/state" delete --force "host0-$$-chosen"
    offers '["host0-1"]' "APIR0: $gpu"
    # It computes there.
    run -0 --separate-stderr runc --root "$H/state" exec "host0-$$-chosen" /usr/bin/env -i PATH=/usr/bin \
        "${BENCH[@]}" -dev APIR0
    computed_on "$output" APIR0
    # A variable still chooses. A new spec, with other numbers, changes nothing here.
    diff - <(exec_lists chosen APIR_DEVICE_3=cpu) <<<"APIR0: $cpu"
    jq '.devices |= map(select(.name == "host0-1") | .name = "host0-0" |
        .containerEdits.env |= map(sub("10001"; "10000")))' "$H/two.json" >"$H/renumbered.json"
    mv "$H/renumbered.json" "$H/two.json"
    "$OUT/cdi/apir" cdi generate --host-socket "$H/socket" --output "$H/two.json" 2>"$H/generate.err"
    grep 'host0-1: cpu' "$H/generate.err"
    diff - <(exec_lists chosen) <<<"APIR0: $gpu"
    runc --root "$H/state" delete --force "host0-$$-chosen"
    offers '["host0-1"]' "APIR0: $cpu"
    runc --root "$H/state" delete --force "host0-$$-chosen"
    # Nor do files of such names that an image brings.
    mkdir -p "$H/root/usr/lib/apir/devices"
    cp "$PLUGIN" "$H/root/usr/lib/apir/devices/host0-7=cpu"
    : >"$H/root/usr/lib/apir/devices/gpu0=cpu"
    offers '["host0-0"]' "APIR0: $gpu"
    runc --root "$H/state" delete --force "host0-$$-chosen"
    rm -r "$H/root/usr/lib/apir"
    serve_end TERM
    SERVE_ENV=()
    serve
}

@test "host0: a container can do nothing to the folder and the socket" {
    # shellcheck disable=SC2016 # expanded in the container
    run -0 --separate-stderr contained touch 0 0 '[]' sh -c '
        for c in "rm /run/apir/host/apir.sock" "mv /run/apir/host/apir.sock /run/apir/host/a" \
            "touch /run/apir/host/x" "chmod 777 /run/apir/host/apir.sock" "mount -o remount,rw /run/apir/host"; do
            $c 2>/dev/null && echo "done: $c"
        done
        echo end'
    [[ $output == end ]]
    [[ -S $H/socket/apir.sock ]]
}

@test "host0: apir host serve says what comes next, and Ctrl-C ends it without a trace" {
    grep -q 'podman run --device virtgpu/apir=host0' "$H/serve.log"
    grep -q "apir cdi generate --host-socket $H/socket" "$H/serve.log"
    serve_end INT
    [[ ! -e $H/socket/apir.sock ]]
    # Where there is no folder it makes one that users of containers can look into.
    rmdir "$H/socket"
    umask 077
    serve
    [[ $(stat -c %a "$H/socket") == 755 && $(stat -c %a "$H/socket/apir.sock") == 660 ]]
    # A second one says so and leaves the first alone.
    local socket
    socket=$(stat -c %i "$H/socket/apir.sock")
    run -1 --separate-stderr "$OUT/cdi/apir" host serve --socket-dir "$H/socket"
    grep -q 'another server listens' <<<"$stderr"
    [[ $(stat -c %i "$H/socket/apir.sock") == "$socket" ]]
    # Nor does it serve where anybody could put a socket in its place.
    mkdir -m 777 "$H/open"
    run -1 --separate-stderr "$OUT/cdi/apir" host serve --socket-dir "$H/open"
    grep -q 'others may write' <<<"$stderr"
    run -1 --separate-stderr "$OUT/cdi/apir" host serve --socket-dir relative
    run -2 --separate-stderr "$OUT/cdi/apir" host serve --no-such-option
}
