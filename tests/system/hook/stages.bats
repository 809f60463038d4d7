#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What each stage does, under runc: the request, the work, and what is said where
# nothing can be done.

. "${BATS_TEST_DIRNAME}/hook.bash"

# As podman does with its precreate hooks.
precreated() { # BUNDLE
    "$HOOK" precreate --spec "$SPEC" <"$1/config.json" >"$1/config.new"
    mv "$1/config.new" "$1/config.json"
}

@test "the spec of these tests is one that apir cdi validate takes" {
    "$APIR_OUT/cdi/apir" cdi validate "$SPEC"
}

@test "an unknown stage warns and lets the container start" {
    bundle "$B"
    edit "$B" ".hooks.createContainer = [{path: \"$HOOK\", args: [\"apir-hook\", \"chmod\"], env: [\"A=b\"]}]"
    container "$B" "echo started" | grep -qx started
    logged 'stage "chmod" is not known'
}

@test "poststop has nothing to do and says nothing" {
    bundle "$B"
    hooked "$B" poststop
    asking "$B" gpu0
    container "$B" "echo started" | grep -qx started
    silent
}

@test "without a request no stage does or says anything" {
    bundle "$B"
    for stage in prestart createRuntime createContainer poststop; do
        hooked "$B" "$stage" --plugin "$PLUGIN"
    done
    edit "$B" '.process.env += ["GGML_BACKEND_PATH=/usr/lib/other.so", "APIR_DEVICE_=1", "APIR_DEVICE_x=1", "XAPIR_DEVICE_0=1"]'
    nothing_happens
}

