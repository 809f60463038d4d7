#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# vm-check.sh ARCHIVE VM-ARCHIVE: what `./run vm` does on a GPU machine, here, with this machine's CPU as
# the host's device: unpacks the archives, and runs in their small build root alone. A row each:
#
#   whole       all rows of vm.sh pass
#   no-plugin   without the plug-in none does: none of them is native's on both sides
#   no-server   nor with virglrenderer's own server in place of ours
#
# build/bundle/check has what each said. The last line is `bundle-vm: N of M rows pass`.
set -uo pipefail
# shellcheck source=tests/native/options/rows.sh
. tests/native/options/rows.sh
archive=$(realpath "$1") vm_archive=$(realpath -m "$2")
# shellcheck disable=SC2034 # rows.sh's
suite=bundle-vm
work=$PWD/build/bundle/check

# This machine has no build root of its own that the bundle's scripts could find: in a mount namespace
# of ours, which ends with us.
if [[ ${VM_CHECK_STAGE-} != bare ]]; then
    rm -rf "$work"
    mkdir -p "$work/etc"
    cp -a /etc/. "$work/etc/"
    rm -f "$work/etc/apir-build-root"
    # shellcheck disable=SC2016 # expanded by the inner shell
    VM_CHECK_STAGE=bare APIR_NATIVE=0 exec unshare --mount --propagation private \
        sh -c 'mount --bind "$1" /etc && shift && exec "$@"' sh "$work/etc" "$0" "$@"
fi

tar -C "$work" -xzf "$archive" && cat "$vm_archive".[0-9] | tar -C "$work" -xJ || exit 1
built=$work/apir-bundle/build/release-gcc

try() { # NAME WANTED
    local rc=0 last
    (cd "$work/apir-bundle" && BUDGET=400 OUT="$work/$1" tests/bench/bundle/checks vm --host CPU) \
        >"$work/$1.log" 2>&1 || rc=$?
    last=$(grep -a '^vm: .* rows pass$' "$work/$1.log" | tail -n 1)
    case $2-$rc-$last in
    pass-0-"vm: 3 of 3 rows pass" | "fail-1-vm: 0 of 3 rows pass") verdict yes "$1" "$last" ;;
    *) verdict no "$1" "exit code $rc, ${last:-no last line}; $(tail -n 25 "$work/$1.log")" ;;
    esac
    grep -aE '^(PASS|FAIL)  vm ' "$work/$1.log" | sed 's/^/        /'
}

try whole pass
mv "$built/frontend/libggml-apir.so" "$work/"
try no-plugin fail
mv "$work/libggml-apir.so" "$built/frontend/"
export VM_RENDER_SERVER=/usr/libexec/virgl_render_server
try no-server fail
# What is unpacked is 700 MiB, and is of no use when all is well.
# shellcheck disable=SC2154 # rows.sh's
[[ $failed -gt 0 ]] || rm -rf "${work:?}/apir-bundle" "${work:?}/etc"
# shellcheck disable=SC2154
echo "bundle-vm: $passed of $((passed + failed)) rows pass"
[[ $failed -eq 0 ]]
