#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# NVIDIA's MPS behind the workers: its control daemon's life, and what clients are told. The daemon is NVIDIA's own,
# which runs without a GPU; what MPS does on one is docs/sharing.md's. Only a fatal fault of a GPU, which it cannot have
# here, is a stand-in's.

load system.bash

DAEMON=${APIR_MPS_CONTROL:-/usr/bin/nvidia-cuda-mps-control}

setup() {
    common_setup
    mkdir "$T/run"
    VTEST_ENV=(APIR_LOG=info "XDG_RUNTIME_DIR=$T/run")
    SYSTEM_TRANSPORT=unix # whose server does not end with its last client
}

# mps MODE [KEYS]: a server with that setting.
mps() {
    VTEST_CONFIG="{\"threads\": 1, \"mps\": \"$1\"${2:+, $2}}"
    server_start
}
real() {
    [[ -x $DAEMON ]] || { [[ -z ${CI-} ]]; skip "no nvidia-cuda-mps-control here"; }
    mps "$1" "\"mps_control\": \"$DAEMON\"${2:+, $2}"
    wait_until 20 listens
}
folder() { compgen -G "$T/run/apir-mps-*"; }
listens() { [[ -s $(folder)/nvidia-cuda-mps-control.pid ]]; }
daemon() { server_pids nvidia-cuda-mps; }
another_listens() { listens && [[ -n $(daemon) && $(daemon) != "$1" ]]; }
in_log() { grep -q "$@" "$VTEST_LOG"; }

@test "mps: a daemon in a folder that is closed to others; both end with the server" {
    real auto
    [[ $(stat -c %a "$(folder)") == 700 ]]
    remote "$EXERCISE" compute
    in_log 'MPS is for devices of CUDA, of which there is none here'
    local pid server=$VTEST_PID
    pid=$(daemon)
    [[ -n $pid ]]
    kill -TERM "$server"
    wait_until 20 gone "$server"
    wait_until 20 gone "$pid"
    refute folder
}

@test "mps: a worker's environment is the host's" {
    export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100
    real auto '"context_gpu_percent": 30'
    hold_start
    tr '\0' '\n' <"/proc/$(workers)/environ" | grep CUDA_ | sort >"$T/environ"
    diff - "$T/environ" <<<"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30
CUDA_MPS_PIPE_DIRECTORY=$(folder)"
}

@test "mps: a daemon that is killed comes back, and who does not compute through it goes on" {
    real auto
    hold_start
    local pid
    pid=$(daemon)
    kill -KILL "$pid"
    wait_until 20 another_listens "$pid"
    in_log 'control daemon ended with signal 9'
    echo >&"$TALK"
    wait_until 60 grep -q right "$T/hold.out"
    refute in_log 'are lost'
    remote "$EXERCISE" compute
}

@test "mps: the server killed: the daemon ends, and the next server removes its folder" {
    real auto
    local pid left other
    pid=$(daemon) left=$(folder)
    # One that a living server has, and one of another user's.
    mkdir -m 700 "$T/run/apir-mps-living" "$T/run/apir-mps-other"
    touch "$T"/run/apir-mps-{living,other}/apir.lock
    exec {other}<"$T/run/apir-mps-living/apir.lock"
    flock "$other"
    [[ $(id -u) -ne 0 ]] || chown 1 "$T/run/apir-mps-other"
    kill -KILL "$VTEST_PID"
    wait_until 20 gone "$pid"
    [[ -d $left ]]
    vtest_stop || :
    mps auto "\"mps_control\": \"$DAEMON\""
    [[ ! -e $left ]]
    [[ -d $T/run/apir-mps-living && ($(id -u) -ne 0 || -d $T/run/apir-mps-other) ]]
    exec {other}<&-
}

@test "mps: required, and the host has no device of CUDA" {
    real required
    run ! exercise compute APIR0
    grep -q 'the host computes through MPS alone, which is for devices of CUDA: it offers none' "$T/exercise.err"
}

@test "mps: no such program" {
    mps auto '"mps_control": "/nonexistent/mps"'
    in_log 'programs compute without MPS: mps_control: /nonexistent/mps: No such file or directory'
    remote "$EXERCISE" compute
    vtest_stop
    mps required '"mps_control": "/nonexistent/mps"'
    in_log 'no MPS, which the configuration requires: mps_control: /nonexistent/mps: No such file'
    run ! exercise compute APIR0
    grep -q 'the host computes through MPS alone, which it lacks; its log says why' "$T/exercise.err"
    refute folder
}

@test "mps: a program that ends at once is started again, and clients do not wait for ever" {
    mps required '"mps_control": "/bin/false"'
    wait_until 20 in_log 'ended with status 1.* started again in 1000 ms'
    run ! exercise compute APIR0
    grep -q 'the host computes through MPS alone, and its daemon is not there' "$T/exercise.err"
}

# A daemon which says what the real one says of a fault, line for line, once it is told to.
stand_in() {
    cat >"$T/stand-in" <<'END'
#!/bin/bash
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
mkfifo tell
echo "[2026-11-29 03:20:10.100 Control     8] Starting new server 9 for user 1234"
echo "[2026-11-29 03:20:10.200 Server      9] Client {PID: 7, Context ID: 1} connected"
echo 8 >nvidia-cuda-mps-control.pid
exec {tell}<>tell
while read -r line <&"$tell"; do echo "$line"; done
END
    chmod +x "$T/stand-in"
}