@test "what an image can set by itself asks for nothing: variables, a volume in the plug-in's place" {
    bundle "$B"
    for stage in prestart createRuntime createContainer; do
        hooked "$B" "$stage" --plugin "$PLUGIN"
        # A device that every machine could give, if it were asked for.
        [ $stage = createContainer ] || edit "$B" ".hooks.${stage}[0].args += [\"--spec\", \"$SPEC\"]"
    done
    jq '.devices[0].containerEdits = .devices[1].containerEdits' "$SPEC" >"$SPEC.new"
    mv "$SPEC.new" "$SPEC"
    mkdir -p "$BATS_TEST_TMPDIR/volume" "$B/rootfs$INSIDE"
    edit "$B" ".process.env += [\"APIR_DEVICE_0=x\", \"GGML_BACKEND_PATH=$INSIDE\", \"APIR_TRANSPORT=auto\"] |
        .mounts += [{destination: \"$INSIDE\", source: \"$BATS_TEST_TMPDIR/volume\", type: \"bind\",
                     options: [\"bind\"]}]"
    nothing_happens "$INSIDE"
}

# nothing_happens [PATH]: no mount but that one, no file, no line in the log; precreate neither.
nothing_happens() {
    tree "$B/rootfs" >"$BATS_TEST_TMPDIR/before"
    container "$B" "/bin/busybox cat /proc/self/mountinfo" >"$BATS_TEST_TMPDIR/mounts"
    run ! grep -E "libggml|/run/apir" <(grep -v " ${1:-none} " "$BATS_TEST_TMPDIR/mounts")
    tree "$B/rootfs" | diff "$BATS_TEST_TMPDIR/before" -
    silent
    cp "$B/config.json" "$BATS_TEST_TMPDIR/config.json"
    precreated "$B"
    cmp "$B/config.json" "$BATS_TEST_TMPDIR/config.json"
    silent
}

@test "createRuntime mounts what the spec says and places the plug-in, by an annotation" {
    prepared createRuntime virtgpu/apir=host0
    container "$B" "cat /run/apir/host/mark; sha256sum $INSIDE $SLOT; sh -c ': >$INSIDE'; sh -c ': >/run/apir/host/mark'" >"$BATS_TEST_TMPDIR/out" 2>&1 || true
    cat "$BATS_TEST_TMPDIR/out"
    sum=$(sha256sum <"$PLUGIN" | cut -d' ' -f1)
    grep -qx socket "$BATS_TEST_TMPDIR/out"
    [ "$(grep -c "^$sum " "$BATS_TEST_TMPDIR/out")" -eq 2 ]
    [ "$(grep -c 'Read-only file system' "$BATS_TEST_TMPDIR/out")" -eq 2 ]
    logged "placed as $SLOT"
    # The one variable that the plug-in cannot do without there.
    logged 'add -e APIR_TRANSPORT=unix:/run/apir/host/apir.sock'
}

@test "createRuntime mounts once what two devices share, and says by a name which they are" {
    jq --arg plugin "$PLUGIN" '.devices += [.devices[1] | .name = "host0-1" | .containerEdits.mounts +=
        [{hostPath: $plugin, containerPath: "/usr/lib/apir/devices/host0-1=cpu",
                        options: ["ro", "nosuid", "nodev", "bind", "rprivate"]}]]' "$SPEC" >"$SPEC.new"
    mv "$SPEC.new" "$SPEC"
    prepared createRuntime host0,host0-1
    container "$B" "cat /run/apir/host/mark; cmp $INSIDE /usr/lib/apir/devices/host0-1=cpu && echo given" >"$BATS_TEST_TMPDIR/out"
    diff - "$BATS_TEST_TMPDIR/out" <<<$'socket\ngiven'
    [ "$(grep -c 'mounted /run/apir/host$' "$LOG")" -eq 1 ]
    run ! grep -q 'a part of the host' "$LOG"
}

@test "prestart does the same" {
    prepared prestart host0
    container "$B" "cat /run/apir/host/mark" | grep -qx socket
    logged "placed as $SLOT"
}

@test "what the spec's variables asked for is not asked for twice" {
    prepared createRuntime host0
    precreated "$B"
    [ "$(jq -c '.hooks.createContainer | length' "$B/config.json")" -eq 1 ]
    rm -f "$LOG"
    container "$B" "echo \$APIR_TRANSPORT; cat /run/apir/host/mark; cmp $INSIDE $SLOT && echo same" >"$BATS_TEST_TMPDIR/out"
    diff - "$BATS_TEST_TMPDIR/out" <<<$'unix:/run/apir/host/apir.sock\nsocket\nsame'
    # Only createContainer's line: createRuntime has seen that it is all there.
    diff - <(sed 's/\[.*\]/[]/' "$LOG") <<<"apir-hook: [] placed as $SLOT"
}

@test "a device that does not exist fails the container, with its name in the log" {
    bundle "$B"
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    for wrong in gpu7 host0,gpu7 other/kind=gpu0 " , " ""; do
        asking "$B" "$wrong"
        run ! container "$B" "echo started"
        [[ $output != *started* ]]
    done
    logged 'no device "gpu7" in the CDI spec; see `apir cdi list`'
    logged 'names no device'
    asking "$B" gpu7
    run ! "$HOOK" precreate --spec "$SPEC" <"$B/config.json"
}

@test "without a spec the container starts, and the log says what to run" {
    bundle "$B"
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec /nonexistent.json
    asking "$B" gpu0
    container "$B" "echo started" | grep -qx started
    logged 'run `apir cdi generate`.*/nonexistent.json'
}

@test "a node that is no virtio-gpu's is not given to a container" {
    prepared createRuntime gpu0
    container "$B" "echo started" | grep -qx started
    logged '/dev/null is no virtio-gpu render node'
    spec "$SPEC" /etc/passwd
    container "$B" "echo started" | grep -qx started
    logged '/etc/passwd is no character device'
}

@test "where the cgroup forbids the device, the flag to add is named" {
    bundle "$B"
    mknod "$BATS_TEST_TMPDIR/renderD128" c 226 128
    spec "$SPEC" "$BATS_TEST_TMPDIR/renderD128"
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    asking "$B" gpu0
    container "$B" "echo started" | grep -qx started
    logged "the container's cgroup forbids .*/renderD128,.*add --device .*/renderD128 .*'c 226:128 rw'"
    # With the flag's rule it is another obstacle, or none: the machine may have such a GPU.
    edit "$B" '.linux.resources.devices += [{allow: true, type: "c", major: 226, minor: 128, access: "rw"}]'
    rm "$LOG"
    container "$B" "echo started" | grep -qx started
    run ! grep -q 'cgroup forbids' "$LOG"
    logged 'renderD128'
}

@test "the root of the host is no container's" {
    bundle "$B"
    asking "$B" host0
    run -1 --separate-stderr "$HOOK" createContainer --plugin "$PLUGIN" \
        < <(state "{root: \"/\", pid: 0, bundle: \"$B\"}")
    [[ $stderr == *"/ is no container's root"* ]]
}

@test "hooks.d: every file's stages are known to the engines that read its folder" {
    for file in "$APIR_OUT"/hook/*.json; do
        jq -e '.version == "1.0.0" and (.hook.path | startswith("/")) and (.hook.env | length > 0) and
            (.when.annotations | has("^apir\\.device$"))' "$file"
    done
    make -s install-hook DESTDIR="$BATS_TEST_TMPDIR/root" prefix=/usr
    # The folders that engines read by themselves: an image can have the annotation, too.
    [ ! -e "$BATS_TEST_TMPDIR/root/usr/share/containers" ]
    [ ! -e "$BATS_TEST_TMPDIR/root/etc" ]
    # CRI-O and `podman build` know no precreate, and refuse the whole folder for it.
    run ! grep -rl precreate "$BATS_TEST_TMPDIR/root/usr/share/apir/hooks.d-runtime"
    [ -e "$BATS_TEST_TMPDIR/root/usr/share/apir/hooks.d-runtime/90-apir.json" ]
    grep -q precreate "$BATS_TEST_TMPDIR/root/usr/share/apir/hooks.d/90-apir-precreate.json"
    # Of two files of one name podman would read one.
    [ "$(find "$BATS_TEST_TMPDIR/root" -name '*.json' -printf '%f\n' | sort | uniq -d)" = "" ]
}

@test "a container with a user namespace gets files of its own root, in its own file systems too" {
    prepared createRuntime host0
    edit "$B" '.linux.namespaces += [{type: "user"}] |
        .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}] |
        .linux.gidMappings = .linux.uidMappings |
        .mounts += [{destination: "/run", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev"]}]'
    chown -R 100000:100000 "$B/rootfs"
    # The way to a root is mostly one that only the host's root can go.
    chmod 755 /run/tests
    chmod 711 "$TMPDIR"/bats-run-* "$TMPDIR"/bats-run-*/{,test} "$BATS_TEST_TMPDIR" "$B"
    container "$B" "cat /run/apir/host/mark; stat -c %u /run/apir; cmp $INSIDE $SLOT && echo same" >"$BATS_TEST_TMPDIR/out"
    cat "$LOG"
    diff - "$BATS_TEST_TMPDIR/out" <<<$'socket\n0\nsame'
    [ "$(stat -c %u "$B/rootfs/usr/lib/apir" "$B/rootfs$SLOT" | sort -u)" = 100000 ]
}
