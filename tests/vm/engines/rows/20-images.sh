# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables
#
# Images that are not made for us, or against us. Each is built here from
# localhost/llama, without a network.

# build NAME: an image from the Containerfile on the standard input; $work is its folder.
build() {
    ! podman image exists "localhost/$1" || return 0
    mkdir -p "$work/context"
    cat >"$work/context/Containerfile"
    "${LIMIT[@]}" podman build --quiet --network=host --isolation=chroot --tag "localhost/$1" "$work/context"
}
context() {
    mkdir -p "$work/context"
    cp "$@" "$work/context/"
}

row image-user - 'USER in the image is none of root, node 0660'
row_image_user() {
    build user <<'FILE'
FROM localhost/llama
USER 4321:4321
FILE
    node_mode 0660
    computes run_podman "${DEVICE[@]}" localhost/user
}

row image-vulkan - 'ggml-vulkan and Mesa in the image: one device, APIR0'
row_image_vulkan() {
    # Without us, and asked to take a GPU of CPU type too, that image sees one.
    observe run_podman --device "$NODE" -e GGML_VK_VISIBLE_DEVICES=0 localhost/llama-vulkan \
        sh -c 'llama-bench --list-devices >&2'
    grep -Eq '^ *Vulkan0: ' "$last/err" || die 'it has no Vulkan'
    # The spec's variable wins over the same -e.
    BACKENDS=APIR,Vulkan computes run_podman "${DEVICE[@]}" -e GGML_VK_VISIBLE_DEVICES=0 localhost/llama-vulkan
}

row image-vulkan-empty-env - 'the same with an empty environment'
row_image_vulkan_empty_env() {
    BACKENDS=APIR,Vulkan BENCH=$BENCH_BARE computes run_podman "${DEVICE[@]}" localhost/llama-vulkan
}

row image-virtgpu - 'a libggml-virtgpu.so of its own that aborts when loaded: APIR0 once, no abort'
row_image_virtgpu() {
    context /mnt/share/lib/abort.so
    build virtgpu <<'FILE'
FROM localhost/llama
COPY abort.so /usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-virtgpu.so
FILE
    # It does abort where nobody is in its place: SIGSEGV, since process 1 of a
    # container is not to be had by SIGABRT.
    local rc=0
    run_podman localhost/virtgpu llama-bench --list-devices || rc=$?
    [[ $rc -eq 134 || $rc -eq 139 ]] || die "without us it ended with $rc, not by a signal"
    computes run_podman "${DEVICE[@]}" localhost/virtgpu
    BENCH=$BENCH_BARE computes run_podman "${DEVICE[@]}" localhost/virtgpu
}

row image-no-ggml - 'no ggml in the image: it starts, and the hook logs one line'
row_image_no_ggml() {
    context /bin/busybox
    build no-ggml <<'FILE'
FROM scratch
COPY busybox /bin/busybox
CMD ["/bin/busybox", "echo", "started"]
FILE
    [[ $(run_podman "${DEVICE[@]}" localhost/no-ggml) == started ]] || die 'it has not started'
    hook_log
    [[ $(hook_log | wc -l) -eq 1 ]] || die 'not one line'
    hook_says 'no ggml'
}

# Whatever loads the trap leaves /tmp/trap-marker in the root that it sees.
TRAPS=("LD_PRELOAD=/trap/trap.so ./trap/trap.so" "LD_AUDIT=/trap/trap.so:./trap/trap.so"
    LD_LIBRARY_PATH=/trap:./trap GCONV_PATH=/trap:./trap)

build_trap() {
    context /mnt/share/lib/trap.so
    {
        printf '%s\n' 'FROM localhost/llama' 'COPY trap.so /trap/trap.so' 'COPY trap.so /trap/gconv-modules.so'
        for variable in "${TRAPS[@]}"; do
            printf 'ENV %s="%s"\n' "${variable%%=*}" "${variable#*=}"
        done
    } | build trap
}

# run_hook DIR PROGRAM STAGE: a container of that image, which asks for the device,
# with this hook alone; it gets the image's environment, as from the runtimes of
# CVE-2025-23266.
run_hook() {
    mkdir "$1"
    jq -n --arg path "$2" --arg stage "$3" '{version: "1.0.0", when: {always: true}, stages: [$stage],
        hook: {path: $path, args: [$path, $stage], env: $ARGS.positional}}' --args "${TRAPS[@]}" >"$1/trap.json"
    "${LIMIT[@]}" podman --hooks-dir "$1" run --rm --runtime "$runtime" \
        --annotation apir.device=gpu0 localhost/trap true </dev/null
}

on_traps() { # RUNTIME
    local runtime=$1
    at_end 'rm -rf /trap /tmp/trap-marker'
    build_trap
    # On the host too, so that an absolute path would hit there.
    mkdir -p /trap
    cp /mnt/share/lib/trap.so /trap/
    # It works on the host: in a program that is linked as most are.
    run_hook "$work/true" /usr/bin/true createContainer
    grep -q 'loaded .*/true' /tmp/trap-marker || die 'the trap does not work in a hook'
    rm /tmp/trap-marker
    log_mark
    run_hook "$work/apir" /usr/libexec/apir/apir-hook createContainer
    hook_placed
    # And in the container: with the device, as everybody would run it.
    BENCH="${BENCH/exec /}; cat /tmp/trap-marker >&2" \
        computes run_podman --runtime "$runtime" "${DEVICE[@]}" localhost/trap
    for how in audit loaded; do
        grep -q "^$how .*/llama-bench" "$last/err" || die "the trap does not work in the container ($how)"
    done
    [[ ! -e /tmp/trap-marker ]] || die "on the host: $(paste -sd ';' /tmp/trap-marker)"
}

row image-trap - 'LD_PRELOAD, LD_AUDIT, LD_LIBRARY_PATH, GCONV_PATH traps in the image: not in the hook, crun' 300
row_image_trap() { on_traps crun; }

row image-trap-runc - 'the same with runc' 300
row_image_trap_runc() { on_traps runc; }

# node-llama-cpp, whose ggml lies beside an addon in node_modules, with nothing but
# what node itself needs.
if [[ -e /mnt/archives/node.tar ]]; then
    row image-node - 'node-llama-cpp with an empty environment: all layers on the device' 400
else
    absent image-node 'node-llama-cpp' 'not downloaded; tests/vm/engines/node/fetch.sh does that'
fi
row_image_node() {
    podman import --quiet --change 'WORKDIR /app' /mnt/archives/node.tar localhost/node >/dev/null
    LIMIT=(timeout --kill-after=5 250)
    observe run_podman "${DEVICE[@]}" localhost/node /usr/bin/env -i PATH=/usr/bin HOME=/tmp node complete.mjs
    jq -e '(.devices | length) == 1 and .layers == .of and (.text | length) > 0' "$last/out" >/dev/null ||
        die "not on the device: $(<"$last/out")"
    hook_says 'placed as /app/node_modules/'
}
