#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The hook and the image: real containers of runc whose root is a real tree, and in which the
# hook places the plug-in. "Empty environment" means that but the transport is set: nothing in it
# leads to the plug-in.

# shellcheck disable=SC2016,SC2153,SC2154 # as in bundle.bash
load bundle.bash

setup() {
    bundle_setup
    model_small
}
teardown() { bundle_teardown; }

DEBIANS=/usr/lib/x86_64-linux-gnu/ggml/backends0

# llama-bench of the bundle lists APIR0, once.
lists_apir() {
    bundle_run /usr/bin/llama-bench --list-devices
    [[ $status -eq 0 && $(grep -cE '^ *APIR0: ' <<<"$output$stderr") -eq 1 ]]
}

# A container of these layers with the hook starts; the hook has said one line.
starts() { # PATTERN LAYER...: what is in its log
    bundle_new "${@:2}"
    bundle_hook
    bundle_run /bin/sh -c 'echo started'
    [[ $status -eq 0 && $output == started && $(hook_lines) -eq 1 ]]
    grep -q "$1" <(hook_log)
}

# A bundle of Debian's llama.cpp that reaches the server.
debian() {
    server_start
    bundle_new "$@" "$DEBIAN"
    bundle_hook
    bundle_vtest
}

# ---- what images have ------------------------------------------------------------------

@test "image: Debian's llama.cpp lists APIR0 with an empty environment" {
    debian
    lists_apir
    # Vulkan is in this tree: a name that comes before it.
    grep -q "placed as $DEBIANS/libggml-metal.so" <(hook_log)
    [[ $(hook_lines) -eq 1 ]]
    # One file of the container's own, in its layer, and no mount.
    cmp "$PLUGIN" "$UPPER$DEBIANS/libggml-metal.so"
    [[ $(find "$UPPER" -name '*libggml*' | wc -l) -eq 1 ]]
    bundle_run /usr/bin/cat /proc/self/mountinfo
    refute grep -q libggml <<<"$output"
    refute test -e "$DEBIAN$DEBIANS/libggml-metal.so"
}

@test "image: Debian's llama.cpp computes on APIR0 what it computes natively" {
    local native
    debian
    bundle_mount "$MODEL" /model.gguf
    # Its printing thread is not waited for: on a busy machine the last words, and what comes after, may
    # be missing, natively too.
    until grep -q 'graph reallocs' "$T/native.err" 2>/dev/null; do
        native=$(timeout "$(patience 60)" llama-completion -m "$MODEL" "${GREEDY[@]}" -dev none \
            2>"$T/native.err" </dev/null)
    done
    echo "natively: $native"
    # A device that is not there is an error, not another device.
    until [[ ${stderr-} == *'graph reallocs'* ]]; do
        bundle_run /usr/bin/llama-completion -m /model.gguf "${GREEDY[@]}" -ngl 99 -dev APIR0
        [[ $status -eq 0 ]]
    done
    [[ -n $native && $output == "$native" ]]
}

@test "image: with GGML_BACKEND_PATH set as well the device is listed once" {
    debian
    bundle_mount "$PLUGIN" /usr/lib/apir/libggml-apir.so
    bundle_edit '.process.env += ["GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so"]'
    lists_apir
    grep -q libggml-metal.so <<<"$stderr"
    grep -q /usr/lib/apir/libggml-apir.so <<<"$stderr"
    refute grep -q 'failed to initialize' <<<"$stderr"
    # One of them does it all.
    bundle_edit '.process.env += ["APIR_LOG=info"]'
    lists_apir
    [[ $(grep -c '^apir: .* device(s), first ' <<<"$stderr") -eq 1 ]]
    # Nor is it listed twice in a process that the engine starts later.
    bundle_edit '.process.env -= ["GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so"]'
    lists_apir
}

@test "image: what is wrong with the host is said once, whatever loads the plug-in" {
    debian
    bundle_mount "$PLUGIN" /usr/lib/apir/libggml-apir.so
    bundle_edit '.process.env |= map(select(startswith("APIR_TRANSPORT") | not)) +
        ["GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so", "APIR_TRANSPORT=unix:/run/nobody"]'
    bundle_run /usr/bin/llama-bench --list-devices
    [[ $status -eq 0 && $(grep -c '^apir: ' <<<"$stderr") -eq 1 ]]
}

