#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Exits 0 where the real build can run at once: in the build root, or on a
# Debian forky (or later) machine that has every package in tests/env/packages and packages.demo.
# APIR_NATIVE=1 says "this machine will do"; APIR_NATIVE=0 "always the build root".
set -eu

# Written by sysroot.sh into the tree that it makes.
[ ! -e /etc/apir-build-root ] || exit 0

case ${APIR_NATIVE:-} in
1) exit 0 ;;
0) exit 1 ;;
esac

[ -r /etc/os-release ] || exit 1
# shellcheck source=/dev/null
. /etc/os-release
[ "${ID:-}" = debian ] || exit 1
case ${VERSION_CODENAME:-} in
forky | sid) ;;
*) [ "${VERSION_ID:-0}" -ge 14 ] 2>/dev/null || exit 1 ;;
esac

cd "$(dirname "$0")"
packages=$(sed 's/#.*//; s/^files://' packages packages.demo)
# shellcheck disable=SC2086 # a list of words on purpose
states=$(dpkg-query -W -f '${db:Status-Status}\n' $packages 2>/dev/null) || exit 1
! printf '%s\n' "$states" | grep -qvx installed
