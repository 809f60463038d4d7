#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2016 # what is in quotes is for shells inside
#
# Specs where engines look for them: a user's own, and several that say something of one device.

load ../system.bash

USER_ID=4321

setup() {
    common_setup
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'is several users, so root'; }
    chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$T"
    mkdir -p "$T/home/.config" "$T/run" "$T/host"
    chown -R "$USER_ID:$USER_ID" "$T/home" "$T/run"
    # Nobody need answer for a spec.
    perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die' "$T/host/apir.sock"
}

# What rootless podman leaves to keep its namespaces.
podman_end() {
    local file
    for file in "$T"/run/libpod/tmp/pause.pid "$T"/run/libpod/pause.pid; do
        [[ ! -e $file ]] || { kill -KILL "$(<"$file")" || :; rm "$file"; }
    done
}
teardown() {
    podman_end
    common_teardown
}

# As it is installed: users may run the hook, and not read it.
installed() {
    "${MAKE:-make}" --no-print-directory -s install-cdi install-hook install-frontend DESTDIR="$T/root" O="$OUT" 3>&-
    APIR=$(echo "$T"/root/usr*/bin/apir "$T"/root/usr/local/bin/apir)
    APIR=${APIR%% *}
    HOOK=$(realpath "$(dirname "$APIR")/../libexec/apir/apir-hook")
    [[ $(stat -c %a "$HOOK") == 711 ]]
}

as_user() {
    setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups env -u XDG_CONFIG_HOME "HOME=$T/home" \
        "XDG_RUNTIME_DIR=$T/run" "$@"
}

