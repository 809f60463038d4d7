# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154 # jq has variables of its own; bats sets status, output and stderr
#
# For the tests of the hook: containers of runc, without an engine and without a VM, on an
# overlay as engines make it. APIR0 is reached over vtest (tests/system/system.bash).
#
#   bundle_new LOWER...   a bundle whose image is these folders, the first one on top: sets
#                         BUNDLE, ROOTFS (the merged tree), UPPER (what the container wrote)
#   bundle_edit FILTER    changes its config.json with jq
#   bundle_hook           adds apir-hook as createContainer, asked for by the annotation
#   bundle_vtest          mounts the server's folder and names it, in an otherwise empty environment
#   bundle_run CMD...     runs the container; sets status, output, stderr as bats' run does
#   hook_log              what the hook said
#   layer NAME            an empty folder to be filled as a layer; prints it
#
# The tests end with their mount namespace: nothing that a failed one mounted stays.

load ../system.bash

HOOK=$(realpath "$OUT/hook/apir-hook")
# The build root as it is on the disk (see run.sh): Debian with llama.cpp, and no file of ours.
DEBIAN=/mnt
[[ -d $DEBIAN/usr ]] || DEBIAN=/

bundle_setup() {
    common_setup
    PLUGIN=$(realpath "$PLUGIN")
    BUNDLES=0
}

bundle_teardown() {
    local mounted
    if [[ -z ${BATS_TEST_COMPLETED-} && -s $T/hook.log ]]; then
        echo "--- the hook's log:"
        cat "$T/hook.log"
    fi
    common_teardown
    for mounted in "$T"/bundle*/rootfs "$T"/bundle*; do
        umount -R -l "$mounted" 2>/dev/null || :
    done
}

bundle_new() {
    local lower
    BUNDLES=$((BUNDLES + 1))
    BUNDLE=$T/bundle$BUNDLES ROOTFS=$BUNDLE/rootfs UPPER=$BUNDLE/upper
    mkdir "$BUNDLE"
    # An overlay's upper layer needs a file system that can carry one; /tmp may be none.
    mount -t tmpfs -o mode=0755 tmpfs "$BUNDLE"
    mkdir "$ROOTFS" "$UPPER" "$BUNDLE/work"
    lower=$(IFS=:; echo "$*")
    mount -t overlay -o "lowerdir=$lower,upperdir=$UPPER,workdir=$BUNDLE/work" overlay "$ROOTFS"
    runc spec --bundle "$BUNDLE"
    # Cgroups of the machine are not ours to arrange.
    bundle_edit '.process.terminal = false | .process.env = [] | .root.readonly = false |
        .linux.resources = {} | .hooks = {} |
        .mounts |= map(select(.destination != "/sys/fs/cgroup"))'
}

bundle_edit() {
    jq "$@" <"$BUNDLE/config.json" >"$BUNDLE/config.new"
    mv "$BUNDLE/config.new" "$BUNDLE/config.json"
}

bundle_hook() {
    # runc shows a hook's words only if it fails.
    # shellcheck disable=SC2016 # expanded by the hook's shell
    bundle_edit --arg hook "$HOOK" --arg plugin "$PLUGIN" --arg log "$T/hook.log" '
        .annotations["apir.device"] = "gpu0" |
        .hooks.createContainer = [{path: "/bin/sh",
            args: ["sh", "-c", "exec \"$0\" createContainer --plugin \"$1\" 2>>\"$2\"",
                   $hook, $plugin, $log],
            env: ["PATH=/usr/bin:/bin"]}]'
}

bundle_vtest() {
    bundle_edit --arg dir "$VTEST_DIR" '
        .process.env += ["APIR_TRANSPORT=vtest:/run/vtest/socket"] |
        .mounts += [{destination: "/run/vtest", source: $dir, type: "bind",
                     options: ["bind", "rprivate"]}]'
}

bundle_mount() { # SOURCE DESTINATION
    bundle_edit --arg from "$(realpath "$1")" --arg to "$2" '
        .mounts += [{destination: $to, source: $from, type: "bind",
                     options: ["bind", "ro", "rprivate"]}]'
}

bundle_run() {
    bundle_edit '.process.args = $ARGS.positional' --args -- "$@"
    : >"$T/hook.log"
    run --separate-stderr timeout -k 5 "$(patience 120)" \
        runc --root "$T/runc" run --bundle "$BUNDLE" "t$$-$BUNDLES-${BATS_TEST_NUMBER-0}"
    # For the reader of a failed test.
    echo "status $status"
    echo "$output"
    echo "$stderr" | tail -n 20
    cat "$T/hook.log"
}

hook_log() {
    cat "$T/hook.log"
}

hook_lines() {
    wc -l <"$T/hook.log"
}

layer() {
    mkdir -p "$T/layers/$1"
    echo "$T/layers/$1"
}

# busybox and nothing else, as the smallest of images.
layer_busybox() {
    local dir
    dir=$(layer busybox)
    mkdir -p "$dir"/{bin,usr/bin,usr/lib,dev,proc,sys,run,tmp,etc}
    cp "$(command -v busybox)" "$dir/bin/busybox"
    ln -sf busybox "$dir/bin/sh"
    echo "$dir"
}
