#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For tests of tests: a source with one thing taken out, and what may be said of the test that should
# miss it. A suite of mutants sources a file of lines `mutant NAME …` twice: first to know what is
# wanted, and then, after a control run in which nothing is taken out, to try each.

# mutant_write FILE FROM TO RESULT: FILE with its first FROM as TO; false, with a line, without one.
mutant_write() {
    local text new
    text=$(<"$1")
    new=${text/"$2"/"$3"}
    [[ $new != "$text" ]] || { echo "$1 does not hold: $2"; return 1; }
    printf '%s\n' "$new" >"$4"
}

# mutant_wanted NAME: every `mutant` has its number, from 0 on. MUTANT=number takes one alone, ONLY="NAME..."
# those of some names.
MUTANT_NUMBER=0
mutant_wanted() {
    local number=$MUTANT_NUMBER
    MUTANT_NUMBER=$((MUTANT_NUMBER + 1))
    if [[ -n ${MUTANT-} ]]; then
        [[ $MUTANT -eq $number ]]
    else
        mutant_named "$1"
    fi
}
mutant_named() { [[ -z ${ONLY-} || " $ONLY " == *" $1 "* ]]; }

# Before the first of them. Without what stops it a test may well hang, and that it does is told soon. Where it is one
# alone, not as soon: that is said to run beside others (make check).
mutants_begin() {
    export APIR_PATIENCE=1
    [[ -z ${MUTANT-} ]] || APIR_PATIENCE=3
}

# Verdicts. What is not PASS is a failure; ELSEWHERE is counted apart.
MUTANTS_NOTICED=0 MUTANTS_TOTAL=0 MUTANTS_ELSEWHERE=0 MUTANTS_FAILED=0
mutant_noticed() {
    MUTANTS_NOTICED=$((MUTANTS_NOTICED + 1)) MUTANTS_TOTAL=$((MUTANTS_TOTAL + 1))
    echo "PASS  $*"
}
mutant_elsewhere() {
    MUTANTS_ELSEWHERE=$((MUTANTS_ELSEWHERE + 1))
    echo "ELSEWHERE  $*"
}
mutant_failed() {
    MUTANTS_TOTAL=$((MUTANTS_TOTAL + 1)) MUTANTS_FAILED=$((MUTANTS_FAILED + 1))
    echo "FAIL  $*"
}

# The last lines; true if all is as it should be, and there was something.
mutants_sum() {
    [[ $MUTANTS_ELSEWHERE -eq 0 ]] || echo "mutants: $MUTANTS_ELSEWHERE refused elsewhere, as they should be"
    echo "mutants: $MUTANTS_NOTICED of $MUTANTS_TOTAL noticed"
    [[ $MUTANTS_FAILED -eq 0 && $((MUTANTS_NOTICED + MUTANTS_ELSEWHERE)) -gt 0 ]]
}
