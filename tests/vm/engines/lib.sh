# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For the rows (rows/*.sh), which row.sh runs one by one.

# shellcheck disable=SC2034 # for the rows
DEVICE=(--device virtgpu/apir=gpu0)
NODE=/dev/dri/renderD128
USER_HOME=/home/user
work=${work-} # a directory of the row's own
last=$work    # in it, what the last container printed: out and err

# Every program has a limit, so that it and not the row is ended: the engine
# passes the signal on to its container.
LIMIT=(timeout --kill-after=5 90)
PODMAN=(podman)
RUN=(run --rm --network=host -v /mnt/models:/models:ro)

# Each is an engine's `run` up to the image: OPTION... IMAGE COMMAND...
run_podman() { "${LIMIT[@]}" "${PODMAN[@]}" "${RUN[@]}" "$@" </dev/null; }
run_docker() { "${LIMIT[@]}" docker "${RUN[@]}" "$@" </dev/null; }
run_rootless() { as_user "${LIMIT[@]}" "${PODMAN[@]}" "${RUN[@]}" "$@" </dev/null; }
run_ctr() { "${LIMIT[@]}" ctr run --rm --mount type=bind,src=/mnt/models,dst=/models,options=rbind:ro "$@" </dev/null; }

# as_user CMD...: as the unprivileged user, as after a login.
as_user() {
    (
        cd "$USER_HOME" || exit
        echo "$BASHPID" >/sys/fs/cgroup/user/cgroup.procs
        exec setpriv --reuid user --regid user --init-groups --reset-env env XDG_RUNTIME_DIR=/run/user/1000 "$@"
    )
}

die() {
    echo "$*"
    exit 1
}

# What a container runs: its devices on stderr, then prompt and generation on the
# device of this name; llama-bench does not start if there is no such device. The
# second lets it choose, so that one without APIR0 computes too.
BENCH='llama-bench --list-devices >&2 && exec llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json'
BENCH_ANY=${BENCH/-dev APIR0/}
# For programs that start with an empty environment.
BENCH_BARE="exec env -i PATH=/usr/bin sh -c '$BENCH'"

# computes CMD...: CMD (up to and with the image) runs BENCH, and it ran on APIR0.
computes() {
    observe "$@" sh -c "$BENCH"
    on_apir
}

# observe CMD...: what it prints in $last/out and $last/err, and in the row's log.
observe() {
    local rc=0
    last=$(mktemp -d "$work/last.XXXXXX")
    "$@" >"$last/out" 2>"$last/err" || rc=$?
    cat "$last/err"
    jq -c '.[]' "$last/out" 2>/dev/null || cat "$last/out"
    [[ $rc -eq 0 ]] || die "the container ended with $rc"
}

# What BENCH has printed last: one device, and both results from it. The standard
# output holds JSON and nothing else. BACKENDS: all that the image's ggml has, and
# not only those with a device.
BACKENDS=APIR
on_apir() {
    apir_alone
    jq -e 'all(.[]; .devices == "APIR0" and .n_gpu_layers == 99)' "$last/out" >/dev/null || die 'not all on APIR0'
}
apir_alone() {
    local devices
    # What it says besides comes from another thread, at any time.
    devices=$(grep -E '^ +[^ ]+: .* MiB free\)$' "$last/err" || true)
    [[ $devices =~ ^\ +APIR0:\  && $(wc -l <<<"$devices") -eq 1 ]] || die "not APIR0 alone: $devices"
    computed_on "$BACKENDS"
}

computed_on() { # BACKEND
    jq -e --arg on "$1" 'length == 2 and all(.[]; .backends == $on and .avg_ts > 0)' "$last/out" >/dev/null ||
        die "computed on: $(jq -r '.[].backends' "$last/out" | paste -sd ' ')"
}

# at_end CMD: runs when the row has ended, however it has; the last one first.
AT_END=()
at_end() { AT_END=("$1" "${AT_END[@]}"); }
finish() {
    set +e
    for AT_END_CMD in "${AT_END[@]}"; do eval "$AT_END_CMD"; done
}

# The hook's log, from the row's start on. syslogd writes what it got in order, so
# a line of our own behind it ends the waiting.
log_mark() { LOG_START=$(wc -l </var/log/messages); }
hook_log() {
    local token="row-$BASHPID-$RANDOM"
    logger --socket /dev/log "$token"
    for ((i = 0; i < 100; i++)); do
        ! grep -q "$token" /var/log/messages || break
        sleep 0.05
    done
    tail -n "+$((LOG_START + 1))" /var/log/messages | grep 'apir-hook' || true
}

# hook_says PATTERN: one of its lines since the row's start.
hook_says() {
    local lines
    lines=$(hook_log)
    echo "$lines"
    grep -Eqe "$1" <<<"$lines" || die "the hook has not logged: $1"
}
hook_placed() { hook_says 'placed as '; }

# What QEMU and our server and workers say, where tests/vm/ramalama/host.sh passes it on: the graphs that the
# host has computed since the mark.
HOST_LOG=/mnt/share/host.log
host_mark() { HOST_START=$(($(wc -l <"$HOST_LOG") + 1)); }
graphs() { tail -n "+$HOST_START" "$HOST_LOG" | grep -c ' GRAPH_EXEC for '; }
computed() { [[ $(graphs) -gt 0 ]]; }
on_the_host() {
    wait_for computed || die 'no worker on the host has computed a graph'
    echo "graphs that the host has computed: $(graphs)"
}

# What engines without CDI are given instead: podman's own stage, and in another folder the one that
# all of them know. Both folders are to be named.
# createRuntime is too late for the cgroup: hence RULE.
ANNOTATION=(--annotation apir.device=gpu0)
RULE=(--device-cgroup-rule 'c 226:* rw')
run_precreate() { PODMAN+=(--hooks-dir "$PRECREATE_DIR") && run_podman "${ANNOTATION[@]}" "$@"; }
PRECREATE_DIR=/usr/share/apir/hooks.d
HOOKS_DIR=/usr/share/apir/hooks.d-runtime

# What a container of an engine without CDI and hooks is given by hand.
by_hand() {
    local plugin
    apir run --device gpu0 --print >"$work/apir.env"
    plugin=$(sed -n 's/^GGML_BACKEND_PATH=//p' "$work/apir.env")
    BY_HAND=(--env-file "$work/apir.env" --device "$NODE" -v "$plugin:$plugin:ro")
}

# node_mode MODE: the render node has this mode until the row's end.
node_mode() {
    at_end "chmod 0666 $NODE"
    chmod "$1" "$NODE"
}

# The mounts that the host sees.
host_mounts() { awk '{ print $5, $(NF - 2), $(NF - 1) }' /proc/self/mountinfo | sort; }

# start NAME CMD...: a daemon that outlives what started it; its standard input is ours.
start() {
    local name=$1
    shift
    setsid "$@" <&0 >"/mnt/share/log/setup-$name-daemon.log" 2>&1 &
}

# wait_for COMMAND...: until it succeeds, for half a minute, or WAIT_TENTHS of a second.
wait_for() {
    for ((i = 0; i < ${WAIT_TENTHS:-300}; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "given up on: $*"
    return 1
}
