#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-guest.sh BATS-FILE: what check.sh runs in the VM. The guest's part is
# installed as a distribution would; then the tests.
set -euo pipefail

unset GGML_VK_VISIBLE_DEVICES # the host's
cp -a /mnt/share/root/. /
[[ $1 == check-nohost.bats ]] || apir cdi generate
bats --timing --tap "tests/vm/$1"
