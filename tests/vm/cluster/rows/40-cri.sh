# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# containerd's CRI, asked as a kubelet asks: docs/deploy/cri/ has the requests.

POD=docs/deploy/cri/pod.json
CONTAINER=docs/deploy/cri/container.json
run_pod() { PYTHONPATH=/mnt/share/cri "${LIMIT[@]}" python3 tests/vm/cluster/cri.py /run/containerd/containerd.sock "$@"; }

row cri-host0 host+cri 'CDI_devices names virtgpu/apir=host0: on APIR0'
row_cri_host0() {
    observe run_pod "$POD" "$CONTAINER"
    bench_on_apir
    hook_placed
}

row cri-gpu0 cri 'in a VM, virtgpu/apir=gpu0: on APIR0'
row_cri_gpu0() {
    jq '.CDI_devices[0].name = "virtgpu/apir=gpu0"' "$CONTAINER" >"$work/container.json"
    observe run_pod "$POD" "$work/container.json"
    bench_on_apir
    hook_placed
}

row cri-without cri 'no CDI_devices: no APIR0, and no socket or node'
row_cri_without() {
    local rc=0
    jq 'del(.CDI_devices)' "$CONTAINER" >"$work/container.json"
    run_pod "$POD" "$work/container.json" >"$work/out" 2>"$work/err" || rc=$?
    cat "$work/out" "$work/err"
    [[ $rc -ne 0 ]] || die 'it has not failed'
    grep -q 'invalid device: APIR0' "$work/err" || die 'it has failed of something else'
    jq 'del(.CDI_devices) | .command = ["sh", "-c", "ls -d /dev/dri /run/apir /usr/lib/apir"] | .args = []' "$CONTAINER" \
        >"$work/container.json"
    ! run_pod "$POD" "$work/container.json" >"$work/out" 2>"$work/err" || die 'they are there'
    [[ ! -s $work/out ]] || die "there is $(<"$work/out")"
}

row cri-unknown cri 'a device that no spec has: the container is not made, and the error names it'
row_cri_unknown() {
    jq '.CDI_devices[0].name = "virtgpu/apir=gpu77"' "$CONTAINER" >"$work/container.json"
    ! run_pod "$POD" "$work/container.json" >"$work/out" 2>"$work/err" || die 'it has run'
    cat "$work/err"
    grep -q 'virtgpu/apir=gpu77' "$work/err" || die 'the error does not name it'
}