@test "image: another copy of the plug-in in the same process is listed once too" {
    local dir
    debian
    dir=$(layer copy)
    cp "$PLUGIN" "$dir/other.so"
    bundle_mount "$dir/other.so" /usr/lib/apir/libggml-apir.so
    bundle_edit '.process.env += ["GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so", "APIR_LOG=info"]'
    lists_apir
    grep -q 'apir: the device is listed already' <<<"$stderr"
}

@test "image: a second start of the same container has the machine's plug-in, whatever the first one had" {
    local i slot
    debian
    slot=$UPPER$DEBIANS/libggml-metal.so
    for i in same older empty; do
        case $i in
        older) strip -o "$T/older" "$PLUGIN" && cp "$T/older" "$slot" ;;
        empty) : >"$slot" ;;
        esac
        lists_apir
        grep -q 'placed as .*libggml-metal.so' <(hook_log)
        [[ $(hook_lines) -eq 1 ]]
        cmp "$PLUGIN" "$slot"
        [[ $(find "$UPPER" -name '*libggml*' | wc -l) -eq 1 ]]
    done
}

# What entry points do to a folder of their image before the program starts.
ENTRY_POINTS=(
    'chown -R 1234:1234 $F'
    'chown 1234 $F/*'
    'chmod -R u=rwX,go=rX $F'
    'chmod 0755 $F/*'
    'find $F ! -user 1234 -exec chown 1234 {} +'
    'find $F -type f -exec chmod a+x {} +'
    'touch $F/*'
    'cp -a $F /tmp/copy && rm -rf $F && mv /tmp/copy $F'
    'mv $F $F.old && mv $F.old $F'
    'for f in $F/*; do mv $f $f.x && mv $f.x $f; done'
    'tar -C $F -cf /tmp/all.tar . && rm -r $F && mkdir $F && tar -C $F -xf /tmp/all.tar'
    'sed -i s/a/a/ $F/*.txt'
)

# One entry point after the other, in containers of this bundle; then the device.
entry_points_pass() {
    local entry
    for entry in "${ENTRY_POINTS[@]}"; do
        bundle_run /bin/sh -ec "F=$DEBIANS; $entry; exec /usr/bin/llama-bench --list-devices"
        [[ $status -eq 0 && $(grep -cE '^ *APIR0: ' <<<"$output$stderr") -eq 1 ]] || {
            echo "$entry"
            return 1
        }
        grep -q 'placed as' <(hook_log)
    done
    # It may go as well.
    bundle_run /bin/sh -ec "rm -rf $DEBIANS; rmdir ${DEBIANS%/*}"
    [[ $status -eq 0 ]]
}

text_layer() {
    local dir
    dir=$(layer text)$DEBIANS
    mkdir -p "$dir"
    echo a >"$dir/a.txt"
    layer text
}

CAPABILITIES='["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETUID", "CAP_SETGID"]'

@test "image: an entry point that changes, moves or removes its folder starts with the device as without it" {
    debian "$(text_layer)"
    bundle_edit --argjson c "$CAPABILITIES" '.process.capabilities[] = $c'
    entry_points_pass
}

@test "image: the same in a user namespace" {
    debian "$(text_layer)"
    bundle_edit --argjson c "$CAPABILITIES" '.process.capabilities[] = $c | .linux.namespaces += [{type: "user"}] |
        .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}] | .linux.gidMappings = .linux.uidMappings'
    # As an engine has it: the files are those of the container's root.
    chown -R 100000:100000 "$ROOTFS$DEBIANS" "$ROOTFS/tmp"
    chown 100000:100000 "$ROOTFS${DEBIANS%/*}" "$ROOTFS${DEBIANS%/*/*}"
    mkdir -p "$ROOTFS/run/vtest"
    # It is that user who logs.
    : >"$T/hook.log"
    chmod 666 "$T/hook.log"
    chmod 755 /run/tests
    chmod 711 "$TMPDIR"/bats-run-* "$TMPDIR"/bats-run-*/{,test} "$T"
    chmod 777 "$VTEST_DIR" "$VTEST_DIR/socket"
    entry_points_pass
}

