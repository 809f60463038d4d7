#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: runs the commands of README.md and docs/ as a reader would (`make check-docs`): in the test VM,
# where the product is installed and which is also its own GPU host, with IMAGE for an image that holds
# Debian's llama.cpp, and ./models/model.gguf. DOC='FILE...' takes some documents. blocks.awk says how a
# block tells who runs it; what tests run, and what nobody runs, is counted apart.
#
# build/docs/ has what each block printed. The last line is `docs: N of M commands ran`.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
sh tests/env/inside.sh || exec make check-docs DOC="${DOC-}"
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh

rm -rf build/docs
mkdir -p build/docs build/vm
work=$(mktemp -d build/vm/docs-XXXXXX)
share=$work/share
trap 'rm -rf "$work"' EXIT
mkdir -p "$share/blocks" "$share/log"

read -ra documents <<<"${DOC-}"
[[ ${#documents[@]} -gt 0 ]] || mapfile -t documents < <(find README.md docs -name '*.md' | sort)
awk -v out="$share/blocks" -f tests/docs/blocks.awk "${documents[@]}" >"$share/list" || exit 1
failed=0 ran=0 total=0 elsewhere=0 never=0
wrong() {
    echo "FAIL  $*"
    failed=$((failed + 1))
}
while read -r line; do wrong "$line"; done < <(sed -n 's/^error //p' "$share/list")

# What another test is said to run, and does not, a line each. Spaces do not count.
squeeze() { sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$1" | tr -s ' \t' ' ' | sed 's/^ //; s/ $//'; }
suites() { # check | nightly: make's goals in that list, which make gives us
    local list=${CHECK-}
    [[ $1 == check ]] || list=${NIGHTLY-}
    grep -oE '=[a-z0-9-]+' <<<"$list" | tr -d =
}
not_there() { # BLOCK WHO
    local line
    while IFS= read -r line; do
        case $line in
        '' | '#'*) continue ;;
        esac
        case $2 in
        "$line") ;; # make check, by: make check
        make\ *) suites "${2#make }" | grep -xF -- "${line#make }" >/dev/null || echo "$line" ;;
        *) squeeze "$2" | grep -F -- "$line" >/dev/null || echo "$line" ;; # to the end: no SIGPIPE
        esac
    done < <(squeeze "$share/blocks/$1.sh")
}

vm=0
while read -r block where commands who; do
    case $who in
    not-run:*) never=$((never + commands)) && echo "not run  $where, $commands: ${who#not-run: }" ;;
    by:*)
        if [[ $who != by:\ make* && ! -e ${who#by: } ]]; then
            wrong "$where: there is no ${who#by: }"
        elif lost=$(not_there "$block" "${who#by: }") && [[ -n $lost ]]; then
            wrong "$where: not in ${who#by: }: $lost"
        else
            elsewhere=$((elsewhere + commands))
        fi
        ;;
    *) total=$((total + commands)) vm=1 ;;
    esac
done < <(grep '^[0-9]' "$share/list")

rc=0
if [[ $vm -eq 1 ]]; then
    prepare_machine "$work" || exit 1
    env APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$share" VM_MEM="${VM_MEM:-6G}" VM_TIMEOUT=900 \
        VM_DISKS="models=build/models/vm archives=$work/archives" \
        VM_RENDER_SERVER="$OUT/backend/apir-render-server" tests/vm/run.sh tests/docs/guest.sh || rc=$?
    find "$share/log" -name '*.log' -exec cp -t build/docs {} +
    touch "$share/ran"
    ran=$(awk '{ n += $2 } END { print n + 0 }' "$share/ran")
fi
echo "docs: $elsewhere more commands are other tests', $never are marked as not run"
echo "docs: $ran of $total commands ran"
[[ $failed -eq 0 && $rc -eq 0 && $ran -eq $total ]]
