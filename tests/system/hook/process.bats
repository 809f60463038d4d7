#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the hook's process is: nothing of the image is loaded into it, and it holds no
# more rights and descriptors than its step needs.

. "${BATS_TEST_DIRNAME}/hook.bash"

TRAP=$(realpath "$APIR_OUT/tests/system/hook/trap.so")
SPRUNG=/run/apir-trap

setup() {
    hook_setup
    rm -f "$SPRUNG"
    bundle "$B"
}

teardown() {
    [ -z "${IN-}" ] || exec {IN}>&-
    [ -z "${PID-}" ] || wait "$PID" || true
}

# waiting STAGE: starts the hook, which then waits for its state; PID is its process.
waiting() {
    local fifo=$BATS_TEST_TMPDIR/stdin.$1
    mkfifo "$fifo"
    # With descriptors that it was not meant to get.
    "$HOOK" "$@" --plugin "$PLUGIN" --spec "$SPEC" <"$fifo" 7</etc/passwd 99</etc 3>&- 2>/dev/null &
    PID=$!
    exec {IN}>"$fifo"
    until grep -q 'pipe_read\|anon_pipe_read' "/proc/$PID/wchan" 2>/dev/null ||
        [ "$(cut -d' ' -f1 "/proc/$PID/syscall")" = 0 ]; do
        [ -e "/proc/$PID" ]
    done
}

finished() {
    exec {IN}>&-
    wait "$PID" || true
    PID='' IN=''
}

# bits CAP...: as in /proc/PID/status
bits() {
    local sum=0 cap
    for cap in "$@"; do
        sum=$((sum | 1 << cap))
    done
    printf '%016x' "$sum"
}

# The lines of the trace that are the hook's, and those of its child: all that come after its start,
# but for those of the processes that were there before.
of_hook() {
    sed -n "\|execve(\"$HOOK\"|,\$p" "$BATS_TEST_TMPDIR/trace" |
        grep -vEf <(sed "\|execve(\"$HOOK\"|,\$d; s/ .*//; s/.*/^& /" "$BATS_TEST_TMPDIR/trace" |
            sort -u | grep -v "^^$(sed -n "s|^\([0-9]*\) *execve(\"$HOOK\".*|\1|p" "$BATS_TEST_TMPDIR/trace") ")
}

SYS_ADMIN=21 DAC_OVERRIDE=1 CHOWN=0 SYS_CHROOT=18 SYS_PTRACE=19

@test "it is one static program without an interpreter" {
    readelf -lW --dynamic "$HOOK" >"$BATS_TEST_TMPDIR/elf"
    grep -q LOAD "$BATS_TEST_TMPDIR/elf"
    run ! grep -E 'INTERP|NEEDED' "$BATS_TEST_TMPDIR/elf"
    readelf -h "$HOOK" | grep -q DYN # and still placed at random
}

@test "each stage holds the capabilities of its step, no new ones, and no descriptor of others" {
    for stage in createContainer createRuntime prestart precreate; do
        case $stage in
        createContainer) want=$(bits $SYS_ADMIN $DAC_OVERRIDE $CHOWN) ;;
        precreate) want=$(bits) ;;
        *) want=$(bits $SYS_ADMIN $DAC_OVERRIDE $CHOWN $SYS_CHROOT $SYS_PTRACE) ;;
        esac
        waiting "$stage"
        status=$(<"/proc/$PID/status")
        for set in CapPrm CapEff; do
            grep -Eqx "$set:[[:space:]]+$want" <<<"$status"
        done
        for set in CapInh CapAmb; do
            grep -Eqx "$set:[[:space:]]+0000000000000000" <<<"$status"
        done
        grep -Eqx 'NoNewPrivs:[[:space:]]+1' <<<"$status"
        [ "$(readlink "/proc/$PID/cwd")" = / ]
        for fd in "/proc/$PID/fd"/*; do
            n=${fd##*/} to=$(readlink "$fd")
            [ "$n" -le 2 ] || [ "$to" = "$LOG" ] || {
                echo "$stage has $n: $to"
                false
            }
        done
        finished
        rm "$BATS_TEST_TMPDIR/stdin.$stage"
    done
}

@test "once in the container's mount namespace there is no right left to enter another" {
    asking "$B" host0
    strace -f -o "$BATS_TEST_TMPDIR/trace" -e trace=setns,capset,openat2,mkdirat,move_mount,execve,prctl,close_range \
        "$APIR_OUT/tests/system/hook/race" "$HOOK" createRuntime 0 "$B" --plugin "$PLUGIN" --spec "$SPEC" | grep -qx "exit 0"
    of_hook | sed -n "s/^[0-9]* *\([a-z0-9_]*\)(\(.*\)/\1 \2/p" >"$BATS_TEST_TMPDIR/calls"
    cat "$BATS_TEST_TMPDIR/calls"
    line() { grep -nE "$1" "$BATS_TEST_TMPDIR/calls" | sed -n "${2:-1}{s/:.*//;p}"; }
    # In this order: closed, no new rights, reduced, entered, reduced again, and only then the root.
    order=("$(line '^close_range 3')" "$(line '^prctl PR_SET_NO_NEW_PRIVS, 1')" "$(line '^capset')"
        "$(line '^setns .*CLONE_NEWNS')" "$(line '^capset' 2)" "$(line '^mkdirat|^move_mount')")
    echo "${order[@]}"
    [ "${order[*]}" = "$(printf '%s\n' "${order[@]}" | sort -n | tr '\n' ' ' | sed 's/ $//')" ]
    [ "$(grep -c . <(printf '%s\n' "${order[@]}"))" -eq 6 ]
    grep '^capset' "$BATS_TEST_TMPDIR/calls" | sed -n 2p |
        grep -Fq 'effective=1<<CAP_CHOWN|1<<CAP_DAC_OVERRIDE|1<<CAP_SYS_ADMIN, permitted=1<<CAP_CHOWN|1<<CAP_DAC_OVERRIDE|1<<CAP_SYS_ADMIN, inheritable=0'
}

