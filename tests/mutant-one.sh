#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutant-one.sh: one mutant of all in check-attacks MUTATE=1 and check-sandbox-mutants. The commit chooses
# it, so that each run of the same commit is the same and all have their turn.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git -c safe.directory='*' rev-parse HEAD 2>/dev/null) || commit=$(sha256sum tests/hostile/attacks/mutants)
attacks=$(tests/hostile/attacks/mutate.sh --count) sandbox=$(tests/hostile/sandbox/mutate.sh --count)
n=$((16#${commit:0:8} % (attacks + sandbox)))
if [[ $n -lt $attacks ]]; then
    exec "${MAKE:-make}" --no-print-directory check-attacks MUTATE=1 ROWS= "MUTANT=$n"
fi
exec "${MAKE:-make}" --no-print-directory check-sandbox-mutants "MUTANT=$((n - attacks))"
