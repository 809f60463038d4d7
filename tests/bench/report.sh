#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# report.sh OUT [--targets PREFIX] FILE...: what the samples in these files, all of one run, say: OUT/results.json, and
# OUT/table.md, which it also prints. Its last line is `bench: N of M targets met`; with PREFIX only of targets whose
# names begin so.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$1 targets=
shift
if [[ ${1-} == --targets ]]; then
    targets=$2
    shift 2
fi
[[ $# -gt 0 ]] || { echo "report.sh: no files of samples" >&2; exit 2; }
mkdir -p "$out"
jq -nR -L "$here" --arg targets "$targets" -f "$here/report.jq" "$@" >"$out/results.json.part" ||
    { rm -f "$out/results.json.part"; exit 1; }
mv "$out/results.json.part" "$out/results.json"
jq -r -f "$here/table.jq" "$out/results.json" | tee "$out/table.md"
