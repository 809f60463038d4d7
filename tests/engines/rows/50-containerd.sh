# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # row.sh and lib.sh set work and last

IMAGE=localhost/llama:latest

row ctr containerd 'containerd, ctr run --device virtgpu/apir=gpu0'
row_ctr() {
    computes run_ctr "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"
    hook_placed
}

row ctr-crun containerd 'ctr, crun as the runtime'
row_ctr_crun() {
    computes run_ctr --runc-binary crun "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"
    hook_placed
}

row ctr-userns containerd 'ctr --uidmap --gidmap'
row_ctr_userns() {
    computes run_ctr --uidmap 0:300000:65536 --gidmap 0:300000:65536 "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"
}

row ctr-read-only containerd 'ctr --read-only'
row_ctr_read_only() { computes run_ctr --read-only "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"; }

# A root that shares its mounts with the host: whatever the hook mounted there would
# be seen on the host.
row ctr-shared-root containerd 'ctr --rootfs-propagation shared: nothing leaks'
row_ctr_shared_root() {
    awk '{ print $5 }' /proc/self/mountinfo | sort >"$work/before"
    BENCH="${BENCH/exec /}; cat /proc/self/mountinfo >&2; sleep 0" computes run_ctr --rootfs-propagation shared \
        "${DEVICE[@]}" "$IMAGE" "bench-$BASHPID"
    grep libggml- "$last/err"
    awk '{ print $5 }' /proc/self/mountinfo | sort >"$work/after"
    hook_log
    [[ -z $(comm -13 "$work/before" "$work/after" | tee /dev/stderr) ]] || die 'mounts stay behind'
}
