#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh OUT [ROW]...: apir-attacks of that build; the results also in build/attacks/results.json.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
shift
# The worker may start no program that gives names to addresses.
export ASAN_OPTIONS=${ASAN_OPTIONS-exitcode=99:symbolize=0:detect_leaks=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS-exitcode=99:symbolize=0:print_stacktrace=1}
mkdir -p build/attacks
exec "$out/tests/attacks/apir-attacks" --json build/attacks/results.json "$@"
