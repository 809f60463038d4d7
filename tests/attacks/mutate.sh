#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutate.sh OUT [ROW]...: what stops an attack is taken out, row by row of tests/attacks/mutants, and
# the row must say NOT STOPPED. A row without a mutant must be named there as such, with the reason.
# The last line is `mutants: N of M noticed`.
#
# From the Makefile: ATTACKS_CC and ATTACKS_LD (compiler and flags), WORKER_OBJS, SERVER_OBJS,
# HOOK_OBJS, WORKER_LIBS, SERVER_LIBS, HOOK_LIBS, HOOK_FLAGS. All is linked dynamically, with the
# sanitizers, the hook too.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/mutant.bash
. tests/mutant.bash
out=$1
shift
only=" $* "
work=$(mktemp -d "${TMPDIR:-/tmp}/attacks-mutate.XXXXXX")

# What an attack that nothing stopped has left behind: programs of this run, and no others. Workers
# have another root, so the folder's own name must do.
kill_mutants() {
    local exe
    for exe in /proc/[0-9]*/exe; do
        [[ $(readlink "$exe") != *"/${work##*/}/out/"* ]] || kill -KILL "${exe//[!0-9]/}" || :
    done
}
trap 'kill_mutants; rm -rf "$work"' EXIT
mkdir -p "$work/tmp" "$work/layer" "$work/out/backend" "$work/out/hook" "$work/out/tests/attacks"
cp "$out/tests/attacks/apir-attacks" "$work/out/tests/attacks/"
ln -s "$(realpath "$out/frontend")" "$work/out/"
ln -s "$(realpath "$out/tests/hook")" "$work/out/tests/"

declare -A rows
while IFS=$'\t' read -r row _; do rows[$row]=; done < <(tests/attacks/run.sh "$out" --list)

# link PROGRAM OBJECT...: of the mutants' objects where there is one.
link() {
    local program=$1 libs=$2 object objects=()
    shift 2
    for object in "$@"; do
        [[ ! -e $work/obj/${object#"$out/"} ]] || object=$work/obj/${object#"$out/"}
        objects+=("$object")
    done
    # shellcheck disable=SC2086 # flags
    $ATTACKS_CC -o "$work/out/$program" "${objects[@]}" $ATTACKS_LD $libs
}

# build (FILE FROM TO)...: edits of one file follow each other.
build() {
    local object flags
    rm -rf "$work/obj" "$work/src"
    while [[ $# -ge 3 ]]; do
        mkdir -p "$work/src/${1%/*}" "$work/obj/${1%/*}"
        [[ -e $work/src/$1 ]] || cp "$1" "$work/src/$1"
        mutant_write "$work/src/$1" "$2" "$3" "$work/edited" || return
        mv "$work/edited" "$work/src/$1"
        shift 3
    done
    while read -r object; do
        # Code that is not reached any more has names that nobody uses.
        flags=
        [[ $object != hook/* ]] || flags=$HOOK_FLAGS
        # shellcheck disable=SC2086 # flags
        eval "$ATTACKS_CC $flags" -Wno-error -w -c -o '"$work/obj/${object%.c}.o" "$work/src/$object"' || return
    done < <(cd "$work/src" && find . -name '*.c' -printf '%P\n')
    # shellcheck disable=SC2086 # lists
    link backend/apir-worker "$WORKER_LIBS" $WORKER_OBJS &&
        link backend/apir-render-server "$SERVER_LIBS" $SERVER_OBJS &&
        link hook/apir-hook "$HOOK_LIBS" $HOOK_OBJS
}

# A hook without its checks may write into what it should not: /usr is a layer that goes with the row.
in_layer() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private sh -ec 'mount -t tmpfs apir-mutant "$1"
        mkdir "$1/upper" "$1/work"
        mount -t overlay -o "lowerdir=/usr,upperdir=$1/upper,workdir=$1/work" apir-mutant /usr
        shift
        exec "$@"' sh "$work/layer" "$@"
}

noticed=0 total=0
mutant() { # ROW (FILE FROM TO)...
    local row=$1
    [[ -v rows[$row] ]] || { echo "FAIL  $row: there is no such row"; total=$((total + 1)); return 0; }
    rows[$row]=yes
    [[ $only == "  " || $only == *" $row "* ]] || return 0
    total=$((total + 1))
    shift
    if ! build "$@" >"$work/log" 2>&1; then
        echo "FAIL  $row: $(head -n 3 "$work/log" | tr '\n' ' ')"
        return 0
    fi
    TMPDIR=$work/tmp ATTACKS_RESULTS=$work/results in_layer tests/attacks/run.sh "$work/out" "$work/out" "$row" \
        >"$work/log" 2>&1 || :
    kill_mutants
    if grep -q "NOT STOPPED  $row .*in its honest form" "$work/log"; then
        echo "FAIL  $row: the honest form does not work without: $2"
    elif grep -q "NOT STOPPED  $row " "$work/log"; then
        noticed=$((noticed + 1))
        echo "PASS  $row, without ${2%%$'\n'*}: $(sed -n 's/.*NOT STOPPED [^:]*: //p' "$work/log")"
    else
        echo "FAIL  $row: nobody missed in $1: ${2%%$'\n'*} ($(tail -n 1 "$work/log"))"
    fi
}

# A row that no line of ours stops: by what else.
unmutated() { # ROW REASON
    rows[$1]=yes
}

# shellcheck source=tests/attacks/mutants
. tests/attacks/mutants

if [[ $only == "  " ]]; then
    for row in "${!rows[@]}"; do
        [[ -n ${rows[$row]} ]] || { echo "FAIL  $row: no mutant"; total=$((total + 1)); }
    done
fi
echo "mutants: $noticed of $total noticed"
[[ $noticed -eq $total && $total -gt 0 ]]
