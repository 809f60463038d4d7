#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# shellcheck disable=SC2016 # what is in quotes is for shells inside
#
# apir spec: what sandboxes and engines are told, read back by what reads it there, where that is here.

load ../system.bash

FORMATS=(podman docker compose quadlet distrobox toolbox nspawn lxc incus flatpak apptainer)

setup() {
    common_setup
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip 'is several users, so root'; }
    chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$T"
    mkdir "$T/host"
    perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die' "$T/host/apir.sock"
    chmod 0666 "$T/host/apir.sock"
    spec "$(realpath "$PLUGIN")"
}

# spec PLUGIN [FILTER]: a spec as `cdi generate` writes it, with a node that each machine has.
spec() {
    mkdir -p "$T/cdi"
    "$APIR" cdi generate --dev-root "$T" --host-socket "$T/host" --plugin "$PLUGIN" --no-hook --dry-run 2>/dev/null |
        jq --arg plugin "$1" '(.. | objects | select((.containerPath? // "") | startswith("/usr/lib/apir/")) | .hostPath) = $plugin |
            .devices |= [{name: "gpu0", containerEdits: {env: ["APIR_DEVICE_0=0000:00:02.0"],
                mounts: [{hostPath: $plugin, containerPath: "/usr/lib/apir/devices/gpu0=0000:00:02.0", type: "bind",
                    options: ["ro", "nosuid", "nodev", "bind"]}],
                deviceNodes: [{path: "/dev/null", permissions: "rw"}]}}] + .' | jq "${2-.}" >"$T/cdi/apir.json"
}

told() { "$APIR" spec --spec "$T/cdi/apir.json" --name box --format "$@"; }

# is FORMAT DEVICE: what is printed is the standard input, where PLUGIN and SOCKET are paths of here.
is() {
    sed "s|PLUGIN|$(realpath "$PLUGIN")|g; s|SOCKET|$T/host|g" >"$T/want"
    told "$1" --device "$2" 2>"$T/err" | diff -u "$T/want" -
}

@test "spec: devices that are given one by one are all told" {
    told docker --device gpu0 --device host0 2>/dev/null | diff - <(told docker --device gpu0,host0 2>/dev/null)
    "$APIR" run --spec "$T/cdi/apir.json" --device gpu0 --device host0 --print | sort |
        diff - <("$APIR" run --spec "$T/cdi/apir.json" --device gpu0,host0 --print | sort)
    [[ $(told docker --device gpu0 --device host0 2>/dev/null | grep -o -- --device | wc -l) -eq 2 ]]
    run -2 told docker --device "$(printf 'a%.0s' {1..5000})"
}

