# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # lib.sh and row.sh share variables
#
# What programs see that an engine starts later (exec, health checks), in containers that change
# their folders, and in images that are made of them.

# A server with two devices on this machine, and a spec of the class "two".
two_devices() {
    at_end "kill \$TWO_PID; rm -rf /run/two /etc/cdi/two.json"
    mkdir -m 755 /run/two
    echo '{"threads": 1, "devices": ["CPU", "Vulkan0"]}' >"$work/two.json"
    start two env APIR_CONFIG="$work/two.json" GGML_VK_VISIBLE_DEVICES=0 LP_NUM_THREADS=1 \
        VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json apir host serve --socket-dir /run/two </dev/null
    TWO_PID=$!
    wait_for test -S /run/two/apir.sock
    apir cdi generate --host-socket /run/two --class two --output /etc/cdi/two.json
    [[ $(jq -c '[.devices[].name | select(startswith("host"))]' /etc/cdi/two.json) == '["host0","host0-0","host0-1"]' ]]
}

# Our devices, of what CMD... prints, without their memory.
devices_of() { "$@" 2>"$work/devices.err" | sed -nE 's/^ *(APIR[0-9]+: .*) \([0-9]+ MiB.*/\1/p'; }
same_devices() { # WHAT EXPECTED CMD...
    local seen
    seen=$(devices_of "${@:3}")
    echo "$1: ${seen//$'\n'/, }"
    [[ $seen == "$2" ]] || die "$1 sees: ${seen//$'\n'/, }, and not: ${2//$'\n'/, }"
}

# chosen ENGINE: each choice of the two, in run and exec, and after a restart with other numbers.
chosen() {
    local engine=$1 given d options cpu gpu expected
    two_devices
    at_end "$engine rm -f given >/dev/null 2>&1"
    cpu=$(devices_of "${LIMIT[@]}" "$engine" run --rm --network=host --device virtgpu/two=host0-0 localhost/llama llama-bench --list-devices)
    gpu=$(devices_of "${LIMIT[@]}" "$engine" run --rm --network=host --device virtgpu/two=host0-1 localhost/llama llama-bench --list-devices)
    [[ $cpu == 'APIR0: '* && $gpu == 'APIR0: '*llvmpipe* && $cpu != *$'\n'* && $gpu != *$'\n'* ]] || die "run: $cpu | $gpu"
    for given in host0 host0-0 host0-1 'host0-1 host0-0'; do
        case $given in
        host0-0) expected=$cpu ;;
        host0-1) expected=$gpu ;;
        *) expected=$cpu$'\n'APIR1${gpu#APIR0} ;;
        esac
        options=()
        for d in $given; do options+=(--device "virtgpu/two=$d"); done
        "${LIMIT[@]}" "$engine" run -d --name given --network=host "${options[@]}" localhost/llama sleep 300 </dev/null
        same_devices "exec, $given" "$expected" "${LIMIT[@]}" "$engine" exec given llama-bench --list-devices
        same_devices "env -i, $given" "$expected" "${LIMIT[@]}" "$engine" exec given \
            env -i PATH=/usr/bin llama-bench --list-devices
        [[ $given == host0-1 ]] || "$engine" rm -f given >/dev/null
        [[ $given != host0-1 ]] || {
            # The numbers change places. The container that runs keeps what it has, until it starts anew.
            sed -i 's/host0-0/host0-9/g; s/host0-1/host0-0/g; s/host0-9/host0-1/g; s/APIR_DEVICE_10000/APIR_DEVICE_9/;
                s/APIR_DEVICE_10001/APIR_DEVICE_10000/; s/APIR_DEVICE_9/APIR_DEVICE_10001/' /etc/cdi/two.json
            apir cdi generate --host-socket /run/two --class two --output /etc/cdi/two.json
            same_devices 'exec, renumbered' "$gpu" "${LIMIT[@]}" "$engine" exec given llama-bench --list-devices
            "${LIMIT[@]}" "$engine" restart -t 0 given
            same_devices 'exec, started again' "$cpu" "${LIMIT[@]}" "$engine" exec given llama-bench --list-devices
            "$engine" rm -f given >/dev/null
            rm /etc/cdi/two.json
            apir cdi generate --host-socket /run/two --class two --output /etc/cdi/two.json
        }
    done
}
row podman-chosen - 'podman: the devices that were given, in run and exec, with other numbers after a restart' 400
row_podman_chosen() { chosen podman; }
row docker-chosen docker 'docker: the same' 400
row_docker_chosen() { chosen docker; }

