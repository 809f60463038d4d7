#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# coverage.sh O CORPUS OUT TARGET...: which lines and branches the replays in O (MODE=coverage)
# run over CORPUS and OUT/found. A table per file; OUT/coverage/ has the sources with counts.
set -euo pipefail
o=$1 corpus=$2 out=$3
shift 3
dir=$out/coverage
mkdir -p "$dir"
rm -f "$dir"/*.profraw
objects=()
for t in "$@"; do
    inputs=("$corpus/$t")
    [[ ! -d $out/found/$t ]] || inputs+=("$out/found/$t")
    LLVM_PROFILE_FILE=$dir/$t.profraw "$o/tests/hostile/fuzz/${t}_replay" "${inputs[@]}" \
        >"$dir/$t.log" 2>&1 || { tail -3 "$dir/$t.log"; echo "coverage: $t fails" >&2; exit 1; }
    objects+=(-object "$o/tests/hostile/fuzz/${t}_replay")
done
llvm-profdata merge -o "$dir/all.profdata" "$dir"/*.profraw
common=("${objects[@]}" -instr-profile="$dir/all.profdata" -ignore-filename-regex='(^|/)(tests|usr)/')
llvm-cov show "${common[@]}" -show-branches=count >"$dir/sources.txt" 2>/dev/null
llvm-cov report "${common[@]}" -show-region-summary=false -show-instantiation-summary=false 2>/dev/null |
    awk '/^(Filename|-|TOTAL)/ || $4 != "0.00%"'
