#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# guest.sh BATS-FILE: what run.sh runs in the VM. The guest's part is installed as a distribution
# would; podman finds the image in a second read-only store.
set -euo pipefail

unset GGML_VK_VISIBLE_DEVICES # the host's
cp -a /mnt/share/root/. /
sed -i 's|^additionalimagestores = .*|additionalimagestores = ["/mnt/store", "/mnt/remoting"]|' \
    /etc/containers/storage.conf
apir cdi generate
bats --timing --tap "tests/vm/image/$1"