@test "spec: what each format is told, to the letter" {
    is podman gpu0 <<'TEXT'
--device virtgpu/apir=gpu0 --env APIR_DEVICE_0=0000:00:02.0 --env GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so --env GGML_VK_VISIBLE_DEVICES=
TEXT
    is docker gpu0,host0 <<'TEXT'
--device virtgpu/apir=gpu0 --device virtgpu/apir=host0 --env APIR_DEVICE_0=0000:00:02.0 --env APIR_TRANSPORT=unix:/run/apir/host/apir.sock --env GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so --env GGML_VK_VISIBLE_DEVICES=
TEXT
    is compose gpu0 <<'TEXT'
services:
  "box":
    devices:
      - "virtgpu/apir=gpu0"
    environment:
      - "APIR_DEVICE_0=0000:00:02.0"
      - "GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so"
      - "GGML_VK_VISIBLE_DEVICES="
TEXT
    is quadlet host0 <<'TEXT'
[Container]
AddDevice=virtgpu/apir=host0
Environment="APIR_TRANSPORT=unix:/run/apir/host/apir.sock"
Environment="GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so"
Environment="GGML_VK_VISIBLE_DEVICES="
TEXT
    is distrobox host0 <<'TEXT'
--additional-flags '--device=virtgpu/apir=host0 --env=APIR_TRANSPORT=unix:/run/apir/host/apir.sock --env=GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so --env=GGML_VK_VISIBLE_DEVICES='
TEXT
    is toolbox gpu0 <<'TEXT'
env APIR_DEVICE_0=0000:00:02.0 GGML_BACKEND_PATH=/run/hostPLUGIN GGML_VK_VISIBLE_DEVICES= APIR_TRANSPORT=virtgpu:/dev/null
TEXT
    is toolbox host0 <<'TEXT'
env APIR_TRANSPORT=unix:/run/hostSOCKET/apir.sock GGML_BACKEND_PATH=/run/hostPLUGIN GGML_VK_VISIBLE_DEVICES=
TEXT
    is nspawn gpu0,host0 <<'TEXT'
[Exec]
Environment="APIR_DEVICE_0=0000:00:02.0"
Environment="APIR_TRANSPORT=unix:/run/apir/host/apir.sock"
Environment="GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so"
Environment="GGML_VK_VISIBLE_DEVICES="

[Files]
Bind=/dev/null:/dev/null
BindReadOnly=PLUGIN:/usr/lib/apir/devices/gpu0=0000\:00\:02.0
BindReadOnly=SOCKET:/run/apir/host
BindReadOnly=PLUGIN:/usr/lib/apir/devices/host0
BindReadOnly=PLUGIN:/usr/lib/apir/libggml-apir.so
TEXT
    grep -F 'DeviceAllow=/dev/null rw' "$T/err"
    is lxc gpu0,host0 <<'TEXT'
lxc.mount.entry = /dev/null dev/null none bind,create=file,optional 0 0
lxc.cgroup2.devices.allow = c 1:3 rw
lxc.mount.entry = PLUGIN usr/lib/apir/devices/gpu0=0000:00:02.0 none bind,ro,nosuid,nodev,create=file,optional 0 0
lxc.mount.entry = SOCKET run/apir/host none bind,ro,nosuid,nodev,create=dir,optional 0 0
lxc.mount.entry = PLUGIN usr/lib/apir/devices/host0 none bind,ro,nosuid,nodev,create=file,optional 0 0
lxc.mount.entry = PLUGIN usr/lib/apir/libggml-apir.so none bind,ro,nosuid,nodev,create=file,optional 0 0
lxc.environment = APIR_DEVICE_0=0000:00:02.0
lxc.environment = APIR_TRANSPORT=unix:/run/apir/host/apir.sock
lxc.environment = GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so
lxc.environment = GGML_VK_VISIBLE_DEVICES=
TEXT
    is incus gpu0 <<'TEXT'
incus config device add box apir0 unix-char source=/dev/null path=/dev/null mode=0666
incus config device add box apir1 disk source=PLUGIN path=/usr/lib/apir/devices/gpu0=0000:00:02.0 readonly=true
incus config device add box apir2 disk source=PLUGIN path=/usr/lib/apir/libggml-apir.so readonly=true
incus config set box environment.APIR_DEVICE_0=0000:00:02.0
incus config set box environment.GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so
incus config set box environment.GGML_VK_VISIBLE_DEVICES=none
TEXT
    is flatpak gpu0 <<'TEXT'
--device=dri --filesystem=PLUGIN:ro --env=APIR_DEVICE_0=0000:00:02.0 --env=GGML_BACKEND_PATH=PLUGIN --env=GGML_VK_VISIBLE_DEVICES= --env=APIR_TRANSPORT=virtgpu:/dev/null
TEXT
    is apptainer host0 <<'TEXT'
--bind SOCKET:/run/apir/host:ro --bind PLUGIN:/usr/lib/apir/libggml-apir.so:ro --env APIR_TRANSPORT=unix:/run/apir/host/apir.sock --env GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so --env GGML_VK_VISIBLE_DEVICES=
TEXT
}

@test "spec: a plug-in below /usr is where flatpak has the host's /usr" {
    spec /usr/bin/env
    is flatpak host0 <<'TEXT'
--filesystem=SOCKET:ro --filesystem=host-os:ro --env=APIR_TRANSPORT=unix:SOCKET/apir.sock --env=GGML_BACKEND_PATH=/run/host/usr/bin/env --env=GGML_VK_VISIBLE_DEVICES=
TEXT
}

@test "spec: without --device it is the first of the spec, which is said" {
    run -0 --separate-stderr told docker
    [[ $output == '--device virtgpu/apir=gpu0 '* && $stderr == *"virtgpu/apir=gpu0 of $T/cdi/apir.json: options of \`docker run\`"* ]]
}

# A path and a value in which each format has something to escape.
ODD="a b'c\$d%e\"f\\g#h"
odd() {
    mkdir -p "$T/$ODD"
    cp "$PLUGIN" "$T/$ODD/plugin.so"
    spec "$T/$ODD/plugin.so" ".containerEdits.env += [\"ODD=\" + $(jq -n --arg t "$ODD" '$t')]"
}

# words FORMAT: each word that a shell makes of it, a line each.
words() {
    local text
    text=$(told "$1" --device gpu0 2>/dev/null)
    sh -ec "printf '%s\n' $text"
}

@test "spec: odd characters are a shell's words again" {
    odd
    words podman | grep -Fx "ODD=$ODD"
    words docker | grep -Fx "ODD=$ODD"
    words toolbox | grep -Fx "ODD=$ODD"
    words toolbox | grep -Fx "GGML_BACKEND_PATH=/run/host$T/$ODD/plugin.so"
    words distrobox | tail -n 1 >"$T/flags"
    sh -ec "printf '%s\n' $(<"$T/flags")" | grep -Fx -- "--env=ODD=$ODD"
    told incus --device gpu0 2>/dev/null | sed 's/^incus/printf "%s\\n"/' >"$T/commands"
    sh -e "$T/commands" | grep -Fx "environment.ODD=$ODD"
    sh -e "$T/commands" | grep -Fx "source=$T/$ODD/plugin.so"
}