# Only the owner may do these.
OWNERS_ENTRY_POINTS=(
    'chown -R 1234:1234 $F'
    'chmod -R u+rwX $F'
    'touch -d yesterday $F/*'
    'for f in $F/*; do cp $f /tmp/file && cat /tmp/file >$f; done'
)

@test "image: an entry point of the user who owns the folder starts with the device as without it" {
    local client entry
    debian
    chmod 711 "$TMPDIR"/bats-run-* "$TMPDIR"/bats-run-*/{,test} "$T"
    chmod 777 "$VTEST_DIR" "$VTEST_DIR/socket"
    chmod 1777 "$ROOTFS/tmp"
    bundle_edit '.process.user = {uid: 1234, gid: 1234}'
    for client in '' "the image's"; do
        [[ -z $client ]] || echo "$client" >"$ROOTFS$DEBIANS/libggml-virtgpu.so"
        rm -f "$ROOTFS$DEBIANS/libggml-metal.so"
        chown -R 1234:1234 "$ROOTFS$DEBIANS"
        for entry in "${OWNERS_ENTRY_POINTS[@]}"; do
            bundle_run /bin/sh -ec "F=$DEBIANS; $entry; exec /usr/bin/llama-bench --list-devices"
            [[ $status -eq 0 && $(grep -cE '^ *APIR0: ' <<<"$output$stderr") -eq 1 ]] || {
                echo "$client: $entry"
                return 1
            }
        done
    done
}

@test "image: what a committed layer has kept is silent without a device, and the machine's with one" {
    debian
    lists_apir
    cp -a "$UPPER/." "$(layer committed)"
    # Without anything of ours: no node, no socket, no variable.
    bundle_new "$(layer committed)" "$DEBIAN"
    bundle_run /usr/bin/llama-bench --list-devices
    [[ $status -eq 0 ]]
    refute grep -qE 'APIR[0-9]|^apir:|failed' <<<"$output$stderr"
    # Of an older version.
    strip -o "$(layer committed)$DEBIANS/libggml-metal.so" "$PLUGIN"
    bundle_new "$(layer committed)" "$DEBIAN"
    bundle_hook
    bundle_vtest
    lists_apir
    [[ $(hook_lines) -eq 1 ]]
    cmp "$PLUGIN" "$UPPER$DEBIANS/libggml-metal.so"
    run -0 "$OUT/cdi/apir" doctor --image "$ROOTFS"
    [[ $output == *"PASS  place      $DEBIANS/libggml-metal.so"* && $output != *"over the image's own"* ]]
}

@test "image: the root is made read-only for the container: placed all the same" {
    debian
    bundle_edit '.root.readonly = true'
    lists_apir
    bundle_run /usr/bin/touch /usr/file
    [[ $status -ne 0 ]]
}

@test "image: the root is on a read-only file system: one line, and the container starts" {
    debian
    bundle_mount "$PLUGIN" /usr/lib/apir/libggml-apir.so
    # The mount points are there, as an engine has them made.
    mkdir -p "$ROOTFS/run/vtest" "$ROOTFS/usr/lib/apir"
    touch "$ROOTFS/usr/lib/apir/libggml-apir.so"
    mount --bind "$ROOTFS" "$ROOTFS"
    mount -o remount,bind,ro "$ROOTFS"
    bundle_edit '.root.readonly = true |
        .process.env += ["GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so"]'
    lists_apir
    [[ $(hook_lines) -eq 1 ]]
    grep -q 'not placed: the root is read-only' <(hook_log)
}

@test "image: a client of its own under the name virtgpu is covered: no abort, one device" {
    local dir
    dir=$(layer own)$DEBIANS
    mkdir -p "$dir"
    # As upstream's does where it finds another host than its own.
    gcc -shared -fPIC -x c - -o "$dir/libggml-virtgpu.so" <<<'
        #include <stdlib.h>
        void *ggml_backend_init(void) { abort(); }
        int ggml_backend_score(void) { abort(); }'
    # It does what it is here for.
    debian "$(layer own)"
    bundle_edit '.hooks = {}'
    bundle_run /usr/bin/llama-bench --list-devices
    [[ $status -ne 0 ]]
    bundle_hook
    lists_apir
    grep -q "placed as $DEBIANS/libggml-virtgpu.so" <(hook_log)
    # The image's own file is below the mount, unchanged.
    refute test -e "$UPPER$DEBIANS/libggml-virtgpu.so"
}

