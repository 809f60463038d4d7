#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutate.sh OUT STATIC-OUT [ROW]...: what stops an attack is taken out, by the lines of
# tests/hostile/attacks/mutants (or MUTANTS_FILE), and the row must say NOT STOPPED.
# mutate.sh --count: how many mutants there are.
#
# First a control: all rows that are wanted, built and linked as the mutants are, with a comment more.
# Each must be stopped; a mutant of a row that is not proves nothing. What did not compile, did not run,
# or ended without a verdict is a failure, and so is an attack that something else refuses for another
# reason, unless its line says so (`elsewhere`). Every row has a mutant, or a line that says why not.
# What such a row has said is in build/attacks/mutant-ROW.log. The last line is `mutants: N of M noticed`.
# MUTANT=n takes the mutant of that number alone.
#
# From the Makefile: ATTACKS_CC and ATTACKS_LD (compiler and flags), WORKER_OBJS, SERVER_OBJS,
# HOOK_OBJS, WORKER_LIBS, SERVER_LIBS, HOOK_LIBS, HOOK_FLAGS, SERVER_FLAGS; of STATIC-OUT, STATIC_CC and STATIC_LD.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/mutant.bash
. tests/mutant.bash
file=${MUTANTS_FILE:-tests/hostile/attacks/mutants}

if [[ $1 == --count ]]; then
    n=0
    mutant() { n=$((n + 1)); }
    elsewhere() { :; }
    unmutated() { :; }
    # shellcheck source=tests/hostile/attacks/mutants
    . "$file"
    echo "$n"
    exit
fi

out=$1 static=$2
shift 2
ONLY=$*
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
mkdir -p build/attacks "$work/tmp" "$work/layer" "$work/out/backend" "$work"/out/tests/{hostile/attacks,lib} "$work"/{out,static}/hook
cp "$out/tests/hostile/attacks/"{apir-attacks,loud-worker} "$work/out/tests/hostile/attacks/"
ln -s "$(realpath "$out/frontend")" "$work/out/"
ln -s "$(realpath "$static/frontend")" "$(realpath "$static/tests")" "$work/static/"
ln -s "$(realpath "$out/tests/system")" "$work/out/tests/"
ln -s "$(realpath "$out/tests/lib/models")" "$work/out/tests/lib/"

# ---- building ------------------------------------------------------------------------------