@test "specs: a user's own, with the hook that only root can read" {
    installed
    run -0 --separate-stderr as_user "$APIR" cdi generate --dev-root "$T" --host-socket "$T/host"
    [[ $stderr == *"wrote $T/home/.config/cdi/apir.json"*"--cdi-spec-dir $T/home/.config/cdi"* ]]
    jq -e --arg hook "$HOOK" '.containerEdits.hooks[0].path == $hook' "$T/home/.config/cdi/apir.json"
    as_user "$APIR" cdi validate --strict "$T/home/.config/cdi/apir.json"
    run -0 as_user "$APIR" cdi list
    [[ $output == "virtgpu/apir=host0"$'\t'"$T/home/.config/cdi/apir.json" ]]
    run -0 as_user "$APIR" run --device host0 --print
    [[ $output == *"APIR_TRANSPORT=unix:$T/host/apir.sock"* ]]
    # A folder of the runtime's, which rootless docker reads as well.
    as_user "$APIR" cdi generate --dev-root "$T" --host-socket "$T/host" --output "$T/run/cdi/apir.json"
    run -0 --separate-stderr as_user "$APIR" cdi list
    [[ ${#lines[@]} -eq 2 && $stderr == *"rootless docker takes it from $T/run/cdi/apir.json"*"$T/home/.config/cdi/apir.json"* ]]
    # Nobody has that docker.
    run -0 --separate-stderr as_user env PATH=/nonexistent "$APIR" cdi list
    [[ ${#lines[@]} -eq 2 && -z $stderr ]]
}

# A container of one static program, without images, storage and network of the machine's.
podman_in() { # FOLDER OPTION... : the folder is podman's; prints the container's environment
    local dir=$1
    shift
    mkdir -p "$T/rootfs/bin" "$T/none"
    [[ -e $T/rootfs/bin/busybox ]] || cp /bin/busybox "$T/rootfs/bin/"
    timeout "$(patience 60)" env PODMAN_IGNORE_CGROUPSV1_WARNING=1 podman --root "$dir/podman" --runroot "$dir/podman-run" \
        --cgroup-manager=cgroupfs --events-backend=none --runtime=runc --hooks-dir="$T/none" "$@" \
        run --rm --network=none --device virtgpu/apir=host0 --rootfs "$T/rootfs" /bin/busybox \
        sh -c 'env; wc -c /usr/lib/apir/*; :' </dev/null 3>&-
}

@test "specs: rootless podman takes a user's own, by its option and by what configures it" {
    local size
    export -f podman_in patience
    installed
    mkdir "$T/none"
    size=$(stat -L -c %s "$(dirname "$APIR")/../lib/apir/libggml-apir.so")
    as_user "$APIR" cdi generate --dev-root "$T" --host-socket "$T/host"
    mkdir -p "$T/rootfs/bin" && cp /bin/busybox "$T/rootfs/bin/" && chown -R "$USER_ID" "$T/rootfs"
    cd /
    run ! as_user bash -c 'T=$1; podman_in "$1/home"' bash "$T"
    [[ $output == *unresolvable* ]]
    run -0 as_user bash -c 'T=$1; podman_in "$1/home" --cdi-spec-dir "$1/home/.config/cdi"' bash "$T"
    [[ $output == *APIR_TRANSPORT=unix:*"$size /usr/lib/apir/libggml-apir.so"* ]]
    as_user "$APIR" engine configure podman --state-dir "$T/home/state"
    run -0 as_user bash -c 'T=$1; podman_in "$1/home"' bash "$T"
    [[ $output == *APIR_TRANSPORT=unix:*"$size /usr/lib/apir/libggml-apir.so"* ]]
    # Both commands as docs/quickstart.md has them, beside a server's socket.
    rm -r "$T/home/.config"
    printf '%s\n' 'set -e' 'apir cdi generate' 'apir engine configure podman' >"$T/commands"
    export -f as_user
    podman_end
    run -0 unshare --mount --propagation private bash -ec '
        T=$1 USER_ID=$2; mount -t tmpfs tmpfs /run; mkdir -p /run/apir/host; mount --bind "$T/host" /run/apir/host
        PATH=$3:$PATH as_user sh "$T/commands"
        as_user bash -c "T=\$1; podman_in \$1/home" bash "$T"' bash "$T" "$USER_ID" "$(dirname "$APIR")"
    [[ $output == *APIR_TRANSPORT=unix:*"$size /usr/lib/apir/libggml-apir.so"* ]]
}

# with_cdi COMMAND...: with an /etc and a /run of its own, whose folders of specs are $T/etc/cdi and $T/run-cdi.
with_cdi() {
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --propagation private sh -ec '
        T=$1; shift
        [ -e "$T/etc" ] || cp -a /etc "$T/etc"
        mkdir -p "$T/etc/cdi" "$T/run-cdi"
        mount --bind "$T/etc" /etc; mount -t tmpfs tmpfs /run
        mkdir /run/cdi; mount --bind "$T/run-cdi" /run/cdi
        exec "$@"' sh "$T" "$@"
}

generated() { with_cdi "$APIR" cdi generate --dev-root "$T" --host-socket "$T/host" --plugin "$(realpath "$PLUGIN")" --no-hook; }

# spec_is STATUS PART...: what doctor says of the spec, and what to do.
spec_is() {
    local status=$1 part
    shift
    with_cdi env "APIR_TRANSPORT=unix:$T/host/apir.sock" "$APIR" doctor --json >"$T/json" || [[ $? -eq 1 ]]
    jq -r '.checks[] | select(.name == "spec") | .status, .text, .todo' "$T/json" | tee "$T/said"
    [[ $(head -n 1 "$T/said") == "$status" ]]
    for part in "$@"; do grep -qF -- "$part" "$T/said"; done
}

@test "specs: what a device names is gone" {
    APIR=$(realpath "$APIR")
    generated
    jq '.devices += [{name: "gpu1", containerEdits: {deviceNodes: [{path: "/dev/dri/renderD999"}]}}]' \
        "$T/etc/cdi/apir.json" >"$T/new"
    mv "$T/new" "$T/etc/cdi/apir.json"
    spec_is fail /etc/cdi/apir.json 'device node /dev/dri/renderD999' 'apir cdi generate'
    run -0 --separate-stderr with_cdi "$APIR" cdi list
    [[ ${#lines[@]} -eq 2 && $stderr == *'/etc/cdi/apir.json: device node /dev/dri/renderD999: No such file'*generate* ]]
    generated
    spec_is pass /etc/cdi/apir.json
    rm -r "$T/host"
    spec_is fail "mount source $T/host"
    run -0 --separate-stderr with_cdi "$APIR" cdi list
    [[ $stderr == *"mount source $T/host"* ]]
}

# What podman makes of the device where it reads these folders: its variable.
podman_takes() { # FOLDER...
    local folders=() dir
    for dir in "$@"; do folders+=(--cdi-spec-dir "$dir"); done
    podman_in "$T" "${folders[@]}"
}

@test "specs: a second file with the device in one folder" {
    APIR=$(realpath "$APIR")
    generated
    spec_is pass /etc/cdi/apir.json
    cp "$T/etc/cdi/apir.json" "$T/etc/cdi/apir-backup.json"
    run ! podman_takes "$T/etc/cdi"
    [[ $output == *unresolvable* ]]
    spec_is fail virtgpu/apir=host0 /etc/cdi/apir.json /etc/cdi/apir-backup.json 'take one away'
    run -1 --separate-stderr with_cdi "$APIR" cdi list
    [[ $stderr == *host0*/etc/cdi/apir-backup.json*/etc/cdi/apir.json*'take one away'* ]]
    run -0 --separate-stderr generated
    [[ $stderr == *host0*/etc/cdi/apir-backup.json*/etc/cdi/apir.json*'take one away'* ]]
    # Another device of that kind, a file that engines do not take, and one of another suffix are none.
    sed 's/host0/host7/' "$T/etc/cdi/apir.json" >"$T/etc/cdi/apir-backup.json"
    echo '{"kind": "virtgpu/apir", "devices": [{"name": "host0"}]}' >"$T/etc/cdi/broken.json"
    cp "$T/etc/cdi/apir.json" "$T/etc/cdi/apir.json.bak"
    podman_takes "$T/etc/cdi" >"$T/env"
    grep -q ^APIR_TRANSPORT= "$T/env"
    spec_is pass /etc/cdi/apir.json
}

@test "specs: a copy in a folder that wins" {
    local told
    APIR=$(realpath "$APIR")
    generated
    cp "$T/etc/cdi/apir.json" "$T/run-cdi/"
    spec_is warn /var/run/cdi/apir.json /etc/cdi/apir.json 'wins over' 'take away'
    # An old one, whose plug-in is elsewhere.
    jq 'del(.containerEdits.mounts) | .containerEdits.env = ["OLD=1"]' "$T/etc/cdi/apir.json" >"$T/run-cdi/apir.json"
    podman_takes "$T/etc/cdi" "$T/run-cdi" >"$T/env"
    grep -qx OLD=1 "$T/env"
    spec_is fail /var/run/cdi/apir.json /etc/cdi/apir.json 'wins over' 'rm /var/run/cdi/apir.json'
    run -0 --separate-stderr with_cdi "$APIR" cdi list
    told='*host0*/var/run/cdi/apir.json*wins over*/etc/cdi/apir.json*'
    # shellcheck disable=SC2053 # a pattern
    [[ $stderr == $told ]]
    run -0 --separate-stderr generated
    # shellcheck disable=SC2053 # a pattern
    [[ $stderr == $told ]]
    # It alone is what engines take, and so what is looked at.
    rm "$T/etc/cdi/apir.json"
    spec_is fail /var/run/cdi/apir.json 'does not mount the plug-in'
    # A file that is named is the one that is looked at.
    with_cdi "$APIR" doctor --spec /etc/cdi/apir.json --json >"$T/json" || :
    jq -e '.checks[] | select(.name == "spec") | .text | contains("/etc/cdi/apir.json")' "$T/json"
}

@test "specs: engines are told of other folders, and those are looked into" {
    APIR=$(realpath "$APIR")
    generated
    mkdir -p "$T/etc/docker" "$T/etc/crio/crio.conf.d" "$T/etc/containerd"
    for name in docker crio containerd; do
        mkdir "$T/$name"
        sed "s/host0/$name/" "$T/etc/cdi/apir.json" >"$T/$name/apir.json"
    done
    echo "{\"cdi-spec-dirs\": [\"/etc/cdi\", \"$T/docker\"]}" >"$T/etc/docker/daemon.json"
    printf '[crio.runtime]\ncdi_spec_dirs = ["%s"]\n' "$T/crio" >"$T/etc/crio/crio.conf.d/10-cdi.conf"
    printf 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\ncdi_spec_dirs = ["%s"]\n' "$T/containerd" \
        >"$T/etc/containerd/config.toml"
    run -0 --separate-stderr with_cdi "$APIR" cdi list
    echo "$output" "$stderr"
    [[ $(cut -f 1 <<<"$output" | sort | xargs) == \
        'virtgpu/apir=containerd virtgpu/apir=crio virtgpu/apir=docker virtgpu/apir=host0' && -z $stderr ]]
    # Two folders that no engine reads both of: no one wins.
    cp "$T/docker/apir.json" "$T/crio/docker.json"
    run -0 --separate-stderr with_cdi "$APIR" cdi list
    [[ -z $stderr ]]
    cp "$T/etc/cdi/apir.json" "$T/docker/host0.json"
    run -0 --separate-stderr with_cdi "$APIR" cdi list
    [[ $stderr == *"$T/docker/host0.json, which wins over /etc/cdi/apir.json"* ]]
}
