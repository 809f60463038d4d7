#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# link.sh [OUT [ARG]...]: apir-bench link over the vtest transport, without a VM. ARGs go to the program
# (apir-bench --help). BENCH_KEEP_LOG=FILE keeps what the server and the worker said, and with
# APIR_LOG=info the worker says what each kind of message took.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh

out=$(realpath "${1:-build/release-gcc}")
shift || :
unset GGML_BACKEND_PATH APIR_TRANSPORT APIR_ON_LOSS

# One thread: what computes one node needs no second one, which would only spin.
# shellcheck disable=SC2034 # read by vtest_start
VTEST_CONFIG='{"threads": 1, "devices": ["CPU"]}' VTEST_KEEP_LOG=${BENCH_KEEP_LOG-}
vtest_start "$out"
mapfile -t vars < <(vtest_env "$out")
env "${vars[@]}" "$out/tests/bench/apir-bench" link --case vtest-link "$@"
