#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-guest.sh OUT: the guest's part of vm.sh, in a VM with a window of 32 MiB. A context takes 9 of
# it: three fit.
set -uo pipefail

share=/mnt/share
exercise=$1/tests/system/apir-exercise
walk=$1/tests/hostile/faults/faults-walk
work=$(mktemp -d)
unset APIR_TRANSPORT
GGML_BACKEND_PATH=$(realpath "$1/frontend/libggml-apir.so")
export GGML_BACKEND_PATH GGML_VK_VISIBLE_DEVICES=

result() { # STATUS NAME
    local word=ok
    if [[ $1 -ne 0 ]]; then
        word='not ok'
        tail -n 20 "$work"/*.log | sed 's/^/#   /' >>"$share/results"
    fi
    echo "$word - $2" >>"$share/results"
}

# shellcheck source=tests/lib/patience.bash
. tests/lib/patience.bash
wait_for() { wait_until 60 "$@"; }

# ---- a window that is full ------------------------------------------------------------------

# hold N: a context that stays; a line to its fifo is a computation.
hold() {
    local fd
    mkfifo "$work/hold$1"
    # Without the other fifos: their readers would never see the end.
    (
        for fd in "${lines[@]}"; do exec {fd}>&-; done
        exec "$exercise" hold <"$work/hold$1" >"$work/hold$1.log" 2>&1
    ) &
    holders[$1]=$!
    exec {lines[$1]}>"$work/hold$1"
    wait_for grep -q ready "$work/hold$1.log"
}

holds_right() { # N: it computes once more
    local before
    before=$(grep -c right "$work/hold$1.log")
    echo go >&"${lines[$1]}"
    wait_for more_right "$1" "$before"
}
more_right() { [[ $(grep -c right "$work/hold$1.log") -gt $2 ]]; }

declare -a holders lines
"$walk" walk >"$work/walk.log" 2>&1
result $? "a window of 32 MiB: every kind of call of one client"

full() {
    hold 1 && hold 2 && hold 3 || return 1
    "$walk" walk >"$work/walk.log" 2>&1
    local status=$?
    cat "$work/walk.log"
    # Declined with the reason, and no crash.
    [[ $status -eq 4 ]] && grep -q 'host-visible window\|no shared memory' "$work/walk.log"
}
full
result $? "a full window: the next client is told so and goes on without us"
holds_right 1 && holds_right 2 && holds_right 3
result $? "a full window: those that have room compute on"

freed() {
    exec {lines[2]}>&-
    wait "${holders[2]}" || return 1
    "$walk" walk >"$work/walk.log" 2>&1
}
freed
result $? "a full window: where one goes, the next has room at once"
holds_right 1 && holds_right 3
result $? "a full window: the others never noticed"
exec {lines[1]}>&- {lines[3]}>&-
wait "${holders[1]}" "${holders[3]}"

# ---- a machine without memory -----------------------------------------------------------------

# The host's side in here as well, over vtest, in a cgroup of 512 MiB: the kernel ends somebody.
memory() {
    local group=/sys/fs/cgroup/faults server status=0 before
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control || return 1
    mkdir "$group" && echo 512M >"$group/memory.max" || return 1
    [[ ! -e $group/memory.swap.max ]] || echo 0 >"$group/memory.swap.max"
    # shellcheck source=tests/system/vtest.sh
    . tests/system/vtest.sh
    # Read by vtest_start.
    # shellcheck disable=SC2034
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU"]}' VTEST_ARGS=(--no-fork --multi-clients)
    vtest_start "$1" || return 1
    echo "$VTEST_PID" >"$group/cgroup.procs"
    mapfile -t there < <(vtest_env "$1")
    env "${there[@]}" "$exercise" compute || return 1
    env "${there[@]}" "$exercise" hold <"$work/hold4" >"$work/hold4.log" 2>&1 &
    exec {lines[4]}>"$work/hold4"
    wait_for grep -q ready "$work/hold4.log"
    env "${there[@]}" "$walk" gorge >"$work/gorge.log" 2>&1 || status=$?
    cat "$work/gorge.log" "$group/memory.events"
    # Lost, as after any other end of a worker; the others of this machine are as they were.
    [[ $status -eq 3 ]] && grep -q 'killed by signal 9' "$work/gorge.log" &&
        grep -q '^oom_kill [1-9]' "$group/memory.events" && vtest_alive && holds_right 4 &&
        env "${there[@]}" "$exercise" compute
    status=$?
    exec {lines[4]}>&-
    vtest_stop
    return "$status"
}
mkfifo "$work/hold4"
memory "$1" >"$work/memory.log" 2>&1
result $? "no memory: the kernel ends the worker that took it, and nobody else"

# ---- a VM that is stopped -------------------------------------------------------------------

stopped() {
    local status=0
    rm -f "$share/continued"
    touch "$share/stop"
    while [[ ! -e $share/continued ]]; do
        "$walk" walk >"$work/walk.log" 2>&1 || { status=$?; break; }
    done
    cat "$share/continued"
    return "$status"
}
stopped
result $? "a VM stopped for five seconds, again and again: its clients notice nothing"

# ---- a VM whose host is stopped ----------------------------------------------------------------

# Who computes waits, and so does who comes meanwhile.
host_stopped() {
    local before newcomer status=0
    hold 5 || return 1
    before=$(grep -c right "$work/hold5.log")
    touch "$share/stop-host"
    wait_for test -s "$share/host-stopped" || return 1
    cat "$share/host-stopped"
    echo go >&"${lines[5]}"
    "$walk" walk >"$work/walk.log" 2>&1 &
    newcomer=$!
    wait_for more_right 5 "$before" || status=1
    [[ -e $share/host-continued ]] || { echo "it computed on a stopped host"; status=1; }
    wait "$newcomer" || status=1
    cat "$work/walk.log"
    exec {lines[5]}>&-
    wait "${holders[5]}" || status=1
    return "$status"
}
host_stopped >"$work/host-stopped.log" 2>&1
result $? "a VM whose server and workers are stopped for five seconds: its clients notice nothing"

# ---- a VMM that is killed --------------------------------------------------------------------

"$exercise" lost >"$work/lost.log" 2>&1 &
wait_for grep -q ready "$work/lost.log"
sync
touch "$share/kill"
wait_for false # the VM ends in here