@test "image: node-llama-cpp computes on APIR0 with an empty environment" {
    local folder=/app/node_modules/@node-llama-cpp/linux-x64 native dir version
    for version in node-x64 node-x64-old; do
        tests/system/hook/npm.sh "$version" >"$T/npm" || { [[ -z ${CI-} ]]; skip "the package is not here and cannot be fetched"; }
        dir=$(layer "$version")
        mkdir -p "$dir${folder%/*}"
        cp -r "$(cat "$T/npm")" "$dir$folder"
        cp tests/system/hook/node_llama.cjs "$dir/app/test.cjs"
        [[ -n $VTEST_PID ]] || server_start
        bundle_new "$dir" "$DEBIAN"
        bundle_hook
        bundle_vtest
        bundle_mount "$MODEL" /model.gguf
        bundle_edit '.hooks = {}'
        bundle_run /usr/bin/node /app/test.cjs "$folder/bins/linux-x64" /model.gguf
        [[ $status -eq 0 && $(jq '.devices | length' <<<"$output") -eq 0 ]]
        native=$(jq -c .made <<<"$output")
        bundle_hook
        bundle_run /usr/bin/node /app/test.cjs "$folder/bins/linux-x64" /model.gguf
        [[ $status -eq 0 && $(jq '.devices | length' <<<"$output") -eq 1 ]]
        [[ $(jq '.made | length' <<<"$output") -eq 12 && $(jq .vram <<<"$output") -gt 0 ]]
        # The old one's kernels are others than the host's: so are its words, in time.
        [[ $version == node-x64-old || $(jq -c .made <<<"$output") == "$native" ]]
        grep -q "placed as $folder/bins/linux-x64/libggml-metal.so" <(hook_log)
        # Twice loaded, from two paths.
        bundle_mount "$PLUGIN" /usr/lib/apir/libggml-apir.so
        bundle_edit '.process.env += ["GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so"]'
        bundle_run /usr/bin/node /app/test.cjs "$folder/bins/linux-x64" /model.gguf
        [[ $status -eq 0 && $(jq '.devices | length' <<<"$output") -eq 1 ]]
    done
}

@test "image: an addon with all of ggml in it computes on APIR0 if the loader is called, and one line says so" {
    local folder=/app/node_modules/@fugood/node-llama-linux-x64 dir native
    # Its kernels are not the host's: with other weights the last bit of a sum may choose another word.
    model f32 --arch llama --preset 3M --type f32
    tests/system/hook/npm.sh node-x64-static >"$T/npm" || { [[ -z ${CI-} ]]; skip "the package is not here and cannot be fetched"; }
    dir=$(layer static)
    mkdir -p "$dir${folder%/*}"
    cp -r "$(cat "$T/npm")" "$dir$folder"
    cp tests/system/hook/node_static.cjs "$dir/app/test.cjs"
    gcc -shared -fPIC -x c - -o "$dir/app/caller.node" <<'C'
        #include <dlfcn.h>
        #include <stdlib.h>
        void *napi_register_module_v1(void *env, void *exports)
        {
            void *addon = dlopen(getenv("NODE_STATIC_ADDON"), RTLD_NOW | RTLD_NOLOAD);
            ((void (*)(void))dlsym(addon, "ggml_backend_load_all"))();
            (void)env;
            return exports;
        }
C
    debian "$dir"
    bundle_mount "$MODEL" /model.gguf
    bundle_run /usr/bin/node /app/test.cjs "$folder" /model.gguf
    # Its log is in there, too.
    native=$(grep '^{"devices"' <<<"$output")
    [[ $status -eq 0 && $(jq -c .devices <<<"$native") == '["CPU"]' ]]
    grep -q "perhaps no acceleration for the ggml in $folder/index.node: its CPU backend is linked in" <(hook_log)
    grep -q "placed as $folder/libggml-metal.so" <(hook_log)
    run -0 "$APIR_OUT/cdi/apir" doctor --image "$dir"
    [[ $output == *"WARN  ggml"*"$folder/index.node"*'only if the program itself calls'* ]]
    bundle_run /usr/bin/node /app/test.cjs "$folder" /model.gguf /app/caller.node
    output=$(grep '^{"devices"' <<<"$output")
    [[ $status -eq 0 && $(jq -c .devices <<<"$output") == '["CPU","APIR0"]' ]]
    [[ $(jq .text <<<"$output") == "$(jq .text <<<"$native")" && $(jq '.text | length' <<<"$output") -gt 12 ]]
}

