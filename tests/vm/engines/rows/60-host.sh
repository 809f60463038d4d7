# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables
#
# host0: no VM between container and worker. The machine is the test VM all the same,
# whose own CPU computes here; the container gets no device node.

row host0-podman host 'podman, --device virtgpu/apir=host0'
row_host0_podman() {
    computes run_podman --device virtgpu/apir=host0 localhost/llama
    run_podman --device virtgpu/apir=host0 localhost/llama sh -c '! ls /dev/dri' || die 'there is a node'
    hook_placed
    apir top --once --json | jq -e '.servers | length == 1' || die 'apir top does not see the server'
}

computing host0-docker docker+host 'docker, --device virtgpu/apir=host0' \
    'run_docker --device virtgpu/apir=host0 localhost/llama'
computing host0-rootless rootless+host 'podman rootless, the user is in the group of the socket, keep-groups' \
    'run_rootless --group-add keep-groups --device virtgpu/apir=host0 localhost/llama'