@test "spec: odd characters in mounts of lxc, as libmount reads them" {
    odd
    told lxc --device gpu0 2>/dev/null | sed -n 's/^lxc.mount.entry = //p' >"$T/fstab"
    run -0 findmnt --fstab --tab-file "$T/fstab" --raw --noheadings --output SOURCE --target usr/lib/apir/libggml-apir.so
    [[ $(printf '%b' "$output") == "$T/$ODD/plugin.so" ]]
    told lxc --device gpu0 2>/dev/null | grep -Fx "lxc.environment = ODD=$ODD"
}

@test "spec: odd characters in a quadlet, as podman and systemd read it" {
    odd
    mkdir -p "$T/units/box.container.d"
    printf '[Container]\nImage=localhost/none\n' >"$T/units/box.container"
    told quadlet --device gpu0 >"$T/units/box.container.d/apir.conf" 2>/dev/null
    run -0 --separate-stderr env "QUADLET_UNIT_DIRS=$T/units" /usr/libexec/podman/quadlet -dryrun
    grep '^ExecStart=' <<<"$output" >"$T/start"
    grep -F -- '--device virtgpu/apir=gpu0' "$T/start"
    # What systemd makes of a line of that form: its own program takes it apart again.
    grep -F -- "--env \"ODD=a\\x20b'c\$\$d%%e\\\"f\\\\g#h\"" "$T/start"
    [[ $(<"$T/start") != *--group-add* ]]
}

@test "spec: odd characters in a file of compose" {
    odd
    told compose --device gpu0 2>/dev/null >"$T/apir.yaml"
    # A string with double quotes is one of JSON, too; compose makes one of two dollars.
    [[ $(sed -n 's/^ *- \("ODD=.*\)/\1/p' "$T/apir.yaml" | jq -r . | sed 's/\$\$/$/g') == "ODD=$ODD" ]]
    if docker compose version >/dev/null 2>&1; then
        printf 'services: {box: {image: none}}\n' >"$T/compose.yaml"
        run -0 docker compose -f "$T/compose.yaml" -f "$T/apir.yaml" config --format json
        # Which writes it as it has to be read again.
        [[ $(jq -r '.services.box.environment.ODD' <<<"$output" | sed 's/\$\$/$/g') == "$ODD" ]]
        jq -e '.services.box.devices[0].source == "virtgpu/apir=gpu0"' <<<"$output"
    fi
}

@test "spec: a colon in a path of nspawn, and what a format cannot say" {
    local format
    mkdir "$T/a:b"
    cp "$PLUGIN" "$T/a:b/plugin.so"
    spec "$T/a:b/plugin.so"
    told nspawn 2>/dev/null | grep -Fx "BindReadOnly=$T/a\\:b/plugin.so:/usr/lib/apir/libggml-apir.so"
    for format in flatpak apptainer; do
        run -1 --separate-stderr told "$format"
        [[ -z $output && $stderr == "apir spec: "*"a:b/plugin.so"*"cannot be written for $format"*'has a :'* ]]
    done
    odd
    for format in nspawn apptainer; do
        run -1 --separate-stderr told "$format"
        [[ -z $output && $stderr == *"cannot be written for $format"* ]]
    done
    spec "$(realpath "$PLUGIN")" '.containerEdits.env += ["A=b\nlxc.hook.start = /evil"]'
    for format in "${FORMATS[@]}"; do
        run -1 --separate-stderr told "$format"
        [[ -z $output && $stderr == *'a character that no format takes'* ]]
    done
    spec /etc/passwd
    run -1 --separate-stderr told flatpak
    [[ -z $output && $stderr == *'flatpak lets nothing of /etc/passwd in'*'--plugin PATH'* ]]
}

@test "spec: what is not there is said, with what to do" {
    run -1 --separate-stderr told lxc --device gpu7
    [[ -z $output && $stderr == *'no device "gpu7"'*'apir cdi list'* ]]
    spec "$T/gone.so"
    run -1 --separate-stderr told lxc
    [[ -z $output && $stderr == *"the spec names $T/gone.so, which is not here"*'apir cdi generate'* ]]
    run -1 --separate-stderr "$APIR" spec --format lxc --spec "$T/none.json"
    [[ -z $output && $stderr == *'apir cdi generate'* ]]
    # Another user's spec decides nothing for root.
    spec "$(realpath "$PLUGIN")"
    chown 4321 "$T/cdi/apir.json"
    run -1 --separate-stderr told lxc
    [[ -z $output && $stderr == *"$T/cdi/apir.json"* ]]
}

