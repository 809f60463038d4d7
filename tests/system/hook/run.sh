#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [OUT [FILE.bats]...]: the hook's tests, in the build root, as root; ends
# with one line of sums. What cannot be had here (npm's packages) is skipped, with the
# reason, and counts as neither passed nor failed.
#
# They run in a mount namespace with a /dev and a /run of their own: no test can
# change the machine's, and the hook, which finds no syslog there, writes
# /run/apir-hook.log.
set -euo pipefail
cd "$(dirname "$0")/../../.."
if [[ -z ${HOOK_STAGE-} ]]; then
    HOOK_STAGE=unshared exec unshare --mount --propagation private "$0" "$@"
fi
APIR_OUT=${1:-build/release-gcc}
export APIR_OUT
shift || :
files=("$@")
[[ ${#files[@]} -gt 0 ]] || files=(tests/system/hook/*.bats)

mount -t tmpfs -o mode=0755,nosuid tmpfs /dev
while read -r name major minor; do
    mknod -m 0666 "/dev/$name" c "$major" "$minor"
done <<'NODES'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
NODES
mkdir /dev/pts /dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm
ln -s pts/ptmx /dev/ptmx
ln -s /proc/self/fd /dev/fd
for n in 0:stdin 1:stdout 2:stderr; do
    ln -s "fd/${n%%:*}" "/dev/${n#*:}"
done
# Debian as it is on the disk, which the next mount would hide.
[[ ! -d /run/build-root/usr ]] || mount --bind /run/build-root /mnt
mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs /run
# In memory, where names are swapped fastest; device nodes are part of some tests.
mkdir /run/tests
mount -t tmpfs -o mode=0755 tmpfs /run/tests
export TMPDIR=/run/tests

log=/run/tests/log
status=0
bats --timing --formatter tap ${HOOK_FILTER:+-f "$HOOK_FILTER"} "${files[@]}" | tee "$log" || status=$?
passed=$(grep -c '^ok [0-9]' "$log") || :
failed=$(grep -c '^not ok [0-9]' "$log") || :
skipped=$(grep -c '^ok [0-9].* # skip' "$log") || :
# A file that cannot even be read has no test that fails.
[[ $status -eq 0 || $failed -gt 0 ]] || failed=1
[[ $skipped -eq 0 ]] || echo "hook: $skipped skipped"
echo "hook: $((passed - skipped)) passed, $failed failed"
[[ $status -eq 0 && $failed -eq 0 && $passed -gt $skipped ]]
