#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: the containers that ramalama starts compute on APIR0, in the test VM (`make check-ramalama`;
# ROW=name runs that row alone, ROW='name name' those). The rows are in lines, where ramalama's own command
# lines are, and in guest.sh.
#
#   VM_ARCH        as in tests/vm/run.sh: the VM and its image are of that architecture
#   RAMALAMA=DIR   a checkout of ramalama: its own code runs what is typed, and the lines in the table
#                  are compared with what it runs and prints
#
# build/ramalama/ROW.log holds what a row printed. The last line is "ramalama: N of M command lines pass".
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
sh tests/env/inside.sh || exec make check-ramalama ROW="${ROW-}" RAMALAMA="${RAMALAMA-}"
# shellcheck source=tests/vm/image/prepare.sh
. tests/vm/image/prepare.sh

mkdir -p build/ramalama build/vm
exec 9>build/ramalama/.lock
flock 9
find build/ramalama -mindepth 1 ! -name .lock -delete
work=$(mktemp -d build/vm/ramalama-XXXXXX)
share=$work/share
trap 'rm -rf "$work"' EXIT
prepare_vm "$work" || exit 1
mkdir "$share/log"
: >"$share/host.log"
arch=$(dpkg --print-architecture)
[[ ${VM_ARCH-} != aarch64 ]] || arch=arm64
store=build/image/store${VM_ARCH:+-$VM_ARCH}.erofs
tests/vm/image/store.sh "$store" "build/image/remoting-$arch.tar" || exit 1

# Of the checkout, what runs; and what an installation of it would say of itself, since its runtimes are
# entry points.
if [[ -n $RAMALAMA ]]; then
    mkdir "$work/ramalama"
    cp -r "$RAMALAMA"/{bin,ramalama,pyproject.toml} "$work/ramalama/" || exit 1
    version=$(sed -n 's/^__version__ *= *"\(.*\)"/\1/p' "$RAMALAMA/ramalama/version.py")
    info=$work/ramalama/ramalama-$version.dist-info
    mkdir "$info"
    printf 'Metadata-Version: 2.1\nName: ramalama\nVersion: %s\n' "$version" >"$info/METADATA"
    sed -n '/^\[project\.entry-points\./,/^$/p' "$RAMALAMA/pyproject.toml" |
        sed 's/^\[project\.entry-points\.\(.*\)\]$/[\1]/; s/"//g' >"$info/entry_points.txt"
    BOOT_DISKS=ramalama=$work/ramalama
fi

rc=0
APIR_LOG=debug VM_HOST_SCRIPT=$PWD/tests/vm/ramalama/host.sh \
    boot_vm "$work" "$store" tests/vm/ramalama/guest.sh "${ROW-}" || rc=$?
find "$share/log" "$share/host.log" -type f -exec cp -t build/ramalama {} +
touch "$share/plan" "$share/passed"
# What was to run and has not reported has failed: the VM may have died in it.
total=$(wc -l <"$share/plan") passed=$(wc -l <"$share/passed")
[[ $rc -eq 0 || $passed -ne $total ]] || echo "ramalama: the VM ended with $rc"
echo "ramalama: $SECONDS s, logs in build/ramalama"
echo "ramalama: $passed of $total command lines pass"
[[ $rc -eq 0 && $total -gt 0 && $passed -eq $total ]]