# What entry points do to a folder of their image, and the device then.
BACKENDS_DIR=/usr/lib/x86_64-linux-gnu/ggml/backends0
entry_points() { # CMD...: up to the image
    local entry bench=$BENCH
    for entry in 'chown -R 123:123 $F' 'chmod -R u=rwX,go=rX $F' 'find $F ! -user 123 -exec chown 123 {} +' \
        'cp -a $F /tmp/copy && rm -rf $F && mv /tmp/copy $F' 'for f in $F/*; do mv $f $f.x && mv $f.x $f; done'; do
        echo "$entry"
        BENCH="F=$BACKENDS_DIR; $entry && $bench" computes "$@"
    done
}
row podman-entry-points - 'podman: chown -R, chmod -R, find -exec chown, rm -rf, mv over the folder of the plug-in' 600
row_podman_entry_points() {
    entry_points run_podman "${DEVICE[@]}" localhost/llama
    entry_points run_podman --userns=auto "${DEVICE[@]}" localhost/llama
}
row docker-entry-points docker 'docker: the same' 400
row_docker_entry_points() { entry_points run_docker "${DEVICE[@]}" localhost/llama; }
row rootless-entry-points rootless 'podman rootless: the same' 400
row_rootless_entry_points() { entry_points run_rootless "${DEVICE[@]}" localhost/llama; }
row ctr-entry-points containerd 'ctr: the same' 400
row_ctr_entry_points() {
    ctr_once() { run_ctr "${DEVICE[@]}" "$IMAGE" "entry-$RANDOM" "$@"; }
    entry_points ctr_once
}

row podman-commit - 'an image of podman commit: on its CPU and silent without the device, on APIR0 with it'
row_podman_commit() {
    at_end 'podman rm --ignore -f -t 0 first >/dev/null; podman rmi --ignore -f committed >/dev/null'
    "${LIMIT[@]}" podman run --name first --network=host "${DEVICE[@]}" localhost/llama true </dev/null
    podman commit --quiet first committed
    observe run_podman localhost/committed sh -c "$BENCH_ANY"
    computed_on CPU
    ! grep -E 'APIR[0-9]|^apir:' "$last/err" || die 'it is not silent'
    computes run_podman "${DEVICE[@]}" localhost/committed
    hook_placed
    "${LIMIT[@]}" podman run -d --name second --network=host -v /mnt/models:/models:ro "${DEVICE[@]}" \
        localhost/committed sleep 300 </dev/null
    at_end 'podman rm --ignore -f -t 0 second >/dev/null'
    computes "${LIMIT[@]}" podman exec second
}

row podman-build-device - 'podman build --device, isolation oci and chroot: a RUN lists APIR0'
row_podman_build_device() {
    at_end 'podman rmi --ignore -f built >/dev/null'
    printf 'FROM localhost/llama\nRUN llama-bench --list-devices\n' >"$work/Containerfile"
    for isolation in oci chroot; do
        "${LIMIT[@]}" podman build --no-cache --isolation=$isolation --network=host "${DEVICE[@]}" -t built "$work" \
            >"$work/build.log" 2>&1 </dev/null || die "$(tail -n 1 "$work/build.log")"
        cat "$work/build.log"
        grep -q '^ *APIR0: ' "$work/build.log" || die "$isolation: no APIR0"
    done
    # What the build has left says nothing, either.
    observe run_podman localhost/built sh -c "$BENCH_ANY"
    computed_on CPU
    ! grep -E 'APIR[0-9]|^apir:' "$last/err" || die 'it is not silent'
}

