#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A hostile image that stands still: links, fifos, devices, files and mounts in the
# place of every folder that the hook passes and of every file that it makes.

. "${BATS_TEST_DIRNAME}/hook.bash"

setup() {
    rm -f "$LOG"
    B=$BATS_TEST_TMPDIR/bundle
    R=$B/rootfs
    OUT=$BATS_TEST_TMPDIR/outside
    SPEC=$BATS_TEST_TMPDIR/spec.json
    spec_dev "$SPEC"
    bundle "$B"
    asking "$B" host0
    mkdir -p "$R/usr/lib/apir" "$R/run/apir/host" "$R/dev/apir"
    # A link that leads out of the root finds all that the hook looks for.
    cp -a "$R" "$OUT"
    touch "$OUT$SLOT" "$OUT$MODULES/libggml-metal.so" "$OUT$INSIDE"
    tree "$OUT" >"$BATS_TEST_TMPDIR/outside.before"
    cp -a "$R" "$BATS_TEST_TMPDIR/image"
}

fresh() {
    rm -rf "$R"
    cp -a "$BATS_TEST_TMPDIR/image" "$R"
}

# instead [PART]: makes room for something else in its place, after putting back what
# had to make room before.
instead() {
    if [ -n "${gone-}" ]; then
        rm -rf "${R:?}/$gone"
        [ ! -e "$BATS_TEST_TMPDIR/aside" ] || mv "$BATS_TEST_TMPDIR/aside" "$R/$gone"
    fi
    gone=${1-}
    [ -n "$gone" ] || return 0
    mkdir -p "$(dirname "$R/$gone")"
    [ ! -e "$R/$gone" ] || mv "$R/$gone" "$BATS_TEST_TMPDIR/aside"
}

# Both stages end well, mount nothing but the two sources (and, over a client of the image's own, a
# file that they have made) and only below the root, and leave everything outside as it was.
harmless() {
    local stage
    for stage in createContainer createRuntime; do
        timeout "$(patience 10)" "$APIR_OUT/tests/system/hook/race" "$HOOK" "$stage" 0 "$B" --plugin "$PLUGIN" \
            $([ $stage = createContainer ] || echo --spec "$SPEC") \
            >"$BATS_TEST_TMPDIR/mounts" 2>/dev/null || {
            echo "$stage with $1: exit code $?"
            cat "$BATS_TEST_TMPDIR/mounts"
            return 1
        }
        # Of a source the kernel names the path in its file system.
        if grep '^mount ' "$BATS_TEST_TMPDIR/mounts" |
            grep -Ev " (.*${PLUGIN#/src}|${BATS_TEST_TMPDIR#"$TMPDIR"}/host0|${SLOT} .*/rootfs${MODULES}/\.libggml-apir\.new//deleted)$"; then
            echo "$stage with $1: another source"
            return 1
        fi
    done
    tree "$OUT" | diff "$BATS_TEST_TMPDIR/outside.before" - || {
        echo "with $1: something outside has changed"
        return 1
    }
}

components=(usr usr/lib usr/lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu/ggml
    "${MODULES#/}" "${SLOT#/}" "${MODULES#/}/libggml-metal.so" "${MODULES#/}/libggml-cpu-x64.so"
    usr/lib/apir usr/lib/apir/libggml-apir.so run run/apir run/apir/host dev dev/apir app opt usr/bin)

@test "CVE-2024-0134: every component a link, absolute or through .., nothing is made outside" {
    for part in "${components[@]}"; do
        up=$(sed 's|[^/]*|..|g' <<<"$part")
        for to in "$OUT/$part" "../../../../../../../../../../..$OUT/$part" "$up/$up/../../../../..$OUT/$part" \
            "/proc/self/root$OUT/$part" "/proc/1/root$OUT/$part" "/proc/self/cwd/$OUT/$part" \
            "${part##*/}" / /dev/null /nowhere; do
            instead "$part"
            ln -s "$to" "$R/$part"
            harmless "$part -> $to"
            [ -L "$R/$part" ]
        done
        instead
    done
}