@test "image: the working directory is looked into, wherever it is" {
    local dir
    dir=$(layer odd)/data/of/mine
    mkdir -p "$dir"
    cp /usr/lib/x86_64-linux-gnu/{libggml.so.0,libggml-base.so.0} "$dir"
    cp "$DEBIANS"/libggml-cpu-x64.so "$dir"
    bundle_new "$(layer odd)" "$(layer_busybox)"
    bundle_hook
    bundle_run /bin/sh -c true
    [[ $status -eq 0 ]]
    grep -q 'no ggml found' <(hook_log)
    bundle_edit '.process.cwd = "/data/of/mine"'
    bundle_run /bin/sh -c true
    [[ $status -eq 0 ]]
    grep -q 'placed as /data/of/mine/libggml-' <(hook_log)
}

@test "image: what the hook wants a ggml to export is what the plug-in looks up" {
    local name n=0
    for name in $(sed -n '/image_ggml_functions\[\] = {/,/};/p' common/image/ggml.c | grep -o '"[a-z_]*"'); do
        grep -aqF "${name//\"/}" "$PLUGIN"
        n=$((n + 1))
    done
    [[ $n -ge 15 ]]
}

# ---- where nothing will work ---------------------------------------------------------------

@test "image: without any ggml it starts, and one line says so" {
    starts 'no ggml found in the usual places of this image' "$(layer_busybox)"
    [[ -z $(find "$UPPER" -name 'libggml*') ]]
}

@test "image: what helps an exec there is said in the same words by log, doctor and documents" {
    local advice page
    starts 'only the variable GGML_BACKEND_PATH leads to the plug-in; ' "$(layer_busybox)"
    advice=$(sed -n 's/.* leads to the plug-in; //p' <(hook_log))
    [[ $advice == *' -e GGML_BACKEND_PATH='*' -e GGML_VK_VISIBLE_DEVICES=' ]]
    for page in docs/troubleshooting.md docs/engines.md; do
        grep -Fx "    $advice" "$page"
    done
    run -1 "$OUT/cdi/apir" doctor --image "$(layer_busybox)"
    grep -Fx "                 $advice" <<<"$output"
}

# ---- hostile images ------------------------------------------------------------------------

