# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables
#
# podman as root.

row control - 'no --device: the same check refuses what the CPU computes'
row_control() {
    ! (computes run_podman localhost/llama) || die 'a container without the device has passed'
    # Not for want of a container that runs: it is the device that is missing.
    observe run_podman localhost/llama sh -c "$BENCH_ANY"
    computed_on CPU
    ! (on_apir) || die 'a result of the CPU has passed'
}

placed podman-crun - 'podman, crun' 'run_podman --runtime crun "${DEVICE[@]}" localhost/llama'
placed podman-runc - 'podman, runc' 'run_podman --runtime runc "${DEVICE[@]}" localhost/llama'

row podman-empty-env - 'a program that starts with an empty environment'
row_podman_empty_env() {
    BENCH=$BENCH_BARE computes run_podman "${DEVICE[@]}" localhost/llama
}

row podman-no-hook - 'a spec without the hook (generate --no-hook): the variable is enough'
row_podman_no_hook() {
    at_end 'rm -f /etc/cdi/bare.json'
    apir cdi generate --no-hook --class bare --output /etc/cdi/bare.json
    computes run_podman --device virtgpu/bare=gpu0 localhost/llama
    [[ -z $(hook_log) ]] || die 'the hook ran'
}

placed podman-hooksd - 'no CDI: the precreate hook and --annotation apir.device=gpu0' 'run_precreate localhost/llama'
placed podman-hooksd-runc - 'no CDI: the precreate hook and the annotation, runc' \
    'run_precreate --runtime runc localhost/llama'

# The node is mounted by createRuntime. OPTION...
on_create_runtime() {
    PODMAN+=(--hooks-dir "$HOOKS_DIR")
    computes run_podman "$@" "${ANNOTATION[@]}" "${RULE[@]}" localhost/llama
    hook_says "mounted $NODE"
}

row podman-create-runtime - 'no CDI, no precreate: createRuntime and the annotation, a rule for the device'
row_podman_create_runtime() { on_create_runtime; }

row podman-create-runtime-runc - 'createRuntime and the annotation, a rule for the device, runc'
row_podman_create_runtime_runc() { on_create_runtime --runtime runc; }

row podman-create-runtime-userns - 'createRuntime and the annotation, a rule for the device, --userns=auto'
row_podman_create_runtime_userns() { on_create_runtime --userns=auto; }

row podman-create-runtime-denied - "createRuntime without the device's rule: on its CPU, and one line names the flag"
row_podman_create_runtime_denied() {
    PODMAN+=(--hooks-dir "$HOOKS_DIR")
    for runtime in crun runc; do
        observe run_podman --runtime $runtime "${ANNOTATION[@]}" localhost/llama sh -c "$BENCH_ANY"
        computed_on CPU
        hook_says "the container's cgroup forbids $NODE.*add --device $NODE"
        log_mark
    done
}

row podman-both-hooks - 'both folders of hooks and CDI, everything asked for: once'
row_podman_both_hooks() {
    PODMAN=(podman --hooks-dir "$HOOKS_DIR" --hooks-dir "$PRECREATE_DIR")
    computes run_podman "${ANNOTATION[@]}" localhost/llama
    hook_placed
    PODMAN=(podman)
    computes run_podman "${ANNOTATION[@]}" "${DEVICE[@]}" localhost/llama
    hook_placed
    [[ $(hook_log | grep -c 'placed as') -eq 2 ]] || die 'not placed once per container'
}

row podman-build - 'podman build as root, after apir engine configure podman'
row_podman_build() {
    at_end 'podman rmi --ignore -f built >/dev/null; apir engine reset podman'
    apir engine configure podman
    printf 'FROM localhost/llama\nRUN echo built >/built\n' >"$work/Containerfile"
    "${LIMIT[@]}" podman build --network=host -t built "$work"
}

computing podman-userns-auto - '--userns=auto, crun' 'run_podman --userns=auto "${DEVICE[@]}" localhost/llama'
computing podman-userns-auto-runc - '--userns=auto, runc' \
    'run_podman --runtime runc --userns=auto "${DEVICE[@]}" localhost/llama'
computing podman-uidmap - '--uidmap and --gidmap of the caller, crun' \
    'run_podman --uidmap 0:300000:65536 --gidmap 0:400000:65536 "${DEVICE[@]}" localhost/llama'
computing podman-read-only - '--read-only' 'run_podman --read-only "${DEVICE[@]}" localhost/llama'
computing podman-read-only-runc - '--read-only, runc' \
    'run_podman --runtime runc --read-only "${DEVICE[@]}" localhost/llama'
computing podman-cap-drop - '--cap-drop=all --security-opt no-new-privileges' \
    'run_podman --cap-drop=all --security-opt no-new-privileges "${DEVICE[@]}" localhost/llama'

row podman-ramalama - "ramalama's options: label=disable, cap-drop, no-new-privileges, HOME=/tmp, --init"
row_podman_ramalama() {
    computes run_podman --security-opt=label=disable --cap-drop=all --security-opt=no-new-privileges \
        --env HOME=/tmp --init "${DEVICE[@]}" localhost/llama
}

# on_shared OPTION... IMAGE: while a container with mounts shared with the host runs,
# nothing of the plug-in is seen in the host's mounts; nothing at all when it has ended.
on_shared() {
    at_end 'podman rm --ignore -f -t 0 shared >/dev/null'
    host_mounts >"$work/before"
    "${LIMIT[@]}" podman run -d --name shared --network=host -v /mnt/models:/models:ro "${DEVICE[@]}" "$@" \
        sleep 60 >/dev/null </dev/null
    observe podman exec shared sh -c "$BENCH"
    host_mounts >"$work/during"
    podman exec shared cat /proc/self/mountinfo >"$work/inside"
    podman rm -f -t 0 shared >/dev/null
    host_mounts >"$work/after"
    on_apir
    # The host's mount is private, and so the hook's must be.
    grep libggml- "$work/inside"
    ! grep libggml- "$work/inside" | grep -q 'shared:\|master:' || die 'the mount of the plug-in is no private one'
    comm -13 "$work/before" "$work/during" | tee "$work/new"
    ! grep libggml- "$work/new" || die 'mounts of the plug-in are seen on the host'
    [[ -z $(comm -13 "$work/before" "$work/after" | tee /dev/stderr) ]] || die 'mounts stay behind'
}

shared_tmpfs() {
    at_end 'umount -R /mnt/shared'
    mkdir -p /mnt/shared
    mount -t tmpfs tmpfs /mnt/shared
    mount --make-shared /mnt/shared
}

row podman-shared-volume - 'a volume that is shared with the host: nothing leaks'
row_podman_shared_volume() {
    shared_tmpfs
    on_shared -v /mnt/shared:/shared:shared localhost/llama
    hook_placed
}

row podman-shared-rootfs - '--rootfs on a shared mount: nothing leaks'
row_podman_shared_rootfs() {
    shared_tmpfs
    at_end 'podman rm --ignore -f -t 0 root >/dev/null'
    podman create --name root localhost/llama >/dev/null
    mkdir /mnt/shared/root
    mount --bind "$(podman mount root)" /mnt/shared/root
    mount --make-shared /mnt/shared/root
    on_shared --rootfs /mnt/shared/root
    hook_log
}

absent cri-o 'CRI-O' 'not in Debian'
absent nerdctl 'nerdctl' 'not in Debian'
absent kubelet "containerd's CRI, from Kubernetes" 'no crictl in Debian'
absent docker-rootless 'docker, rootless' "rootlesskit is not in the build root"
absent selinux 'SELinux enforcing' 'no policy in the build root'
