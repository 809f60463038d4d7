#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutate-test.sh: what tests/hostile/attacks/mutate.sh and tests/hostile/sandbox/mutate.sh say of mutants whose verdict
# is known. One that changes nothing but a comment is never noticed, nor is one that does not compile or
# whose test does not run. The last line is `mutate: N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."
make=${MAKE:-make}
work=$(mktemp -d build/mutate-test.XXXXXX)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

verdict() { # yes|no NAME [DETAIL]
    if [[ $1 == yes ]]; then
        passed=$((passed + 1))
        echo "ok - $2"
    else
        failed=$((failed + 1))
        echo "not ok - $2: ${3-}"
    fi
}

said() { # NAME PATTERN: a line of the log is so
    if grep -qE "$2" "$work/log"; then verdict yes "$1"; else verdict no "$1" "$(tail -n 12 "$work/log")"; fi
}

# ---- attacks -------------------------------------------------------------------------------

cat >"$work/attacks" <<'EOT'
note=$'/* Nothing else. */\n#include'
mutant ring-tail-backwards protocol/ring.c '#include' "$note"
mutant hook-environment hook/main.c '#include' "$note"
mutant ring-head protocol/ring.c 'rh->head += rh->taken;' 'no_such_function_at_all('
mutant ring-both-moved protocol/ring.c 'no such text' ''
mutant ref-op-numbers protocol/graph.c '(t->bits & APIR_TENSOR_NODE) && t->op == APIR_NO_NAME' 0
elsewhere ref-op-numbers protocol/graph.c '(t->bits & APIR_TENSOR_NODE) && t->op == APIR_NO_NAME' 0
elsewhere ring-half-message protocol/ring.c 'h.size > used || ' ''
mutant ring-half-message protocol/ring.c 'h.size > used || ' ''
mutant no-such-row protocol/ring.c '#include' "$note"
EOT
rc=0
MUTANTS_FILE=$work/attacks "$make" --no-print-directory check-attacks MUTATE=1 ROWS= MUTANT= >"$work/log" 2>&1 || rc=$?
said 'attacks: the control is green' '^control: 6 of 6 rows stopped$'
said 'attacks: a comment is not noticed' '^FAIL  ring-tail-backwards, .*: nobody missed it'
said 'attacks: a comment in the static hook is not noticed' '^FAIL  hook-environment, .*: nobody missed it'
said 'attacks: what does not compile is not noticed' '^FAIL  ring-head, .*: not built'
said 'attacks: what the source does not hold is not noticed' '^FAIL  ring-both-moved, .*: not built'
said 'attacks: another reason is not noticed' '^FAIL  ref-op-numbers, .*: refused all the same'
said 'attacks: another reason stands apart' '^ELSEWHERE  ref-op-numbers, '
said 'attacks: what is noticed is not said to be refused elsewhere' \
    '^FAIL  ring-half-message, .*: said to be refused elsewhere, but is not'
said 'attacks: a real one is noticed' '^PASS  ring-half-message, '
said 'attacks: a row that is not there is a failure' '^FAIL  no-such-row: there is no such row'
said 'attacks: the sum' '^mutants: 1 of 8 noticed$'
verdict "$([[ $rc -ne 0 ]] && echo yes || echo no)" 'attacks: and it fails' "$rc"

# The programs that run the rows are not there: nothing is green, and nothing noticed.
mkdir "$work/bin"
printf '#!/bin/sh\nexit 127\n' >"$work/bin/bats"
chmod +x "$work/bin/bats"
sed -n -e 1p -e '/hook-environment/p' "$work/attacks" >"$work/hook"
rc=0
PATH="$PWD/$work/bin:$PATH" MUTANTS_FILE=$work/hook "$make" --no-print-directory check-attacks MUTATE=1 ROWS= \
    MUTANT= >"$work/log" 2>&1 || rc=$?
said 'attacks: without bats nothing is noticed' '^mutants: 0 of [1-9][0-9]* noticed$'
verdict "$([[ $rc -ne 0 ]] && echo yes || echo no)" 'attacks: and it fails, too' "$rc"

# ---- the sandbox ----------------------------------------------------------------------------

cat >"$work/sandbox" <<'EOT'
mutant comment backend/worker/sandbox/sandbox.c 'every thread' '#include' $'/* Nothing else. */\n#include'
mutant no_code backend/worker/sandbox/sandbox.c 'every thread' 'rc = capabilities_drop(err);' 'no_such_function('
mutant no_test backend/worker/sandbox/sandbox.c 'a test that nobody has written' 'rc = capabilities_drop(err);' 'rc = 0;'
mutant capabilities backend/worker/sandbox/sandbox.c 'every thread' 'rc = capabilities_drop(err);' 'rc = 0;'
EOT
rc=0
MUTANTS_FILE=$work/sandbox "$make" --no-print-directory check-sandbox-mutants MUTANTS= MUTANT= >"$work/log" 2>&1 ||
    rc=$?
said 'sandbox: the control is green but for what is not there' '^control: 1 of 2 tests pass$'
said 'sandbox: a comment is not noticed' '^FAIL  comment: nobody missed it'
said 'sandbox: what does not compile is not noticed' '^FAIL  no_code: not built'
said 'sandbox: a test that is not there notices nothing' '^FAIL  no_test: its test does not pass as it is'
said 'sandbox: a real one is noticed' '^PASS  capabilities: '
verdict "$([[ $rc -ne 0 ]] && echo yes || echo no)" 'sandbox: and it fails' "$rc"
rc=0
PATH="$PWD/$work/bin:$PATH" MUTANTS_FILE=$work/sandbox "$make" --no-print-directory check-sandbox-mutants \
    MUTANTS=capabilities MUTANT= >"$work/log" 2>&1 || rc=$?
said 'sandbox: without bats nothing is noticed' '^mutants: 0 of [1-9][0-9]* noticed$'
verdict "$([[ $rc -ne 0 ]] && echo yes || echo no)" 'sandbox: and it fails, too' "$rc"

echo "mutate: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