@test "hostile: an ELF file that lies about its sizes: passed over, and it starts" {
    local dir part at from to lib dynamic
    lib=$DEBIAN/usr/lib/x86_64-linux-gnu/libggml.so.0
    dynamic=$(readelf -lW "$lib" | awk '$1 == "DYNAMIC" { print $2, $5 }')
    # Each word of the header, of the program headers, of the dynamic section: as large as can be.
    for part in "0 64" "64 504" "$dynamic"; do
        from=$((${part% *})) to=$((${part% *} + ${part#* }))
        dir=$(layer "lies$from")/app
        mkdir -p "$dir"
        for ((at = from; at < to; at += 8)); do
            # With more behind the end than any table of the hook has room for.
            { cat "$lib"; head -c 65536 /dev/zero | tr '\0' '\1'; } >"$dir/libggml.so.$at"
            printf '\377\377\377\377\377\377\377\177' |
                dd of="$dir/libggml.so.$at" bs=1 seek="$at" conv=notrunc status=none
        done
        bundle_new "$(layer "lies$from")" "$(layer_busybox)"
        bundle_hook
        bundle_run /bin/sh -c 'echo started'
        [[ $status -eq 0 && $output == started && $(hook_lines) -ge 1 ]]
    done
}

# The processor time, in ticks, of all that this process has started and that has ended.
ended_ticks() { # PID
    awk '{ sub(/^.*\) /, ""); print $14 + $15 }' "/proc/$1/stat"
}

@test "hostile: folders without end: it starts within seconds" {
    local dir i before me=$BASHPID
    dir=$(layer endless)/app
    mkdir -p "$dir/llama"
    (cd "$dir/llama" && seq -f 'libggml-x%g.so' 30000 | xargs touch)
    for ((i = 0; i < 700; i++)); do
        mkdir -p "$dir/llama/d$i/llama"
    done
    bundle_new "$(layer endless)" "$(layer_busybox)"
    bundle_hook
    # An engine waits for 10 s. With a core of its own it has that long.
    before=$(ended_ticks "$me")
    bundle_run /bin/sh -c 'echo started'
    [[ $status -eq 0 && $output == started ]]
    (($(ended_ticks "$me") - before < 1000))
    grep -q 'more than is looked at' <(hook_log)
}

# ---- apir doctor --image ---------------------------------------------------------------------

@test "doctor --image: a folder, in words and as JSON" {
    run -0 "$OUT/cdi/apir" doctor --image "$DEBIAN"
    [[ $output == *"PASS  ggml"*libggml.so*"$DEBIANS"*"PASS  place"*libggml-metal.so* ]]
    run -0 "$OUT/cdi/apir" doctor --image "$DEBIAN" --json
    [[ $(jq -r '.ggml[0].searches' <<<"$output") == "$DEBIANS" ]]
    [[ $(jq -r '.places[0].path' <<<"$output") == "$DEBIANS/libggml-metal.so" ]]
    [[ $(jq -r '.fits' <<<"$output") == true ]]
    run -1 "$OUT/cdi/apir" doctor --image "$(layer_busybox)" --json
    [[ $(jq -c '[.fits, .ggml, .places]' <<<"$output") == '[false,[],[]]' ]]
}

@test "doctor --image: an image of podman's by its name" {
    local dir
    dir=$(layer_busybox)
    mkdir -p "$dir/app"
    cp "$DEBIAN"/usr/lib/x86_64-linux-gnu/libggml.so.0 "$dir/app/libggml.so"
    cp "$DEBIAN$DEBIANS/libggml-cpu-x64.so" "$dir/app/"
    mkdir "$T/store"
    mount -t tmpfs tmpfs "$T/store"
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' \
        "$T/store/graph" "$T/store/run" >"$T/storage.conf"
    export CONTAINERS_STORAGE_CONF=$T/storage.conf PODMAN_IGNORE_CGROUPSV1_WARNING=1
    tar -c -C "$dir" . | podman import --quiet - localhost/small:1
    run -0 --separate-stderr "$OUT/cdi/apir" doctor --image localhost/small:1
    [[ $output == *"PASS  place"*"/app/libggml-virtgpu.so"* ]]
    # Nothing stays mounted.
    [[ -z $(podman image mount) ]]
    complains 1 "docker export" "$OUT/cdi/apir" doctor --image localhost/none:1
    # From a store that is not podman's to write: as a container, of which nothing stays.
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n
        [storage.options]\nadditionalimagestores = ["%s"]\n' \
        "$T/store/graph2" "$T/store/run2" "$T/store/graph" >"$T/storage.conf"
    refute podman image mount localhost/small:1
    run -0 --separate-stderr "$OUT/cdi/apir" doctor --image localhost/small:1
    [[ $output == *"PASS  place"*"/app/libggml-virtgpu.so"* ]]
    [[ -z $(podman ps --all --quiet) ]]
    umount -R -l "$T/store"
}

@test "doctor --image: a name that is none starts nothing" {
    local name
    cd "$T"
    # shellcheck disable=SC2016 # to be taken as it is
    for name in 'x;touch trap' '$(touch trap)' '`touch trap`' '--help' '-v' 'a b' $'a\nb' '|x' ''; do
        run -2 "$OLDPWD/$OUT/cdi/apir" doctor --image "$name"
    done
    run -1 "$OLDPWD/$OUT/cdi/apir" doctor --image ./none
    refute test -e trap
}
