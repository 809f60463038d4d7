#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: sandboxes and engines are told what apir spec prints for them, and compute on APIR0
# (`make check-sandboxes`; ROW=name runs that row alone). Rows, logs and results are as
# tests/vm/engines/run.sh says; the last line is `sandboxes: N of M rows pass`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
SUITE=sandboxes exec tests/vm/engines/run.sh "$@"
