#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: containers of every engine at hand compute on APIR0, in the test VM
# (`make check-engines`; ROW=name runs that row alone, ROW='name name' those).
# A row is a function in tests/vm/engines/rows/; what it is given is the real
# engine, the real runtime, an image without any file of ours.
#
# SUITE=cluster, images or sandboxes runs that suite's rows instead. A suite is a folder of tests/vm/ with rows/,
# setup.sh, which brings up what rows name, and perhaps prepare.sh, which adds to what the
# VM is given (its argument is the folder with share/, archives/ and disks/: each folder, and
# each file NAME.erofs, in the last one is a disk of the VM).
#
# build/SUITE/ROW.log (of images in build/check-images/) holds what a row printed, setup-*.log what brought an
# engine up, build/SUITE/results.json all results. The last line is
# "engines: N of M rows pass", with the suite's name; M counts the rows that were to run. docs-table is
# one more, where all have run: build/engines/seen.md, what they have seen, is the table of docs/engines.md.
#
#   ENGINES_TIMEOUT=SECONDS  for the whole boot (3000)
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
suite=${SUITE:-engines} logs=build/${SUITE:-engines}
sh tests/env/inside.sh || exec tests/env/enter.sh env ROW="${ROW-}" SUITE="$suite" tests/vm/engines/run.sh "$@"
if [[ $suite == images ]]; then
    logs=build/check-images
    # The host's side tells the rows what it computes.
    export APIR_LOG=debug VM_HOST_SCRIPT=tests/vm/ramalama/host.sh
fi
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh

mkdir -p "$logs" build/vm
exec 9>"$logs/.lock"
flock -n 9 || { echo "$suite: another one is running; waiting" && flock 9; }
find "$logs" -mindepth 1 ! -name .lock -delete
work=$(mktemp -d "build/vm/$suite-XXXXXX")
share=$work/share
trap 'rm -rf "$work"' EXIT
mkdir -p "$share/log"

prepare_machine "$work" || exit 1
[[ ! -e tests/vm/$suite/prepare.sh ]] || OUT=$OUT "tests/vm/$suite/prepare.sh" "$PWD/$work" || exit 1
disks="models=build/models/vm archives=$work/archives"
for disk in "$work"/disks/*; do
    [[ ! -e $disk ]] || disks+=" $(basename "$disk" .erofs)=$disk"
done

rc=0
env APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$share" VM_MEM="${VM_MEM:-6G}" \
    VM_DISKS="$disks" \
    VM_TIMEOUT="${ENGINES_TIMEOUT:-3000}" VM_RENDER_SERVER="$OUT/backend/apir-render-server" \
    tests/vm/run.sh tests/vm/engines/guest.sh "$suite" "${ROW-}" 9>&- || rc=$?
find "$share/log" -name '*.log' -exec cp -t "$logs" {} +

# What was to run and has not reported has failed: the VM may have died in it.
touch "$share/plan" "$share/results"

# What programs have seen is the table of the document, if all rows ran that look.
[[ ! -e $share/seen ]] || cp "$share/seen" "$logs/"
if [[ -e $share/seen && -z ${ROW-} ]]; then
    awk -f tests/vm/engines/seen.awk "$share/seen" >"$logs/seen.md"
    printf 'docs-table\n' >>"$share/plan"
    sed -n '/^| llama.cpp in | started/,/^$/p' docs/engines.md | grep . >"$logs/seen.doc"
    ! diff "$logs/seen.doc" "$logs/seen.md" ||
        echo '{"row": "docs-table", "what": "what programs see, in docs/engines.md", "result": "pass", "ms": 0}' >>"$share/results"
fi
[[ -s $share/versions ]] || echo '{}' >"$share/versions"
jq -n --rawfile plan "$share/plan" --slurpfile rows "$share/results" --slurpfile versions "$share/versions" '
    ($plan | split("\n") - [""] - ($rows | map(.row))) as $lost
    | $rows + ($lost | map({row: ., result: "fail", why: "not run to its end"}))
    | {rows: ., passed: map(select(.result == "pass")) | length,
       run: map(select(.result != "not run")) | length, versions: $versions[0]}' \
    >"$logs/results.json" || exit 1
jq -r '.rows[] | select(.result == "fail") | "FAIL  \(.row): \(.why)"' "$logs/results.json"
read -r passed run <<<"$(jq -r '"\(.passed) \(.run)"' "$logs/results.json")"
[[ $rc -eq 0 || $passed -ne $run ]] || echo "$suite: the VM ended with $rc"
[[ $passed -eq $run ]] || echo "$suite: the logs are in $logs"
echo "$suite: $SECONDS s"
echo "$suite: $passed of $run rows pass"
[[ $rc -eq 0 && $run -gt 0 && $passed -eq $run ]]
