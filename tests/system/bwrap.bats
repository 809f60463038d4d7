#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Our server under bubblewrap, as bwrap-server.sh starts it.

load system.bash

setup() {
    common_setup
    model_small
}

bwrap_start() {
    VTEST_ENV=("RENDER_SERVER_EXEC_PATH=$PWD/tests/system/bwrap-server.sh"
        "BWRAP_BACKEND=$(realpath "$OUT/backend")")
    server_start
}

@test "bwrap: devices and tokens as natively" {
    bwrap_start
    all_as_natively
    # It was in there: another mount namespace than ours, and of the file system nothing but what is above.
    hold_start
    local server root
    server=$(server_pids virgl_render_se) # as it is called there
    root=/proc/$server/root
    [[ $(readlink "/proc/$server/ns/mnt") != "$(readlink /proc/self/ns/mnt)" ]]
    [[ $(readlink "/proc/$server/ns/user") != "$(readlink /proc/self/ns/user)" ]]
    [[ ! -e $root/etc && ! -e $root/run && ! -e $root/tmp && -e $root/usr/libexec/virgl_render_server ]]
    [[ $(readlink "/proc/$server/exe") == */apir-render-server ]]
    grep -q '^CapEff:\s*0000000000000000$' "/proc/$server/status"
    # What a worker does about a guest that has taken it over, all that needs no user namespace.
    local worker
    worker=$(workers)
    grep -q '^NoNewPrivs:\s*1$' "/proc/$worker/status"
    grep -q '^Seccomp:\s*2$' "/proc/$worker/status"
    echo go >&"$TALK"
    exec {TALK}>&-
    wait_until 20 gone "$JOB"
}

@test "bwrap: the end of the client ends all of it" {
    bwrap_start
    hold_start
    local pid pids
    mapfile -t pids < <(below "$VTEST_PID")
    [[ ${#pids[@]} -ge 3 ]]
    kill -KILL "$JOB"
    wait_until 20 n_workers_is 0
    vtest_stop
    for pid in "${pids[@]}"; do
        wait_until 10 gone "$pid"
    done
}

@test "bwrap: a context that is not ours is refused with one line, the server lives" {
    bwrap_start
    VK_DRIVER_FILES=$(ls /usr/share/vulkan/icd.d/virtio_icd*.json)
    export VK_DRIVER_FILES
    run -0 --separate-stderr remote "$EXERCISE" list
    VN_DEBUG=vtest VTEST_SOCKET_NAME=$VTEST_SOCKET timeout "$(patience 60)" vulkaninfo --summary >"$T/venus" 2>&1 || :
    grep -q 'stock render server /usr/libexec/virgl_render_server: is configured to be this very program' "$VTEST_LOG"
    exercise compute
}
