# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables
#
# Sandboxes that a user starts, with the host's files in places of their own.

# told_user FORMAT [OPTION]...: as the user, whose groups and engines count; the words are in OPTIONS.
told_user() { eval "OPTIONS=($(as_user apir spec --format "$@"))"; }

run_flatpak() {
    as_user "${LIMIT[@]}" flatpak --user run --command=sh --filesystem=/mnt/models:ro \
        "${OPTIONS[@]}" org.apir.Llama//1 "${@:2}" </dev/null
}

row flatpak rootless+flatpak 'flatpak run, a runtime of the files of localhost/llama'
row_flatpak() {
    told_user flatpak
    BENCH=${BENCH//\/models/\/mnt\/models} computes run_flatpak
}

row flatpak-host0 rootless+flatpak+host 'flatpak run, host0, the user is in the group of the socket'
row_flatpak_host0() {
    told_user flatpak --device host0
    BENCH=${BENCH//\/models/\/mnt\/models} computes run_flatpak
}

# toolbox_box NAME: a container of this name, which is in BOX.
toolbox_box() {
    BOX=$1
    # In this VM podman may wait in vain for the end of its first process: then it stays.
    at_end "as_user timeout 20 podman rm --ignore -f -t 0 $BOX || :"
    # As systemd makes it at boot (tmpfiles.d): there is toolbox's own loader of libraries.
    [[ -e /run/host ]] || ln -s / /run/host
    [[ -S /run/dbus/system_bus_socket ]] || { mkdir -p /run/dbus && dbus-daemon --system --fork; }
    as_user "${LIMIT[@]}" dbus-run-session -- toolbox --assumeyes create --image localhost/llama "$BOX" </dev/null
    # toolbox wants this program in its images.
    as_user podman cp --overwrite "$(command -v capsh)" "$BOX:/usr/bin/capsh"
    as_user podman cp --overwrite "$(ldd "$(command -v capsh)" | awk '$1 == "libcap.so.2" { print $3 }')" \
        "$BOX:/usr/lib/x86_64-linux-gnu/libcap.so.2"
}
run_toolbox() {
    as_user "${LIMIT[@]}" dbus-run-session -- toolbox run --container "$BOX" "${OPTIONS[@]}" "$@" </dev/null
}

row toolbox rootless 'toolbox run'
row_toolbox() {
    toolbox_box box
    told_user toolbox
    BENCH=${BENCH//\/models/\/run\/host\/mnt\/models} computes run_toolbox
}

row toolbox-host0 rootless+host 'toolbox run, host0 whose socket anybody may open'
row_toolbox_host0() {
    socket_mode 0666
    toolbox_box box-host0
    told_user toolbox --device host0
    BENCH=${BENCH//\/models/\/run\/host\/mnt\/models} computes run_toolbox
}

# What distrobox gives to podman, but for its entry point, which would install packages from a network.
row distrobox rootless 'distrobox create: its command of podman, without its entry point'
row_distrobox() {
    at_end 'as_user podman rm --ignore -f -t 0 dbox'
    told_user distrobox
    as_user "${LIMIT[@]}" env DBX_CONTAINER_MANAGER=podman distrobox create --dry-run --image localhost/llama --name dbox \
        "${OPTIONS[@]}" </dev/null | tee "$work/create"
    grep -F -- '--device=virtgpu/apir=gpu0' "$work/create"
    # In lines without a backslash, which distrobox makes one of.
    tr '\n' ' ' <"$work/create" |
        sed 's|--entrypoint [^ ]*|--entrypoint /bin/sleep|; s|localhost/llama .*|localhost/llama 600|' >"$work/start"
    as_user "${LIMIT[@]}" sh -e <"$work/start"
    as_user "${LIMIT[@]}" podman start dbox
    BENCH=${BENCH//\/models/\/run\/host\/mnt\/models} computes as_user "${LIMIT[@]}" podman exec --user user dbox
}
