#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutate.sh OUT OBJECT...: each rule of the sandbox is taken out in turn, and a test must miss it.
# OBJECTs are those that apir-worker is linked from. MUTANTS="NAME..." takes some of them only.
# The last line is `mutants: N of M noticed`.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/mutant.bash
. tests/mutant.bash
out=$1
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/mutate.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Another output directory, with a worker of its own. The server looks for it beside itself.
mkdir -p "$work/out/backend"
ln -s "$(realpath "$out/frontend")" "$(realpath "$out/tests")" "$work/out/"
cp "$out/backend/apir-render-server" "$work/out/backend/"

# Ends with the last test: bats would wait for its own time limit after a failed one.
tests_pass() { # PATTERN
    local bats n
    : >"$work/log"
    APIR_OUT=$work/out setsid bats --formatter tap -f "$1" tests/system/sandbox.bats >"$work/log" 2>&1 </dev/null &
    bats=$!
    while kill -0 "$bats" 2>/dev/null; do
        n=$(sed -n 's/^1\.\.//p' "$work/log")
        [[ -z $n || $(grep -cE '^(not )?ok ' "$work/log") -lt $n ]] || break
        sleep 0.2
    done
    sleep 0.3 # what the last one has to say
    kill -KILL -- "-$bats" 2>/dev/null || :
    wait "$bats" 2>/dev/null || :
    grep -q '^ok ' "$work/log" && ! grep -q '^not ok ' "$work/log"
}

noticed=0 total=0
mutant() { # NAME FILE TEST FROM TO: FROM becomes TO, and TEST (a pattern of bats) must fail
    local name=$1 file=backend/$2 test=$3 object why
    [[ -z ${MUTANTS-} || " $MUTANTS " == *" $name "* ]] || return 0
    total=$((total + 1))
    why=$(mutant_write "$file" "$4" "$5" "$work/mutant.c") || { echo "FAIL  $name: $why"; return 0; }
    object=$work/mutant.o
    # shellcheck disable=SC2046 # flags
    gcc -std=gnu17 -O1 -D_FORTIFY_SOURCE=2 -fPIC -I. $(pkg-config --cflags libseccomp) -c -o "$object" "$work/mutant.c"
    # shellcheck disable=SC2046
    gcc -o "$work/out/backend/apir-worker" "$object" \
        $(printf '%s\n' "${objects[@]}" | grep -v "/${2%.c}\.o$") $(pkg-config --libs json-c libcap libseccomp) -ldl
    if tests_pass "$test"; then
        echo "FAIL  $name: nobody missed it"
    else
        noticed=$((noticed + 1))
        echo "PASS  $name: $(sed -nE 's/^# expected: ([^;]*);.*/\1/p' "$work/log" | grep -v '^$' | sort -u | tr '\n' ' ')"
    fi
}
objects=("$@")

files='before the filter: files' calls='system calls that' kernel='every thread' ends='ends a worker'
namespaces='namespaces of its own' user='of a plain user' any='UINT64_C(1) << 63, 0'

mutant privileges worker_sandbox.c "$kernel" 'prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0' '0'
mutant capabilities worker_sandbox.c "$kernel" 'rc = capabilities_drop(err);' 'rc = 0;'
mutant bounding_set worker_sandbox.c "$kernel" 'for (cap_value_t c = 0; cap_get_bound(c) >= 0; c++)' 'for (cap_value_t c = 99; cap_get_bound(c) >= 0; c++)'
mutant network worker_sandbox.c "$namespaces" 'CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC' 'CLONE_NEWUSER | CLONE_NEWIPC'
mutant ipc worker_sandbox.c "$namespaces" 'CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC' 'CLONE_NEWUSER | CLONE_NEWNET'
mutant same_user worker_sandbox.c "$namespaces" '"%u %u 1", uid, uid' '"%u %u 1", uid + 1, uid'
mutant core worker_sandbox.c "$files" 'limit(RLIMIT_CORE, 0)' '0'
mutant descriptors worker_sandbox.c "$files" 'limit(RLIMIT_NOFILE, FILES_MAX)' '0'
mutant threads worker_sandbox.c "$user" 'limit(RLIMIT_NPROC, THREADS_MAX)' '0'
mutant dumpable worker_sandbox.c "$user" 'prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0' '0'
mutant required_files worker_sandbox.c 'without Landlock' 'if (rc == 0 && s->required)' 'if (0)'
mutant required_calls worker_sandbox.c 'without seccomp' 'rc == -ENOSYS && !s->required' 'rc == -ENOSYS'
mutant auto_calls worker_sandbox.c 'without seccomp' 'rc == -ENOSYS && !s->required' '0'

