# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For rows, on both sides of the VM. ROWS is the folder that gets NAME.log of each, and "ok NAME" in `rows` for
# each that passes. ROW="NAME..." leaves out all others.

ROWS=${ROWS:?}

# row NAME WHAT: runs row_NAME, whose every command must succeed.
row() {
    local name=$1 rc=0
    [[ -z ${ROW-} || " $ROW " == *" $name "* ]] || return 0
    (set -euo pipefail && "row_${name//-/_}") >"$ROWS/$name.log" 2>&1 </dev/null
    rc=$?
    if [[ $rc -eq 0 ]]; then
        echo "ok $name" >>"$ROWS/rows"
        echo "ok    $name: $2"
    else
        echo "FAIL  $name: $2"
        tail -n 20 "$ROWS/$name.log" | sed 's/^/    | /'
    fi
}

die() {
    echo "$*"
    exit 1
}

# same WHAT FILE FILE: both have the same lines.
same() { diff -u "$2" "$3" || die "$1"; }

# refute COMMAND...: it must fail.
refute() { ! "$@" || die "this succeeds: $*"; }