@test "mps: a fatal fault of one ends all with a reason, and the next one computes" {
    stand_in
    mps auto "\"mps_control\": \"$T/stand-in\", \"spare_workers\": 1, \"shader_seconds\": 0"
    wait_until 20 listens
    hold_start
    local talk=$TALK
    remote_talk other "$EXERCISE" hold
    wait_until 60 grep -q ready "$T/other.out"
    wait_until 60 n_spares_is 1
    local before
    before=$(workers; spares)
    echo "[2026-11-29 03:20:10.867 Server     9] Client {PID: 7, Context: 1} encountered a fatal GPU error." \
        >"$(folder)/tell"
    wait_until 20 in_log 'contexts are lost'
    echo >&"$talk"
    echo >&"$TALK"
    wait_until 20 grep -q 'is lost: a program that shares the GPU with it through MPS had a fatal fault' "$T/hold.err"
    wait_until 20 grep -q 'is lost: a program that shares the GPU' "$T/other.err"
    local pid
    for pid in $before; do wait_until 20 gone "$pid"; done
    in_log '2 contexts are lost: a program that shares'
    remote "$EXERCISE" compute
    # What has ended by then is not the end of who came later.
    echo "[2026-11-29 03:20:16.639 Server     9] Client {PID: 7, Context ID: 1} exiting. Number of active client contexts is 0." \
        >"$(folder)/tell"
    echo "[2026-11-29 03:20:16.828 Control     8] Server 9 exited with status 0" >"$(folder)/tell"
    wait_until 20 in_log 'exited with status 0'
    refute in_log 'are lost: the GPU'
}

# ---- a group --------------------------------------------------------------------------

# A second server beside the first, with the same folder for groups; its clients: "${SECOND[@]}".
second() { # KEYS
    printf '{"threads": 1, "spare_workers": 0, "shader_seconds": 0, %s}\n' "$1" >"$T/second.json"
    env "${VTEST_ENV[@]}" APIR_CONFIG="$T/second.json" "$OUT/backend/apir-render-server" --listen "$T/second.sock" \
        >"$T/second.log" 2>&1 </dev/null 3>&- &
    SECOND_PID=$!
    JOBS_STARTED+=("$SECOND_PID")
    wait_until 20 grep -q listening "$T/second.log"
    SECOND=("${REMOTE[@]}" "APIR_TRANSPORT=unix:$T/second.sock")
}
group_listens() { [[ -s $T/run/apir-group-pair/nvidia-cuda-mps-control.pid ]]; }
second_says() { grep -q "$@" "$T/second.log"; }

@test "mps: two servers of a group have one daemon, and the other's when its owner ends" {
    [[ -x $DAEMON ]] || { [[ -z ${CI-} ]]; skip "no nvidia-cuda-mps-control here"; }
    local keys="\"mps_control\": \"$DAEMON\", \"mps_group\": \"pair\"" first
    mps auto "$keys"
    wait_until 20 group_listens
    second "\"mps\": \"auto\", $keys"
    first=$(daemon)
    env "${SECOND[@]}" "$EXERCISE" compute
    remote "$EXERCISE" compute
    [[ $(daemon) == "$first" && -z $(below "$SECOND_PID") ]]
    kill -KILL "$VTEST_PID"
    wait_until 20 gone "$first"
    # Its last sign is still there; the new one's comes after it has emptied the folder.
    wait_until 20 second_says 'Starting control daemon using socket'
    wait_until 20 group_listens
    [[ -n $(below "$SECOND_PID") ]]
    env "${SECOND[@]}" "$EXERCISE" compute
    # Who computes on a host without CUDA has lost nothing.
    refute second_says 'are lost'
}

@test "mps: a fault in one server of a group is told to the programs of the other" {
    stand_in
    local keys="\"mps_control\": \"$T/stand-in\", \"mps_group\": \"pair\""
    mps auto "$keys"
    wait_until 20 group_listens
    second "\"mps\": \"auto\", $keys"
    REMOTE=("${SECOND[@]}")
    hold_start
    echo "[2026-11-29 03:20:10.867 Server     9] Client {PID: 7, Context: 1} encountered a fatal GPU error." \
        >"$T/run/apir-group-pair/tell"
    wait_until 20 second_says '1 contexts are lost: a program that shares'
    echo >&"$TALK"
    wait_until 20 grep -q 'is lost: a program that shares the GPU' "$T/hold.err"
    remote "$EXERCISE" compute
    # What computes through it from now on is lost with the owner.
    hold_start
    echo "[2026-11-29 03:20:11.100 Server     9] Client {PID: 8, Context ID: 1} connected" >"$T/run/apir-group-pair/tell"
    wait_until 20 in_log 'PID: 8, Context ID: 1} connected'
    kill -KILL "$VTEST_PID"
    wait_until 20 second_says "1 contexts are lost: the GPU's MPS server has ended"
    remote "$EXERCISE" compute
}

@test "mps: a group's folder that is another user's is not used" {
    [[ $(id -u) -eq 0 ]] || skip "needs root"
    stand_in
    mkdir -m 700 "$T/run/apir-group-pair"
    chown 1 "$T/run/apir-group-pair"
    mps auto "\"mps_control\": \"$T/stand-in\", \"mps_group\": \"pair\""
    in_log "programs compute without MPS: $T/run/apir-group-pair is not this user's alone"
    remote "$EXERCISE" compute
}
