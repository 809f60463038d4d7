#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-guest.sh BATS-FILE [OPTION]...: what check.sh runs in the VM, with options for bats. The guest's part is
# installed as a distribution would; then the tests.
set -euo pipefail

unset GGML_VK_VISIBLE_DEVICES # the host's
cp -a /mnt/share/root/. /
[[ $1 == check-nohost.bats ]] || apir cdi generate
bats --timing --tap "${@:2}" "tests/vm/$1"
