#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# prepare.sh FOLDER: what the VM of run.sh is given for the rows of this suite. OUT is the build's
# output folder.
set -euo pipefail
work=$1
mkdir -p "$work/share/lib"
cp "$OUT"/tests/vm/engines/{trap,abort}.so "$work/share/lib/"
# There where tests/vm/engines/node/fetch.sh was called.
[[ ! -e build/images/node.tar ]] || tests/vm/engines/node/pack.sh "$work/archives/node.tar"
