#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: the layouts of images that people run, as containers of podman on APIR0, in a VM (`make
# check-images`; ROW=name runs that row alone). The images are file trees made of Debian's packages in the
# places of another image's files (trees.sh says which); each row's program says what the same program says
# in the same tree on this machine's CPU without us, all of its layers are on APIR0, and the host has
# computed. Rows, logs and results are as tests/vm/engines/run.sh says, but in build/check-images/; the last
# line is `images: N of M rows pass`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# The host's side tells the rows what it computes.
export APIR_LOG=debug VM_HOST_SCRIPT=tests/vm/ramalama/host.sh
SUITE=images LOGS=build/check-images exec tests/vm/engines/run.sh "$@"
