# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# step_run FOLDER NAME[:KIND] GOAL...: runs `make GOAL...` into FOLDER/NAME.log and sets what came of it:
#
#   STEP_PASSED    tests of our own that passed, each one once
#   STEP_AGAIN     those that passed there and that another step has run in another way
#   STEP_UPSTREAM  cases of other people's suites that came out as they do natively
#   STEP_FAILED    failures of all three
#   STEP_SKIPPED   how many were skipped; step_skips FILE names them
#
# KIND says what the step's count is of: nothing (tests), `again`, `upstream`, or `one`: the whole
# step is one test, which passes or does not. The count is the last line "…: N passed, N failed" of the log (or
# "N of M as native", "stopped", "noticed", "rows pass", "pairs pass", "command lines pass", "commands ran").
# A line "…: of these again: N passed, N failed" (or "of these upstream") before it says how many of them are of that kind. A step that has counted nothing,
# and one that counts no failure and fails all the same, has one failure.

step_count() { # the last count of some lines, as "PASSED FAILED"; nothing without one
    local text p f _
    text=$(grep -aoE '([0-9]+ passed, [0-9]+ failed|[0-9]+ of [0-9]+ ((comparisons )?as native|stopped|noticed|(rows|pairs|command lines) pass|commands ran))$' |
        tail -n 1)
    [[ -n $text ]] || return 0
    read -r p _ f _ <<<"$text"
    [[ $text == *failed ]] || f=$((f - p))
    echo "$p $f"
}

# As bats and tests/unit/run.sh say it. Names and reasons, a line each.
step_skips() { # FILE
    sed -nE -e 's/^ok [0-9]+ (.*) # skip *(.*)$/\1: \2/p' -e 's/^skipped +(.*)$/\1/p' "$1" | tr -d '\r' |
        sed -E 's/ in [0-9]+ms:/:/'
}

# shellcheck disable=SC2034 # results, for the caller
step_run() { # FOLDER NAME[:KIND] GOAL...
    local log=$1/${2%%:*}.log kind='' count p f rc=0
    [[ $2 != *:* ]] || kind=${2#*:}
    shift 2
    STEP_PASSED=0 STEP_AGAIN=0 STEP_UPSTREAM=0 STEP_FAILED=0
    ${MAKE:-make} --no-print-directory "$@" >"$log" 2>&1 </dev/null || rc=$?
    count=$(grep -av ': of these ' "$log" | step_count)
    [[ $kind != one ]] || count="$((rc == 0)) 0"
    read -r p f <<<"${count:-0 0}"
    STEP_FAILED=$f
    if [[ $STEP_FAILED -eq 0 && ($rc -ne 0 || $p -eq 0) ]]; then
        STEP_FAILED=1
        [[ $rc -ne 0 ]] || echo "error: no test was run: 0 passed, 0 failed is no success" >>"$log"
    fi
    count=$(grep -a ': of these again' "$log" | step_count)
    read -r STEP_AGAIN _ <<<"${count:-0 0}"
    count=$(grep -a ': of these upstream' "$log" | step_count)
    read -r STEP_UPSTREAM _ <<<"${count:-0 0}"
    case $kind in
    again) STEP_AGAIN=$p ;;
    upstream) STEP_UPSTREAM=$p ;;
    esac
    STEP_PASSED=$((p - STEP_AGAIN - STEP_UPSTREAM))
    STEP_SKIPPED=$(step_skips "$log" | wc -l)
}

# The lines that say what went wrong.
step_failures() { # LOG
    grep -aE '(^|[^a-z])(not ok|in test file|NOT STOPPED|FAIL|FAILED|error:|Error)' "$1" | head -n 40
}

# What went wrong, for a person: those lines, and the end.
step_show() { # LOG
    step_failures "$1" | sed 's/^/    | /'
    tail -n 15 "$1" | sed 's/^/    > /'
    echo "    the whole output: $1"
}
