#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# suites.sh OUT SERVER: what bats tests over vtest, with SERVER, which takes stream sockets, in place of ours: below
# stock virglrenderer by tests/system/stream_proxy.c. Programs and plug-in are OUT's. The last line is that of
# tests/system/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$1
STREAM_PROXY_SERVER=$(realpath "$2") VTEST_RENDER_SERVER=$out/tests/system/stream-proxy tests/system/run.sh \
    --filter '^(stream|loss|silence|client|memory: (host buffers|several|random|events|loss in the middle of host))' \
    "$out" tests/system/{stream,loss,silence,clients,memory}.bats
