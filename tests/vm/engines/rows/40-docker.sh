# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables

row docker docker 'docker, which lists the devices of the spec'
row_docker() {
    docker info | tee "$work/info"
    grep -q 'cdi: virtgpu/apir=gpu0' "$work/info"
    computes run_docker "${DEVICE[@]}" localhost/llama
    hook_placed
}

computing docker-read-only docker '--read-only --cap-drop=all --security-opt no-new-privileges' \
    'run_docker --read-only --cap-drop=all --security-opt no-new-privileges "${DEVICE[@]}" localhost/llama'

row docker-user docker '--user, node 0660, --group-add of its group'
row_docker_user() {
    node_mode 0660
    computes run_docker --user 4321:4321 --group-add "$(stat -c %g "$NODE")" "${DEVICE[@]}" localhost/llama
}

row docker-by-hand docker 'no CDI: the variables, the node and the plug-in by hand'
row_docker_by_hand() {
    by_hand
    computes run_docker "${BY_HAND[@]}" localhost/llama
    [[ -z $(hook_log) ]] || die 'the hook ran'
}

row docker-empty-env docker 'a program that starts with an empty environment'
row_docker_empty_env() {
    BENCH=$BENCH_BARE computes run_docker "${DEVICE[@]}" localhost/llama
}