@test "every path of the image is resolved inside its root, and no magic link is followed" {
    asking "$B" host0
    for stage in createContainer createRuntime; do
        strace -f -o "$BATS_TEST_TMPDIR/trace" -e trace=openat2,openat,open,execve,mknodat,symlinkat,linkat,unlinkat,renameat,renameat2,chmod,fchmodat,chown,fchownat \
            "$APIR_OUT/tests/system/hook/race" "$HOOK" "$stage" 0 "$B" --plugin "$PLUGIN" $([ $stage = createContainer ] || echo --spec "$SPEC") >/dev/null
        of_hook >"$BATS_TEST_TMPDIR/calls"
        [ "$(grep -c openat2 "$BATS_TEST_TMPDIR/calls")" -gt 10 ]
        # One root, by the runtime's path; all else below a descriptor.
        run ! grep -E 'openat2\(AT_FDCWD' <(grep -v "openat2(AT_FDCWD, \"$B/rootfs\"" "$BATS_TEST_TMPDIR/calls")
        run ! grep -E 'openat2' <(grep -Ev 'RESOLVE_(NO_MAGICLINKS|IN_ROOT|BENEATH)' "$BATS_TEST_TMPDIR/calls")
        run ! grep -E "open(at)?\(.*$B/rootfs" "$BATS_TEST_TMPDIR/calls"
        # No name is made, changed or taken away but that of the file which is placed: in its folder's descriptor.
        grep -E '(mknod|symlink|link|unlink|rename|chmod|chown|fchmod|fchown)(at)?2?\(' "$BATS_TEST_TMPDIR/calls" |
            sed -E 's/^[0-9]+ +//; s/\([0-9]+, /(D, /; s/, [0-9]+, "/, D, "/; s/ = .*//' | sort >"$BATS_TEST_TMPDIR/names"
        diff - "$BATS_TEST_TMPDIR/names" <<NAMES
renameat(D, ".libggml-apir.new", D, "${SLOT##*/}")
unlinkat(D, ".libggml-apir.new", 0)
NAMES
        rm "$B/rootfs$SLOT"
    done
}

@test "CVE-2025-23266: LD_PRELOAD, LD_LIBRARY_PATH, LD_AUDIT and GCONV_PATH of the image load nothing" {
    asking "$B" host0
    mkdir -p "$B/rootfs/evil"
    for name in trap.so libc.so.6 libjson-c.so.5 libcap.so.2 UTF-16.so; do
        cp "$TRAP" "$B/rootfs/evil/$name"
    done
    printf 'module UTF-8// INTERNAL ../evil/UTF-16 1\n' >"$B/rootfs/evil/gconv-modules"
    # runc starts createContainer hooks in the image's root, so that relative paths are the image's.
    traps='["LD_PRELOAD=./evil/trap.so", "LD_AUDIT=./evil/trap.so", "LD_LIBRARY_PATH=./evil",
        "GCONV_PATH=./evil", "LOCPATH=./evil", "NLSPATH=./evil/%N", "MALLOC_TRACE=./evil/x",
        "GLIBC_TUNABLES=glibc.malloc.check=3", "LC_ALL=C.UTF-16", "PATH=./evil"]'
    # With another program in the hook's place the trap is sprung: the test can fail.
    edit "$B" ".hooks.createContainer = [{path: \"/bin/true\", args: [\"true\"], env: [\"LD_PRELOAD=./evil/trap.so\"]}]"
    container "$B" "echo started" | grep -qx started
    [ -e "$SPRUNG" ]
    rm "$SPRUNG"
    for stage in createContainer createRuntime prestart; do
        edit "$B" ".hooks = {} | .process.env += $traps"
        hooked "$B" "$stage" --plugin "$PLUGIN"
        [ $stage = createContainer ] || edit "$B" ".hooks.${stage}[0].args += [\"--spec\", \"$SPEC\"]"
        edit "$B" ".hooks.${stage}[0].env = $traps"
        container "$B" "echo started" | grep -qx started
        [ ! -e "$SPRUNG" ]
        logged "placed as"
        rm "$LOG"
    done
    # And what it opens, as seen by the kernel.
    (cd "$B/rootfs" && env LD_AUDIT=./evil/trap.so GCONV_PATH=./evil LD_LIBRARY_PATH=./evil LC_ALL=C.UTF-16 \
        strace -f -E LD_PRELOAD=./evil/trap.so -o "$BATS_TEST_TMPDIR/trace" "$HOOK" createContainer --plugin "$PLUGIN" \
        <<<'{"id":"x"}') || true
    run ! grep -E 'evil|gconv|locale|ld\.so' <(grep -v '^[0-9]* execve' "$BATS_TEST_TMPDIR/trace")
}

@test "a missing stdin, stdout or stderr is no way to write elsewhere" {
    asking "$B" host0
    "$HOOK" createContainer --plugin "$PLUGIN" <&- >&- 2>&- || rc=$?
    [ "${rc-0}" -eq 1 ]
    logged 'container state: line 1, byte 0: JSON ends early'
    [ "$(jq -c .annotations "$B/config.json")" = '{"apir.device":"host0"}' ]
    "$HOOK" precreate --spec "$SPEC" <"$B/config.json" 2>&- | jq -e '.mounts | length > 0'
}
