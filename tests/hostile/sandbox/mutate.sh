#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutate.sh OUT OBJECT...: each rule of the sandbox is taken out in turn, by the lines of
# tests/hostile/sandbox/mutants (or MUTANTS_FILE), and the test that is named there must say `not ok`.
# mutate.sh --count: how many mutants there are.
#
# First a control: all tests that are named, with a worker linked as the mutants are, with a comment
# more. Each must pass. What does not compile, or does not run, is a failure. OBJECTs are those that
# apir-worker is linked from. MUTANTS="NAME..." takes some of the mutants only, MUTANT=n the one of that
# number. The last line is `mutants: N of M noticed`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/mutant.bash
. tests/mutant.bash
file=${MUTANTS_FILE:-tests/hostile/sandbox/mutants} ONLY=${MUTANTS-}

if [[ $1 == --count ]]; then
    n=0
    mutant() { n=$((n + 1)); }
    # shellcheck source=tests/hostile/sandbox/mutants
    . "$file"
    echo "$n"
    exit
fi

out=$1
shift
objects=("$@")
work=$(mktemp -d "${TMPDIR:-/tmp}/mutate.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Another output directory, with a worker of its own. The server looks for it beside itself. Some tests
# run it as another user.
chmod 755 "$work"
mkdir -p "$work/out/backend"
ln -s "$(realpath "$out/frontend")" "$(realpath "$out/tests")" "$work/out/"
cp "$out/backend/apir-render-server" "$work/out/backend/"

# Ends with the last test: bats would wait for its own time limit after a failed one.
tests_run() { # PATTERN
    local bats n
    : >"$work/log"
    APIR_OUT=$work/out setsid bats --formatter tap -f "$1" tests/system/sandbox.bats \
        >"$work/log" 2>&1 </dev/null &
    bats=$!
    while kill -0 "$bats" 2>/dev/null; do
        n=$(sed -n 's/^1\.\.//p' "$work/log")
        [[ -z $n || $(grep -cE '^(not )?ok ' "$work/log") -lt $n ]] || break
        sleep 0.2
    done
    sleep 0.3 # what the last one has to say
    kill -KILL -- "-$bats" 2>/dev/null || :
    wait "$bats" 2>/dev/null || :
}

# How the tests of that name have ended: noticed, passed, or dumb (none ran, or one was skipped).
tests_said() { # PATTERN
    if grep -qE "^not ok [0-9]+ .*($1)" "$work/log"; then
        echo noticed
    elif grep -E "^ok [0-9]+ .*($1)" "$work/log" | grep -qv ' # skip'; then
        echo passed
    else
        echo dumb
    fi
}

build() { # FILE FROM TO
    local object=$work/mutant.o
    mutant_write "$1" "$2" "$3" "$work/mutant.c" || return
    # shellcheck disable=SC2046 # flags
    gcc -std=gnu17 -D_GNU_SOURCE -O1 -D_FORTIFY_SOURCE=2 -fPIC -I. $(pkg-config --cflags libseccomp) -c -o "$object" \
        "$work/mutant.c" &&
        gcc -o "$work/out/backend/apir-worker" "$object" \
            $(printf '%s\n' "${objects[@]}" | grep -v "/${1%.c}\.o$") \
            $(pkg-config --libs json-c libcap libseccomp) -ldl
}

# ---- what is wanted, and the control -----------------------------------------------------------

declare -A control=()
names=()
mutant() { # NAME FILE TEST FROM TO
    ! mutant_wanted "$1" || names+=("$3")
}
# shellcheck source=tests/hostile/sandbox/mutants
. "$file"
[[ ${#names[@]} -gt 0 ]] || { echo "mutate.sh: no such mutant"; mutants_sum; exit; }
mapfile -t names < <(printf '%s\n' "${names[@]}" | sort -u)

build backend/worker/sandbox/sandbox.c '#include' $'/* The same program. */\n#include' >"$work/log" 2>&1 ||
    { cat "$work/log"; mutant_failed "control: not built"; mutants_sum; exit 1; }
tests_run "$(printf '%s\n' "${names[@]}" | paste -sd '|')"
for name in "${names[@]}"; do
    said=$(tests_said "$name")
    if [[ $said == passed ]]; then
        control[$name]=yes
    else
        mutant_failed "control: \"$name\", with a comment more: $said: $(grep -E "^(not )?ok .*($name)" \
            "$work/log" | paste -sd ' ' || tail -n 1 "$work/log")"
    fi
done
echo "control: ${#control[@]} of ${#names[@]} tests pass"

# ---- the mutants --------------------------------------------------------------------------------

mutant() { # NAME FILE TEST FROM TO
    mutant_wanted "$1" || return 0
    if [[ ! -v control[$3] ]]; then
        mutant_failed "$1: its test does not pass as it is; see the control"
        return 0
    fi
    if ! build "$2" "$4" "$5" >"$work/log" 2>&1; then
        mutant_failed "$1: not built: $(head -n 3 "$work/log" | tr '\n' ' ')"
        return 0
    fi
    tests_run "$3"
    case $(tests_said "$3") in
    noticed)
        # What was expected, or the line of the test.
        mutant_noticed "$1: $({ sed -nE 's/^# expected: ([^;]*);.*/\1/p' "$work/log" | grep -v '^$' ||
            sed -nE "s/^# +(\`.*failed.*)/\1/p" "$work/log"; } | sort -u | tr '\n' ' ')"
        ;;
    passed) mutant_failed "$1: nobody missed it" ;;
    *) mutant_failed "$1: did not run: $(tail -n 1 "$work/log")" ;;
    esac
}
mutants_begin
MUTANT_NUMBER=0
# shellcheck source=tests/hostile/sandbox/mutants
. "$file"
mutants_sum