mutant landlock worker_sandbox_files.c "$files" 'syscall(SYS_landlock_restrict_self, fd, 0) < 0' '0'
mutant landlock_exec worker_sandbox_files.c "$files" '(LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1' '(LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 2'
mutant landlock_links worker_sandbox_files.c 'making links' '(LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1' 'LANDLOCK_ACCESS_FS_MAKE_SYM - 1'
mutant landlock_truncate worker_sandbox_files.c "$files" 'version >= 3' 'version >= 99'
mutant landlock_network worker_sandbox_files.c "$files" 'version >= 4' 'version >= 99'
mutant landlock_devices worker_sandbox_files.c "$files" 'version >= 5' 'version >= 99'
mutant landlock_signals worker_sandbox_files.c "$files" '| LANDLOCK_SCOPE_SIGNAL' ''
mutant landlock_abstract worker_sandbox_files.c 'sockets of the host' 'LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET |' ''
mutant landlock_root worker_sandbox_files.c "$files" "path[strspn(path, \"/\")]" 'path[0]'
mutant landlock_proc worker_sandbox_files.c "$files" '{"/proc/self", READ' '{"/proc", READ'
mutant landlock_read_only worker_sandbox_files.c 'sandbox_read and' 'config->sandbox_read.names[i], READ' 'config->sandbox_read.names[i], WRITE'

mutant landlock_sys worker_sandbox_files.c "$files" '{"/sys/class/drm", READ' '{"/sys", READ'
mutant landlock_gpus worker_sandbox_files.c "$files" '{"/sys/bus/pci/devices/*", true}' '{"/sys/*", false}'
mutant required_user worker_sandbox.c 'as root: said' 's->required && apir_is_root()' '0'

mutant cache_layer worker_sandbox_cache.c 'shader cache; what' 'cache_cover(caches->path[i]) == 0' 'caches->n'
mutant cache_owner worker_sandbox_cache.c 'others may write' '&& !(st.st_mode & S_IWOTH)' ''
mutant cache_uncovered worker_sandbox.c 'shader cache; what' 'caches.n = 0;' ''

mutant every_thread worker_sandbox_calls.c "$kernel" 'SCMP_FLTATR_CTL_TSYNC, 1' 'SCMP_FLTATR_CTL_TSYNC, 0'
mutant default worker_sandbox_calls.c "$calls" 'filter_begin(&filter, SCMP_ACT_ERRNO(ENOSYS))' 'filter_begin(&filter, SCMP_ACT_LOG)'
mutant killed worker_sandbox_calls.c "$ends" 'rc = rows_add(filter, killed, sizeof(killed) / sizeof(killed[0]), SCMP_ACT_KILL_PROCESS);' ';'
mutant other_abi worker_sandbox_calls.c "$ends.*machine" 'SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS' 'SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW'
mutant requests worker_sandbox_calls.c "$calls" 'rc = requests_refuse();' 'rc = 0;'
for what in TIOCSTI TIOCLINUX TIOCSETD TIOCSCTTY TIOCCONS TIOCSPGRP FIOSETOWN SIOCSPGRP FIOASYNC; do
    mutant "request_$what" worker_sandbox_calls.c "$calls" "    {$what, " '    {0xffff1234, '
done
mutant request_wide worker_sandbox_calls.c "$calls" '.datum_a = INT' '.datum_a = UINT64_MAX'
mutant clone worker_sandbox_calls.c "$calls" 'CLONE_THREAD | NEW_NAMESPACES, CLONE_THREAD' "$any"
mutant tgkill worker_sandbox_calls.c "$calls" '{ CALL(tgkill), "abort", { { 0, INT, OURSELF } } }' "{ CALL(tgkill), \"\", { { 0, $any } } }"
mutant kill worker_sandbox_calls.c "$calls" '{ CALL(kill), "raise", { { 0, INT, OURSELF } } }' "{ CALL(kill), \"\", { { 0, $any } } }"
mutant limits worker_sandbox_calls.c "$calls" '"our own limits", { { 0, INT, 0 } }' "\"\", { { 0, $any } }"
mutant affinity worker_sandbox_calls.c "$calls" '"our own thread", { { 0, INT, 0 } }' "\"\", { { 0, $any } }"
mutant kcmp worker_sandbox_calls.c "$calls" '{ 1, INT, OURSELF }' "{ 1, $any }"
mutant descriptors_sent worker_sandbox_calls.c "$calls" '{ CALL(recvmsg), CALL(sendto)' '{ CALL(recvmsg), CALL(sendmsg), CALL(sendto)'
mutant locks worker_sandbox_calls.c "$calls" 'if (!rc && may_lock)' 'if (!rc)'
mutant prctl worker_sandbox_calls.c "$calls" '{ CALL(prctl), why, { { 0, INT, option } } }' "{ CALL(prctl), why, { { 0, $any } } }"
mutant fcntl worker_sandbox_calls.c "$calls" '{ { 1, INT, command } }' "{ { 1, $any } }"

echo "mutants: $noticed of $total noticed"
[[ $noticed -eq $total && $total -gt 0 ]]