@test "spec: who may connect to host0" {
    # Anybody.
    for format in "${FORMATS[@]}"; do
        told "$format" --device host0 >/dev/null 2>"$T/err"
        [[ $(<"$T/err") != *'has mode'* ]]
    done
    chgrp 4711 "$T/host/apir.sock"
    chmod 0660 "$T/host/apir.sock"
    for format in nspawn lxc incus toolbox; do
        run -0 --separate-stderr told "$format" --device host0
        [[ $stderr == *"$T/host/apir.sock has mode 0660"*'only mode 0666'*SocketMode=0666* ]]
    done
    for format in flatpak apptainer distrobox; do
        run -0 --separate-stderr told "$format" --device host0
        [[ $stderr == *"$T/host/apir.sock has mode 0660"*'must be in the group 4711'* ]]
    done
    [[ $(told docker --device host0) == *' --group-add 4711 '* ]]
    [[ $(told podman --device host0) == *' --group-add 4711 '* ]]
    told quadlet --device host0 | grep -Fx 'GroupAdd=4711'
    told compose --device host0 | grep -A 1 -Fx '    group_add:' | grep -Fx '      - "4711"'
    for format in podman quadlet; do
        setpriv --reuid 4321 --regid 4321 --clear-groups "$APIR" spec --spec "$T/cdi/apir.json" --format "$format" \
            --device host0 | grep -E -- 'GroupAdd=keep-groups|--group-add keep-groups'
    done
    chmod 0600 "$T/host/apir.sock"
    run -0 --separate-stderr told docker --device host0
    [[ $output != *group-add* && $stderr == *'only its owner'* ]]
    rm "$T/host/apir.sock"
    run -0 --separate-stderr told lxc --device host0
    [[ $stderr == *"nobody listens at $T/host/apir.sock"*apir-host.socket* ]]
}

@test "spec: an engine that does not read the folder, and one that refuses the device" {
    for format in podman docker compose quadlet distrobox; do
        run -0 --separate-stderr told "$format"
        [[ $stderr == *'does not look for specs in that folder'*'/etc/cdi/apir.json'* ]]
    done
    run -0 --separate-stderr told lxc
    [[ $stderr != *'does not look'* ]]
    APIR=$(realpath "$APIR")
    run -0 --separate-stderr unshare --mount --propagation private sh -ec '
        mkdir -p /etc/cdi; mount --bind "$1/cdi" /etc/cdi; "$2" spec --format docker
        cp "$1/cdi/apir.json" "$1/cdi/again.json"; "$2" spec --format docker' sh "$T" "$APIR"
    [[ ${lines[0]} == '--device virtgpu/apir=gpu0 '* && $stderr != *'does not look'* ]]
    [[ $stderr == *again.json*'take one away'* ]]
}

podman_here() {
    timeout "$(patience 60)" env PODMAN_IGNORE_CGROUPSV1_WARNING=1 podman --root "$T/podman" --runroot "$T/podman-run" \
        --cgroup-manager=cgroupfs --events-backend=none --runtime=runc --hooks-dir="$T/none" --cdi-spec-dir "$T/cdi" \
        "$@" </dev/null 3>&-
}

@test "spec: podman with what it is told, and the variables are there in an exec" {
    local options
    mkdir -p "$T/rootfs/bin" "$T/none"
    cp /bin/busybox "$T/rootfs/bin/"
    chgrp 4711 "$T/host/apir.sock"
    chmod 0660 "$T/host/apir.sock"
    odd
    eval "options=($(told podman --device host0))"
    podman_here run -d --name box --network=none --user 1234 "${options[@]}" --rootfs "$T/rootfs" \
        /bin/busybox sleep 600
    run -0 podman_here exec box /bin/busybox sh -c 'env; id; wc -c /usr/lib/apir/*.so'
    podman_here rm -f -t 0 box
    grep -Fx "ODD=$ODD" <<<"$output"
    grep -Fx "APIR_TRANSPORT=unix:/run/apir/host/apir.sock" <<<"$output"
    grep -w 4711 <<<"$output"
    grep -F "$(stat -L -c %s "$PLUGIN") /usr/lib/apir/libggml-apir.so" <<<"$output"
}

@test "spec: what stands for no device of Vulkan where an empty variable cannot be" {
    run -0 env "VK_DRIVER_FILES=$LAVAPIPE" GGML_VK_VISIBLE_DEVICES=0 llama-bench --list-devices
    [[ $output == *Vulkan0* ]]
    run -0 env "VK_DRIVER_FILES=$LAVAPIPE" GGML_VK_VISIBLE_DEVICES=none llama-bench --list-devices
    [[ $output != *Vulkan0* ]]
}
