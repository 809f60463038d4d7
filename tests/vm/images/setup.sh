#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh WHAT: as tests/vm/engines/setup.sh, which does it, with the images of this suite.
set -euo pipefail
[[ $1 != machine ]] ||
    sed -i 's|^additionalimagestores = .*|additionalimagestores = ["/mnt/store", "/mnt/images"]|' \
        /etc/containers/storage.conf
exec bash tests/vm/engines/setup.sh "$1"