# link PROGRAM COMPILER FLAGS FROM OBJECT...: of the mutants' objects where there is one.
link() {
    local program=$1 compiler=$2 flags=$3 from=$4 object objects=()
    shift 4
    for object in "$@"; do
        object=${object#"$out/"}
        if [[ -e $work/obj/$from/$object ]]; then
            objects+=("$work/obj/$from/$object")
        elif [[ $from == static ]]; then
            objects+=("$static/$object")
        else
            objects+=("$out/$object")
        fi
    done
    # shellcheck disable=SC2086 # flags
    $compiler -o "$work/$from/$program" "${objects[@]}" $flags
}

# Code that is not reached any more has names that nobody uses: no warnings.
compile() { # COMPILER FROM SOURCE
    mkdir -p "$work/obj/$2/$(dirname "$3")"
    eval "$1 -Wno-error -w -c -o '$work/obj/$2/${3%.c}.o' '$work/src/$3'"
}

# build (FILE FROM TO)...: edits of one file follow each other.
build() {
    local source static_flags makefile=hook/module.mk
    rm -rf "$work/obj" "$work/src"
    while [[ $# -ge 3 ]]; do
        mkdir -p "$work/src/${1%/*}"
        [[ -e $work/src/$1 ]] || cp "$1" "$work/src/$1"
        mutant_write "$work/src/$1" "$2" "$3" "$work/edited" || return
        mv "$work/edited" "$work/src/$1"
        shift 3
    done
    while read -r source; do
        if [[ $source == hook/* || $source == common/* ]]; then
            compile "$ATTACKS_CC $HOOK_FLAGS" out "$source" && compile "$STATIC_CC $HOOK_FLAGS" static "$source"
        elif [[ $source == backend/server/* ]]; then
            compile "$ATTACKS_CC $SERVER_FLAGS" out "$source"
        else
            compile "$ATTACKS_CC" out "$source" && compile "$STATIC_CC" static "$source"
        fi || return
    done < <(cd "$work/src" && find . -name '*.c' -printf '%P\n')
    # How the installed hook is linked is a line of its makefile, which a mutant may change.
    [[ ! -e $work/src/$makefile ]] || makefile=$work/src/$makefile
    static_flags=$(sed -nE 's/^HOOK_STATIC := .*,,([^,)]*)\)$/\1/p' "$makefile")
    # shellcheck disable=SC2086 # lists
    link backend/apir-worker "$ATTACKS_CC" "$ATTACKS_LD $WORKER_LIBS" out $WORKER_OBJS &&
        link backend/apir-render-server "$ATTACKS_CC" "$ATTACKS_LD $SERVER_LIBS" out $SERVER_OBJS &&
        link hook/apir-hook "$ATTACKS_CC" "$ATTACKS_LD $HOOK_LIBS" out $HOOK_OBJS &&
        link hook/apir-hook "$STATIC_CC" "$STATIC_LD $HOOK_LIBS $static_flags" static $HOOK_OBJS
}

# ---- running -------------------------------------------------------------------------------

# A hook without its checks may write into what it should not: /usr is a layer that goes with the row.
in_layer() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private sh -ec 'mount -t tmpfs apir-mutant "$1"
        mkdir "$1/upper" "$1/work"
        mount -t overlay -o "lowerdir=/usr,upperdir=$1/upper,workdir=$1/work" apir-mutant /usr
        shift
        exec "$@"' sh "$work/layer" "$@"
}

run() { # ROW...: what they say is in $work/log; beside it, what is said in between
    TMPDIR=$work/tmp ATTACKS_RESULTS=$work/results in_layer tests/hostile/attacks/run.sh "$work/out" "$work/static" \
        "$@" >"$work/log" 2>"$work/stderr" || :
    kill_mutants
}

# What a row has said: one word, a tab, its text. Only `noticed` is the row's own "not stopped".
said() { # ROW
    local line
    # An assertion that has failed may stand in front of it.
    line=$(sed 's/^.*NOT STOPPED/NOT STOPPED/' "$work/log" |
        awk -v row="$1" '$1 == "stopped" && $2 == row || $2 == "STOPPED" && $3 == row { print; exit }')
    text=${line#*: \"}
    case $line in
    '') echo "dumb"$'\t'"$(cat "$work/log" "$work/stderr" | tail -n 1)" ;;
    stopped*) echo "stopped"$'\t'"$text" ;;
    *'in its honest form'*) echo "honest"$'\t'"$text" ;;
    *'the attacking program ended'* | *'did not run: '* | *'# skip'*) echo "dumb"$'\t'"$text" ;;
    # With another reason, and nothing else: nobody beside it has noticed anything.
    *'; somebody else noticed'* | *'; the log has'*) echo "noticed"$'\t'"$text" ;;
    *': "the reason is: '* | *': the context ended: '*', instead of: '* | \
        *': "state 3: '*', instead of: '* | *'lost for another reason: '*) echo "elsewhere"$'\t'"$text" ;;
    *) echo "noticed"$'\t'"$text" ;;
    esac
}

try() { # noticed|elsewhere ROW (FILE FROM TO)...
    local want=$1 row=$2 said text what
    [[ -v rows[$row] ]] || return 0
    shift 2
    what="$row, without ${2%%$'\n'*}"
    if [[ ! -v control[$row] ]]; then
        mutant_failed "$row: not stopped as it is; see the control"
        return 0
    fi
    if ! build "$@" >"$work/log" 2>&1; then
        mutant_failed "$what: not built: $(head -n 3 "$work/log" | tr '\n' ' ')"
        return 0
    fi
    run "$row"
    IFS=$'\t' read -r said text < <(said "$row")
    case $said in
    "$want")
        "mutant_$want" "$what: $text"
        return 0
        ;;
    noticed) mutant_failed "$what: said to be refused elsewhere, but is not: $text" ;;
    elsewhere) mutant_failed "$what: refused all the same, only the reason is another: $text" ;;
    honest) mutant_failed "$what: the honest form does not work: $text" ;;
    stopped) mutant_failed "$what: nobody missed it: $text" ;;
    *) mutant_failed "$what: no verdict: $text" ;;
    esac
    cat "$work/stderr" "$work/log" >"build/attacks/mutant-$row.log"
}

# ---- what is wanted, and the control ---------------------------------------------------------

declare -A rows=() mutated=() control=()
while IFS=$'\t' read -r row _; do rows[$row]=; done < <(tests/hostile/attacks/run.sh "$out" --list)
wanted=()
mutant() { # ROW (FILE FROM TO)...
    [[ -v rows[$1] ]] || { mutant_failed "$1: there is no such row"; return 0; }
    mutated[$1]=yes
    mutant_wanted "$1" || return 0
    [[ ${rows[$1]} == wanted ]] || wanted+=("$1")
    rows[$1]=wanted
}
# The same where the attack is refused by something else, and only the reason changes: there are two walls.
elsewhere() {
    [[ -v rows[$1] ]] || { mutant_failed "$1: there is no such row"; return 0; }
    if [[ -z ${MUTANT-} ]] && mutant_named "$1" && [[ ${rows[$1]} != wanted ]]; then
        wanted+=("$1")
        rows[$1]=wanted
    fi
}
# A row that no line of ours stops: by what else.
unmutated() { # ROW REASON
    mutated[$1]=yes
}
# shellcheck source=tests/hostile/attacks/mutants
. "$file"
[[ ${#wanted[@]} -gt 0 ]] || { echo "mutate.sh: no mutant of ${ONLY:-any row}"; mutants_sum; exit; }

nothing=$'/* The same program. */\n#include'
build backend/worker/main.c '#include' "$nothing" backend/server/main.c '#include' "$nothing" \
    hook/main.c '#include' "$nothing" >"$work/log" 2>&1 ||
    { cat "$work/log"; mutant_failed "control: not built"; mutants_sum; exit 1; }
run "${wanted[@]}"
for row in "${wanted[@]}"; do
    IFS=$'\t' read -r verdict text < <(said "$row")
    if [[ $verdict == stopped ]]; then
        control[$row]=yes
    else
        mutant_failed "control: $row, with a comment more: $verdict: $text"
    fi
done
echo "control: ${#control[@]} of ${#wanted[@]} rows stopped"

# ---- the mutants -----------------------------------------------------------------------------

mutants_begin
export BATS_TEST_TIMEOUT=$((APIR_PATIENCE * (${APIR_RACE_SECONDS:-60} + 50)))
mutant() { ! mutant_wanted "$1" || try noticed "$@"; }
elsewhere() { [[ -n ${MUTANT-} ]] || ! mutant_named "$1" || try elsewhere "$@"; }
unmutated() { :; }
MUTANT_NUMBER=0
# shellcheck source=tests/hostile/attacks/mutants
. "$file"

if [[ -z $ONLY${MUTANT-} && -z ${MUTANTS_FILE-} ]]; then
    for row in "${!rows[@]}"; do
        [[ -v mutated[$row] ]] || mutant_failed "$row: no mutant"
    done
fi
mutants_sum
