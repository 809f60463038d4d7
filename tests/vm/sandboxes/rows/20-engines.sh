# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables
#
# Engines that read the spec: with the variables, which an exec has, too.

# options FORMAT [OPTION]...: the words, in OPTIONS.
options() { eval "OPTIONS=($(told "$@"))"; }

row podman - 'podman run and exec'
row_podman() {
    at_end 'podman rm --ignore -f -t 0 box >/dev/null'
    options podman
    computes run_podman "${OPTIONS[@]}" localhost/llama
    "${LIMIT[@]}" podman run -d --name box --network=host -v /mnt/models:/models:ro "${OPTIONS[@]}" localhost/llama \
        sleep 300 >/dev/null </dev/null
    [[ $(podman exec box printenv GGML_BACKEND_PATH) == /usr/lib/apir/libggml-apir.so ]]
    computes "${LIMIT[@]}" podman exec box
}

row docker docker 'docker run and exec'
row_docker() {
    at_end 'docker rm -f box >/dev/null'
    options docker
    computes run_docker "${OPTIONS[@]}" localhost/llama
    "${LIMIT[@]}" docker run -d --name box --network=host -v /mnt/models:/models:ro "${OPTIONS[@]}" localhost/llama \
        sleep 300 >/dev/null </dev/null
    [[ $(docker exec box printenv GGML_BACKEND_PATH) == /usr/lib/apir/libggml-apir.so ]]
    computes "${LIMIT[@]}" docker exec box
}

row compose docker 'docker compose with a second file'
row_compose() {
    jq -n --arg bench "$BENCH" '{services: {box: {image: "localhost/llama", network_mode: "host",
        command: ["sh", "-c", $bench], volumes: ["/mnt/models:/models:ro"]}}}' >"$work/compose.yaml"
    told compose --name box >"$work/apir.yaml"
    at_end "docker compose -f $work/compose.yaml down"
    # shellcheck disable=SC2329 # computes calls it
    run_compose() {
        "${LIMIT[@]}" docker compose -f "$work/compose.yaml" -f "$work/apir.yaml" run --rm --no-TTY box "$@" </dev/null
    }
    computes run_compose
}

row quadlet - 'a quadlet with a drop-in, by the command that its unit has'
row_quadlet() {
    mkdir -p "$work/units/box.container.d"
    printf '%s\n' '[Container]' 'Image=localhost/llama' 'Network=host' 'Volume=/mnt/models:/models:ro' \
        'Exec=sleep 300' 'ContainerName=box' >"$work/units/box.container"
    told quadlet >"$work/units/box.container.d/apir.conf"
    QUADLET_UNIT_DIRS=$work/units /usr/libexec/podman/quadlet -dryrun | sed -n 's/^ExecStart=//p' |
        sed 's/--sdnotify=[a-z]* //; s/--cgroups=split //' >"$work/start"
    cat "$work/start"
    at_end 'podman rm --ignore -f -t 0 box >/dev/null'
    "${LIMIT[@]}" sh -e "$work/start" </dev/null
    computes "${LIMIT[@]}" podman exec box
}
