#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# classes.sh OUT: what shows classes and their groups, gathered from the suites that it belongs to, and a short
# soak of two classes, which is one row. The last line is `classes: N of M rows pass`. A test that was
# skipped is no row, and is named.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/steps.bash
. tests/steps.bash
out=${1:-build/release-gcc}
log=$(mktemp "${TMPDIR:-/tmp}/classes.XXXXXX")
trap 'rm -f "$log"' EXIT
passed=0 failed=0

# A command whose last count is `…: N passed, N failed`; without one it is a row of its own.
part() { # COMMAND...
    local count p f rc=0
    "$@" 2>&1 | tee "$log" || rc=$?
    count=$(step_count <"$log")
    read -r p f <<<"${count:-$((rc == 0)) 0}"
    [[ $rc -eq 0 && $p -gt 0 || $f -gt 0 ]] || f=1
    passed=$((passed + p)) failed=$((failed + f))
}

part tests/system/run.sh --filter 'of a class|all servers|of a server gives|a server.s hold' "$out" tests/system/limits.bats
part tests/system/run.sh "$out" tests/system/mps.bats tests/system/trial.bats tests/system/cdi/classes.bats
part tests/unit/run.sh "$out"/tests/unit/backend/server_{group,limits,shm}_test "$out/tests/process/server_unix_test"
part "$out/tests/hostile/soak/soak-classes" "$out" 20 2

echo "classes: $passed of $((passed + failed)) rows pass"
[[ $failed -eq 0 && $passed -gt 0 ]]
