# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the hook's tests share: an image, a spec, a bundle, and runc to run it.
# run.sh gives each run a mount namespace and a /dev of its own, so that the
# hook's log is a file that can be read: there is no syslog.

bats_require_minimum_version 1.5.0

# shellcheck source=tests/lib/patience.bash
. "${BATS_TEST_DIRNAME}/../../lib/patience.bash"

HOOK=$(realpath "$APIR_OUT/hook/apir-hook")
PLUGIN=$(realpath "$APIR_OUT/frontend/libggml-apir.so")
INSIDE=/usr/lib/apir/libggml-apir.so
LIB=/usr/lib/x86_64-linux-gnu
MODULES=$LIB/ggml/backends0
SLOT=$MODULES/libggml-virtgpu.so
LOG=/run/apir-hook.log
# What a hook's environment is, as JSON. A sanitizer that looks for leaks goes by /proc/PID, which in a container's
# namespaces may be another process, or none: the units look for leaks.
HOOK_ENV='["PATH=/bin", "ASAN_OPTIONS=detect_leaks=0"]'
export HOOK PLUGIN INSIDE LIB MODULES SLOT LOG HOOK_ENV

# For files without their own: a bundle to be made, and the spec of its devices.
hook_setup() {
    rm -f "$LOG"
    B=$BATS_TEST_TMPDIR/bundle
    SPEC=$BATS_TEST_TMPDIR/spec.json
    spec "$SPEC"
}
setup() { hook_setup; }

# image DIR: a root file system with a shell and Debian's ggml where Debian has it.
image() {
    mkdir -p "$1"/{bin,dev,proc,sys,run,tmp,etc} "$1$MODULES"
    cp /bin/busybox "$1/bin/"
    ln -s busybox "$1/bin/sh"
    cp -P "$LIB"/libggml{,-base}.so.* "$1$LIB/"
    cp "$MODULES/libggml-cpu-x64.so" "$1$MODULES/"
}

# spec FILE [NODE]: what `apir cdi generate` writes for gpu0; and host0, a folder.
# NODE stands for a render node, which this machine need not have.
# spec_dev FILE: the same, and the folder below /dev as well.
spec() {
    mkdir -p "$BATS_TEST_TMPDIR/host0"
    echo socket >"$BATS_TEST_TMPDIR/host0/mark"
    jq -n --arg node "${2:-/dev/null}" --arg plugin "$PLUGIN" --arg inside "$INSIDE" \
        --arg host0 "$BATS_TEST_TMPDIR/host0" --arg hook "$HOOK" --argjson env "$HOOK_ENV" '
        {cdiVersion: "0.3.0", kind: "virtgpu/apir",
         devices: [
            {name: "gpu0", containerEdits: {deviceNodes: [{path: $node, permissions: "rw"}]}},
            {name: "host0", containerEdits: {
                env: ["APIR_TRANSPORT=unix:/run/apir/host/apir.sock"],
                mounts: [{hostPath: $host0, containerPath: "/run/apir/host",
                          options: ["ro", "nosuid", "nodev", "bind", "rprivate"]}]}}],
         containerEdits: {
            env: ["GGML_BACKEND_PATH=" + $inside, "GGML_VK_VISIBLE_DEVICES="],
            mounts: [{hostPath: $plugin, containerPath: $inside,
                      options: ["ro", "nosuid", "nodev", "bind", "rprivate"]}],
            hooks: [{hookName: "createContainer", path: $hook,
                     args: ["apir-hook", "createContainer", "--plugin", $plugin],
                     env: $env, timeout: 10}]}}' >"$1"
}

spec_dev() {
    spec "$1"
    jq '.devices[1].containerEdits.mounts += [.devices[1].containerEdits.mounts[0] |
        .containerPath = "/dev/apir"]' "$1" >"$1.new"
    mv "$1.new" "$1"
}

# bundle DIR [JQ-FILTER]: runc's own configuration, without a terminal, writable.
bundle() {
    mkdir -p "$1"
    [ -d "$1/rootfs" ] || image "$1/rootfs"
    (cd "$1" && rm -f config.json && runc spec)
    edit "$1" '.process.terminal = false | .root.readonly = false |
        .process.env = ["PATH=/bin"] | .process.args = ["/bin/sh", "-c", "/bin/busybox cat /proc/self/mountinfo"]'
    [ $# -lt 2 ] || edit "$1" "$2"
}

# edit BUNDLE JQ-FILTER
edit() {
    jq "$2" "$1/config.json" >"$1/config.new"
    mv "$1/config.new" "$1/config.json"
}

# hooked BUNDLE STAGE [ARG]...: the hook at this stage, as a user of runc would write it.
hooked() {
    local bundle=$1 stage=$2
    shift 2
    local args
    args=$(jq -cn '$ARGS.positional' --args -- apir-hook "$stage" "$@")
    edit "$bundle" ".hooks.$stage += [{path: \"$HOOK\", args: $args, env: $HOOK_ENV}]"
}

asking() { # BUNDLE DEVICES
    edit "$1" ".annotations[\"apir.device\"] = \"$2\""
}

# prepared STAGE DEVICE: bundle B with the hook at this stage, and the request for the device.
prepared() {
    bundle "$B"
    hooked "$B" "$1" --plugin "$PLUGIN" --spec "$SPEC"
    asking "$B" "$2"
}

# container BUNDLE [SCRIPT]: runs it to its end.
container() {
    [ $# -lt 2 ] || edit "$1" ".process.args = [\"/bin/sh\", \"-c\", $(jq -cn --arg s "$2" '$s')]"
    runc --root "$BATS_TEST_TMPDIR/runc" run --bundle "$1" "t$$-$RANDOM"
}

logged() { # PATTERN
    grep -Eq -- "$1" "$LOG" || {
        echo "not logged: $1"
        cat "$LOG"
        return 1
    }
}

silent() {
    [ ! -s "$LOG" ] || {
        cat "$LOG"
        return 1
    }
}

# state JQ-OBJECT: prints a state; what the object has goes before the rest.
state() {
    jq -cn '{ociVersion: "1.2.1", id: "c1", status: "creating", bundle: "/nonexistent"} + '"$1"
}

# once BUNDLE STAGE [HOOK-ARG]...: the hook on a root in a mount namespace as runtimes
# make it, without a runtime; `mount POINT SOURCE` for each new mount, then `exit N`.
once() {
    local bundle=$1 stage=$2
    shift 2
    "$APIR_OUT/tests/system/hook/race" "$HOOK" "$stage" 0 "$bundle" --plugin "$PLUGIN" "$@"
}

# tree DIR: everything in it, to be compared.
tree() {
    find "$1" -printf '%P %y %m %s %i %T@ %l\n' | sort
}
