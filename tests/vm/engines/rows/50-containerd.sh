# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables

IMAGE=localhost/llama:latest

placed ctr containerd 'containerd, ctr run --device virtgpu/apir=gpu0' \
    'run_ctr "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"'
placed ctr-crun containerd 'ctr, crun as the runtime' \
    'run_ctr --runc-binary crun "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"'
computing ctr-userns containerd 'ctr --uidmap --gidmap' \
    'run_ctr --uidmap 0:300000:65536 --gidmap 0:300000:65536 "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"'
computing ctr-read-only containerd 'ctr --read-only' \
    'run_ctr --read-only "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"'

# A root that shares its mounts with the host: whatever a hook mounts there too late
# or too early is seen on the host.
row ctr-shared-root containerd 'ctr --rootfs-propagation shared: nothing leaks'
row_ctr_shared_root() {
    local id=bench-$BASHPID
    at_end "ctr task kill -s KILL $id; ctr container rm $id"
    host_mounts >"$work/before"
    "${LIMIT[@]}" ctr run --mount type=bind,src=/mnt/models,dst=/models,options=rbind:ro --detach --rootfs-propagation shared "${DEVICE[@]}" "$IMAGE" "$id" sleep 300
    observe "${LIMIT[@]}" ctr task exec --exec-id bench "$id" sh -c "$BENCH"
    host_mounts >"$work/during"
    on_apir
    hook_placed
    comm -13 "$work/before" "$work/during" | tee "$work/new"
    ! grep libggml- "$work/new" || die 'mounts of the plug-in are seen on the host'
    ctr task kill -s KILL "$id"
    wait_for ctr container rm "$id"
    host_mounts >"$work/after"
    [[ -z $(comm -13 "$work/before" "$work/after" | tee /dev/stderr) ]] || die 'mounts stay behind'
}
