#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir engine configure and reset, with the engines themselves as judges of the result. Versions
# that need a setting are older than what is here: --engine-version stands in for asking.

load ../system.bash

setup() {
    common_setup
    STATE=(--state-dir "$T/state")
}

@test "engine: the versions here need nothing, and nothing is written" {
    for engine in podman docker containerd; do
        run -0 "$APIR" engine configure "$engine" --config "$T/conf" "${STATE[@]}"
        [[ $output == *'there is nothing to set' ]]
    done
    [[ ! -e $T/conf && ! -e $T/state ]]
}

@test "engine: a version without CDI is left alone, and what else helps is said" {
    run -1 "$APIR" engine configure docker --engine-version 20.10.24 --config "$T/conf" "${STATE[@]}"
    [[ ${lines[0]} == *': docker 20.10 has no CDI; 25.0 is the first version that has' ]]
    [[ ${lines[1]} == 'Update docker, use podman, or '*' by hand (apir(1), docker).' ]]
    run -1 "$APIR" engine configure containerd --engine-version 1.6 --config "$T/conf" "${STATE[@]}"
    [[ ${lines[1]} == 'Update containerd.' ]]
    [[ ! -e $T/conf && ! -e $T/state ]]
}

@test "engine: docker takes what was written, all else is kept, reset takes the setting back" {
    printf '{ "log-level":"warn", "proxies": {"http-proxy": "http://u:secret@p"},\n  "features": {"buildkit": true} }\n' >"$T/daemon.json"
    chmod 0640 "$T/daemon.json"
    cp -p "$T/daemon.json" "$T/before"
    docker=("$APIR" engine configure docker --engine-version 27.5 --config "$T/daemon.json" "${STATE[@]}")
    run -0 "${docker[@]}" --dry-run
    [[ $output == *'+    "cdi":true'* && $output == *'Not written'* ]]
    cmp "$T/daemon.json" "$T/before"
    run -0 "${docker[@]}"
    [[ $output == *'systemctl'*'restart docker'* ]]
    jq -e '.features == {"buildkit": true, "cdi": true} and .["log-level"] == "warn"' "$T/daemon.json"
    [[ $(stat -c %a "$T/daemon.json") == 640 ]]
    # What was changed is in the record, and nothing else of the file.
    [[ $(stat -c %a "$T/state") == 700 && $(stat -c %a "$T"/state/*) == 600 ]]
    jq -e '.changes == [{"path": ["features", "cdi"], "is": true}] and .made == false' "$T"/state/*
    refute grep -rqE 'secret|warn|buildkit' "$T/state"
    gives 0 'configuration OK' dockerd --validate --config-file "$T/daemon.json"
    run -0 "${docker[@]}"
    [[ $output == *'nothing to set' ]]
    run -0 "$APIR" engine reset docker "${STATE[@]}"
    diff <(jq -S . "$T/daemon.json") <(jq -S . "$T/before")
    run -0 "$APIR" engine reset docker "${STATE[@]}"
    [[ $output == *'nothing to take back' ]]
}

@test "engine: a file that was made is taken away again; what others add to it is not" {
    docker=("$APIR" engine configure docker --engine-version 25.0 --config "$T/new/daemon.json" "${STATE[@]}")
    run -0 "${docker[@]}"
    run -0 "$APIR" engine reset docker "${STATE[@]}"
    [[ ! -e $T/new/daemon.json ]]
    run -0 "${docker[@]}"
    jq '.mtu = 1400' "$T/new/daemon.json" >"$T/edited"
    cp "$T/edited" "$T/new/daemon.json"
    run -0 "$APIR" engine reset docker --dry-run "${STATE[@]}"
    cmp "$T/edited" "$T/new/daemon.json"
    run -0 "$APIR" engine reset docker "${STATE[@]}"
    jq -e '. == {"mtu": 1400}' "$T/new/daemon.json"
}

@test "engine: a broken file is left alone, with the line where it breaks" {
    printf '{\n  "mtu": 1\n  "x": 2\n}\n' >"$T/daemon.json"
    printf 'version = 2\n\n[plugins\n' >"$T/config.toml"
    sum=$(cat "$T/daemon.json" "$T/config.toml" | sha256sum)
    gives 1 'daemon.json: line 3, byte ' \
        "$APIR" engine configure docker --engine-version 27.5 --config "$T/daemon.json" "${STATE[@]}"
    gives 1 'config.toml: line 3: ' \
        "$APIR" engine configure containerd --engine-version 1.7 --config "$T/config.toml" "${STATE[@]}"
    [[ $(cat "$T/daemon.json" "$T/config.toml" | sha256sum) == "$sum" && ! -e $T/state ]]
}

# lines: those that configure has printed, without their headline.
lines() { sed -n '/^Add this to /,/^It takes effect/p' <<<"$output" | sed '1d;$d'; }

@test "engine: containerd takes the lines that are printed, and no file is touched" {
    containerd=("$APIR" engine configure containerd "${STATE[@]}")
    # No file, and an empty one: with the format of its time, which this containerd reads too.
    for file in none.toml empty.toml; do
        [[ $file == none.toml ]] || : >"$T/$file"
        run -1 "${containerd[@]}" --engine-version 1.7 --config "$T/$file"
        [[ $output == *"Add this to $T/$file yourself:"* && $output == *'restart containerd'* ]]
        [[ ! -s $T/$file ]]
        lines >"$T/made.toml"
        gives 0 'enable_cdi = true' containerd --config "$T/made.toml" config dump
    done

    printf 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  enable_cdi = false\n' >"$T/config.toml"
    gives 1 "Add this to $T/config.toml yourself:" "${containerd[@]}" --config "$T/config.toml"
    gives 0 'enable_cdi = false' containerd --config "$T/config.toml" config dump
    { echo 'version = 2'; lines; } >"$T/config.toml"
    gives 0 'enable_cdi = true' containerd --config "$T/config.toml" config dump
    run -0 "${containerd[@]}" --config "$T/config.toml"
    [[ $output == *'nothing to set' && ! -e $T/state ]]
    run -0 "$APIR" engine reset containerd "${STATE[@]}"
    [[ $output == *'nothing to take back' ]]
}

# In a mount namespace of its own: the files are the system's, the machine's stay as they are.
with_system_files() { # SCRIPT
    unshare --mount --propagation private sh -ec "
        mkdir -p '$T/etc'; mount --bind '$T/etc' /etc/containers; $1"
}

@test "engine: podman reads the hooks folder that the drop-in names, until it is taken away" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'mounts, so root'; }
    local dest=$T/dest
    mkdir -p "$dest/opt/bin" "$dest/opt/share/apir/hooks.d"
    cp "$APIR" "$dest/opt/bin/"
    echo '{}' >"$dest/opt/share/apir/hooks.d/90-apir-precreate.json"
    run -0 with_system_files "
        '$dest/opt/bin/apir' engine configure podman ${STATE[*]}
        podman --help | grep hooks-dir
        '$dest/opt/bin/apir' engine configure podman ${STATE[*]}
        '$dest/opt/bin/apir' engine reset podman ${STATE[*]}
        podman --help | grep hooks-dir
        find /etc/containers -type f"
    echo "$output"
    grep -Eq "hooks-dir.*\[/usr/share/containers/oci/hooks.d,$dest/opt/share/apir/hooks.d\]" <<<"$output"
    grep -Eq "hooks-dir.*\[/usr/share/containers/oci/hooks.d\]" <<<"$output"
    [[ $output == *'is as it should be'* && ${lines[-1]} == *hooks-dir* ]]
}

@test "engine: podman reads /etc/cdi again where its configuration has left it out" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'mounts, so root'; }
    run -0 with_system_files "
        printf '[engine]\ncdi_spec_dirs = [\"/opt/cdi\"]\n' >/etc/containers/containers.conf
        podman --help | grep -A1 cdi-spec-dir
        '$APIR' engine configure podman ${STATE[*]}
        podman --help | grep -A1 cdi-spec-dir"
    echo "$output"
    [[ $output == *'[/opt/cdi]'*'[/opt/cdi,/etc/cdi]'* ]]
}
