#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh [--part] [OUT]
#
# All of this folder: llama.cpp's test of every architecture over the host's CPU and over lavapipe,
# its programs on a model of each, and its other suites. --part is what `make check` has time for:
# a choice of architectures over the CPU, and the short suites.
#
# Each piece prints a line for each row. The last line adds them up: `archs: N of M as native`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/native/archs

part=
if [[ ${1-} == --part ]]; then
    part=--part
    shift
fi
out=${1:-build/release-gcc}
mkdir -p build/archs
counts=$(mktemp "${TMPDIR:-/tmp}/archs.XXXXXX")
trap 'rm -f "$counts"' EXIT
failed=0

piece() { # NAME COMMAND...
    local name=$1 count
    shift
    count=build/archs/$name.txt
    "$@" "$out" 2>&1 | tee "$count" || failed=$((failed + 1))
    # A piece that ends before it has counted is one failure.
    grep -aoE '[0-9]+ of [0-9]+ as native$' "$count" | tail -n 1 | grep . >>"$counts" ||
        echo "0 of 1" >>"$counts"
}

if [[ -n $part ]]; then
    piece archs-CPU $here/run.sh --part
    piece suites-CPU $here/suites.sh --part
else
    for host in CPU lavapipe; do
        piece archs-$host $here/run.sh --host $host
        piece suites-$host $here/suites.sh --host $host
    done
    piece models-CPU $here/models.sh
    # Each program on lavapipe takes a minute or more; kinds of models are enough there.
    piece models-lavapipe $here/models.sh --part --host lavapipe
fi

awk '{ good += $1; total += $3 }
     END { printf "archs: %d of %d as native\n", good, total }' "$counts"
[[ $failed -eq 0 ]]