@test "every component a fifo, a device, a socket or a file: nothing hangs, nothing is covered" {
    for part in "${components[@]}"; do
        for kind in fifo device file; do
            instead "$part"
            case $kind in
            fifo) mkfifo "$R/$part" ;;
            device) mknod "$R/$part" c 1 5 ;;
            file) echo "the image's" >"$R/$part" ;;
            esac
            before=$(stat -c '%F %s %i' "$R/$part")
            harmless "$part a $kind"
            # The image's own client of another protocol is covered on purpose.
            [ "$part $kind" = "${SLOT#/} file" ] || run ! grep -q "^mount /$part " "$BATS_TEST_TMPDIR/mounts"
            [ "$(stat -c '%F %s %i' "$R/$part")" = "$before" ]
        done
        instead
    done
}

@test "with an honest image both stages do place and mount: the tests above could fail" {
    once "$B" createContainer
    cmp "$PLUGIN" "$R$SLOT"
    rm "$R$SLOT"
    once "$B" createRuntime --spec "$SPEC" >"$BATS_TEST_TMPDIR/mounts"
    cmp "$PLUGIN" "$R$SLOT"
    for point in "$INSIDE" /run/apir/host /dev/apir; do
        grep -q "^mount $point " "$BATS_TEST_TMPDIR/mounts"
    done
    echo "the image's" >"$R$SLOT"
    once "$B" createContainer | grep -q "^mount $SLOT "
}

@test "CVE-2025-23359: no file of the image is ever the source of a mount" {
    # Names that the hook takes from the host, in the image; and the spec's, in the image.
    for name in "$PLUGIN" "$BATS_TEST_TMPDIR/host0" "$INSIDE" /etc/cdi/apir.json; do
        mkdir -p "$R$(dirname "$name")"
        ln -sfn / "$R$name"
    done
    harmless "links of the sources' names"
    fresh
    mkdir -p "$R$(dirname "$PLUGIN")" "$R/$BATS_TEST_TMPDIR/host0"
    echo "the image's" >"$R$PLUGIN"
    container() { runc --root "$BATS_TEST_TMPDIR/runc" run --bundle "$B" "t$RANDOM"; }
    hooked "$B" createContainer --plugin "$PLUGIN"
    edit "$B" ".process.args = [\"/bin/sh\", \"-c\", \"cat $SLOT | sha256sum\"]"
    [ "$(container)" = "$(sha256sum <"$PLUGIN")" ]
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    edit "$B" ".process.args = [\"/bin/sh\", \"-c\", \"cat $SLOT $INSIDE | sha256sum\"]"
    [ "$(container)" = "$(cat "$PLUGIN" "$PLUGIN" | sha256sum)" ]
}

@test "CVE-2025-23267: the image's loader cache and configuration are neither read nor written" {
    mkdir -p "$R/etc/ld.so.conf.d" "$OUT/etc/ld.so.conf.d"
    ln -s "$OUT/etc/ld.so.cache" "$R/etc/ld.so.cache"
    ln -s "$OUT/etc/x.conf" "$R/etc/ld.so.conf.d/00-apir.conf"
    tree "$OUT" >"$BATS_TEST_TMPDIR/outside.before"
    harmless "links in /etc"
    # No program of the image, nor of the host, is run.
    unshare --mount --propagation private strace -f -qq -o "$BATS_TEST_TMPDIR/trace" -e trace=execve,openat,openat2 \
        "$HOOK" createContainer --plugin "$PLUGIN" < <(state "{root: \"$R\", bundle: \"$B\", pid: 0}")
    [ "$(grep -c 'execve(' "$BATS_TEST_TMPDIR/trace")" -eq 1 ]
    run ! grep -E 'ld\.so' "$BATS_TEST_TMPDIR/trace"
    grep -q openat2 "$BATS_TEST_TMPDIR/trace"
}