row podman-volume-exec - 'llama.cpp on volumes: run computes, exec on its CPU, and with the two -e of the log on APIR0'
row_podman_volume_exec() {
    at_end 'podman rm --ignore -f -t 0 exec >/dev/null; podman volume rm -f ggml-lib ggml-bin >/dev/null'
    # A new volume has what the image has there.
    local options=(--network=host -v /mnt/models:/models:ro -v "ggml-lib:${BACKENDS_DIR%/ggml/*}" -v ggml-bin:/usr/bin
        "${DEVICE[@]}")
    computes "${LIMIT[@]}" podman run --rm "${options[@]}" localhost/llama
    hook_says 'only the variable GGML_BACKEND_PATH leads to the plug-in; exec and health checks'
    read -ra extra < <(hook_log | sed -n 's/.* give run, or exec, \(-e .*\)/\1/p' | head -n 1)
    [[ ${#extra[@]} -eq 4 ]] || die "not two -e: ${extra[*]}"
    "${LIMIT[@]}" podman run -d --name exec "${options[@]}" localhost/llama sleep 300 </dev/null
    apir doctor --container exec | tee "$work/doctor"
    grep -q '^WARN  exec' "$work/doctor" || die 'doctor does not say it'
    grep -qF -- "${extra[*]}" "$work/doctor" || die "doctor does not say: ${extra[*]}"
    observe "${LIMIT[@]}" podman exec exec sh -c "$BENCH_ANY"
    computed_on CPU
    computes "${LIMIT[@]}" podman exec "${extra[@]}" exec
    podman rm -f -t 0 exec >/dev/null
    "${LIMIT[@]}" podman run -d --name exec "${options[@]}" "${extra[@]}" localhost/llama sleep 300 </dev/null
    computes "${LIMIT[@]}" podman exec exec
}

# doctor_says STATUS NAME
doctor_says() {
    local rc=0
    apir doctor --container "$2" >"$work/doctor" || rc=$?
    cat "$work/doctor"
    grep -q "^$1  device" "$work/doctor" || die "apir doctor --container $2 does not say $1"
    [[ $1 == PASS && $rc -eq 0 || $1 == FAIL && $rc -eq 1 ]] || die "its exit code is $rc"
}

row podman-device-lost - 'pods, kube play without a name, clone and generate kube: apir doctor --container sees what they lose' 400
row_podman_device_lost() {
    at_end 'podman pod rm --ignore -f -t 0 apirpod >/dev/null; podman rm --ignore -f -t 0 kept cloned >/dev/null'
    "${LIMIT[@]}" podman run -d --name kept --network=host "${DEVICE[@]}" localhost/llama sleep 300 </dev/null
    doctor_says PASS kept
    grep -q 'gpu0' "$work/doctor" || die 'the device is not named'
    grep -q '^PASS  exec' "$work/doctor" || die 'the place is not found'
    "${LIMIT[@]}" podman container clone --run --name cloned kept </dev/null || :
    doctor_says FAIL cloned
    podman generate kube kept >"$work/kept.yaml"
    podman rm -f -t 0 kept cloned >/dev/null
    "${LIMIT[@]}" podman kube play --network=host "$work/kept.yaml"
    doctor_says FAIL kept-pod-kept
    podman pod rm -f -t 0 kept-pod >/dev/null
    cat >"$work/named.yaml" <<YAML
apiVersion: v1
kind: Pod
metadata: {name: named}
spec:
  containers:
  - {name: c, image: localhost/llama, command: [sleep, "300"], resources: {limits: {virtgpu/apir: 1}}}
YAML
    "${LIMIT[@]}" podman kube play --network=host "$work/named.yaml"
    doctor_says FAIL named-c
    podman pod rm -f -t 0 named >/dev/null
    "${LIMIT[@]}" podman pod create --name apirpod "${DEVICE[@]}"
    "${LIMIT[@]}" podman run -d --pod apirpod --name inpod localhost/llama sleep 300 </dev/null
    doctor_says FAIL inpod
    podman pod rm -f -t 0 apirpod >/dev/null
    ! apir doctor --container inpod || die 'it passes what does not run'
}

# health ENGINE: what a health check sees.
health() {
    at_end "$1 rm -f health >/dev/null 2>&1"
    "${LIMIT[@]}" "$1" run -d --name health --network=host "${DEVICE[@]}" --health-interval 1s --health-timeout 60s \
        --health-cmd 'test -e /tmp/seen || llama-bench --list-devices >/tmp/seen.new 2>&1; mv /tmp/seen.new /tmp/seen; true' \
        localhost/llama sleep 300 </dev/null
    # Without systemd podman has no timer for it.
    [[ $1 != podman ]] || "${LIMIT[@]}" podman healthcheck run health
    WAIT_TENTHS=600 wait_for "$1" exec health test -e /tmp/seen
    "$1" exec health cat /tmp/seen | tee "$work/seen"
    grep -q '^ *APIR0: ' "$work/seen" || die 'the health check does not see APIR0'
}
row podman-health - 'podman: a health check sees APIR0'
row_podman_health() { health podman; }
row docker-health docker 'docker: the same'
row_docker_health() { health docker; }

row podman-spec-gone - 'the spec goes: exec is as before, a restart fails and says so, and with the spec it computes'
row_podman_spec_gone() {
    local rc=0
    at_end 'podman rm --ignore -f -t 0 gone >/dev/null; [[ ! -e $work/apir.json ]] || mv "$work/apir.json" /etc/cdi/'
    "${LIMIT[@]}" podman run -d --name gone --network=host -v /mnt/models:/models:ro "${DEVICE[@]}" \
        localhost/llama sleep 300 </dev/null
    mv /etc/cdi/apir.json "$work/"
    computes "${LIMIT[@]}" podman exec gone
    "${LIMIT[@]}" podman restart -t 0 gone >"$work/restart" 2>&1 || rc=$?
    cat "$work/restart"
    [[ $rc -ne 0 ]] && grep -q 'unresolvable CDI devices' "$work/restart" || die 'it starts without its device'
    mv "$work/apir.json" /etc/cdi/
    "${LIMIT[@]}" podman start gone
    computes "${LIMIT[@]}" podman exec gone
}