@test "a folder of the host that is mounted in the container gets no file of ours" {
    host=$BATS_TEST_TMPDIR/host
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    cp "$B/config.json" "$BATS_TEST_TMPDIR/config.json"
    for points in "/run /usr/lib/apir $MODULES" /dev /usr/lib; do
        rm -rf "$host" "$LOG"
        mkdir "$host"
        cp "$BATS_TEST_TMPDIR/config.json" "$B/config.json"
        # All that the hook looks for is in there.
        [ "$points" != /usr/lib ] || cp -a "$R/usr/lib/." "$host"
        mknod "$host/null" c 1 3 # runc's own need, where it is /dev
        tree "$host" >"$BATS_TEST_TMPDIR/host.before"
        for point in $points; do
            edit "$B" ".mounts += [{destination: \"$point\", type: \"bind\", source: \"$host\", options: [\"rw\", \"rbind\"]}]"
        done
        container "$B" "echo started" | grep -qx started
        tree "$host" | diff "$BATS_TEST_TMPDIR/host.before" -
        case $points in
        /dev) logged '/dev/apir: a part of the host' ;;
        /usr/lib) logged "$INSIDE: a part of the host" ;;
        *)
            logged "$INSIDE: a part of the host"
            logged '/run/apir/host: a part of the host'
            ;;
        esac
        [ "$points" = /dev ] || [ "$(grep -c "placed as" "$LOG")" -eq 0 ]
    done
}

@test "a file system that is the container's own is written to: /run as a tmpfs" {
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    rm -rf "$R/run/apir"
    edit "$B" '.mounts += [{destination: "/run", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev"]}]'
    container "$B" "cat /run/apir/host/mark" | grep -qx socket
    [ ! -e "$R/run/apir" ]
}

@test "shared mount propagation: nothing is mounted, and nothing shows on the host" {
    edit "$B" '.linux.rootfsPropagation = "shared"'
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    hooked "$B" createContainer --plugin "$PLUGIN"
    mount --bind "$R" "$R"
    mount --make-shared "$R"
    mounts=$(</proc/self/mountinfo)
    container "$B" "cat /proc/self/mountinfo" >"$BATS_TEST_TMPDIR/inside"
    [ "$mounts" = "$(</proc/self/mountinfo)" ]
    umount "$R"
    mounts=$(</proc/self/mountinfo)
    # runc makes its own mounts private until then. Where a runtime does not:
    rm -f "$LOG"
    for stage in createContainer createRuntime; do
        RACE_SHARED=1 once "$B" "$stage" --spec "$SPEC" >"$BATS_TEST_TMPDIR/out"
        diff - "$BATS_TEST_TMPDIR/out" <<<"exit 0"
    done
    [ "$(grep -c "not placed: the root's mounts are shared with the host" "$LOG")" -eq 2 ]
    logged "$INSIDE: a part of the host, or what is shared with it, is mounted there"
    [ "$mounts" = "$(</proc/self/mountinfo)" ]
}

@test "the container's mounts are private: none shows on the host, none outlives it" {
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    mounts=$(</proc/self/mountinfo)
    container "$B" "cat /proc/self/mountinfo; sleep 0" >"$BATS_TEST_TMPDIR/inside"
    [ "$mounts" = "$(</proc/self/mountinfo)" ]
    grep libggml "$BATS_TEST_TMPDIR/inside" | grep -c 'ro,nosuid,nodev'
    run ! grep -E 'libggml.*(shared|master):' "$BATS_TEST_TMPDIR/inside"
}

@test "host folders of the plug-in and of the socket cannot be changed from the inside" {
    hooked "$B" createRuntime --plugin "$PLUGIN" --spec "$SPEC"
    stat -c '%a %u %g %Y' "$PLUGIN" "$BATS_TEST_TMPDIR/host0" >"$BATS_TEST_TMPDIR/before"
    container "$B" "/bin/busybox chmod 777 $INSIDE $SLOT /run/apir/host; /bin/busybox chown 7 $INSIDE /run/apir/host;
        /bin/busybox touch /run/apir/host/new; /bin/busybox rm -f $INSIDE; true" 2>&1 | grep -c 'Read-only'
    stat -c '%a %u %g %Y' "$PLUGIN" "$BATS_TEST_TMPDIR/host0" | diff "$BATS_TEST_TMPDIR/before" -
    [ ! -e "$BATS_TEST_TMPDIR/host0/new" ]
}
