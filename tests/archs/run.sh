#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--part] [--archs NAME,...] [--host CPU|lavapipe] [--jobs N] [OUT]
#
# Runs llama.cpp's own test-llama-archs for each architecture that it knows, natively on the
# host's device and in a guest on APIR0, and compares row by row: the error against the CPU, the
# round trip through a file and the mixed batch, and the same tensor parallel ("Meta") over APIR0.
# One process for an architecture, so that a crash costs that one. On the CPU both are exact, so
# that also the figures must agree; on lavapipe (Vulkan on the CPU) the verdicts must.
#
# --part takes the architectures in tests/archs/part. Native results are kept in build/archs: they
# depend on packages and processor only. All output of what failed is in build/archs/failed-HOST.
# The last line is `archs: N of M as native`. SKIP is what the tool skips natively too (it cannot
# run some architectures anywhere, and has no tensor parallelism for some); it counts nowhere.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/archs
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh
# shellcheck source=tests/archs/lib.sh
. $here/lib.sh

seed=7
limit=900 # seconds for one architecture; the slowest takes less than a minute on the CPU

# One process; called again by xargs. Leaves NAME.tsv, NAME.txt, NAME.err and NAME.rc in DIR.
run_one() { # DIR DEVICES NAME
    local file=$1/$3 rc tries
    # The tool prints from a thread and, natively too, can end before that has printed all. Then
    # the summary, always the last line, is missing; so it is after a crash, but with another code.
    for ((tries = 0; tries < 100; tries++)); do
        rc=0
        # Names have no character that means something in the expression but the dot.
        GGML_NO_BACKTRACE=1 timeout -k 5 $limit \
            "$archs_tests/test-llama-archs" -s $seed -a "^${3//./[.]}\$" \
            >"$file.txt" 2>"$file.err" </dev/null || rc=$?
        [[ $rc -le 1 ]] || break
        ! grep -q "^Summary:" "$file.txt" || break
    done
    echo "$rc" >"$file.rc"
    awk -v devices="$2" -f $here/table.awk "$file.txt" >"$file.new"
    mv "$file.new" "$file.tsv"
}
if [[ ${1-} == --one ]]; then
    run_one "$2" "$3" "$4" 2>/dev/null # what bash says of a crash
    exit
fi
archs_without_blas "$here/run.sh" "$@"

part='' only='' host=CPU jobs=$archs_jobs out=
while [[ $# -gt 0 ]]; do
    case $1 in
    --part) part=yes ;;
    --archs) only=$2 && shift ;;
    --host) host=$2 && shift ;;
    --jobs) jobs=$2 && shift ;;
    -*) archs_die "$1: unknown option" ;;
    *) out=$1 ;;
    esac
    shift
done
out=${out:-build/release-gcc}
[[ -x $archs_tests/test-llama-archs ]] ||
    archs_die "no test-llama-archs here (package llama.cpp-tests)"
# Devices in the order in which the tool has them.
case $host in
CPU) from=CPU native_devices=CPU remoted_devices=CPU,APIR0 ;;
lavapipe) from=Vulkan0 native_devices=Vulkan0,CPU remoted_devices=CPU,APIR0 ;;
*) archs_die "--host is CPU or lavapipe" ;;
esac
work=$(mktemp -d "${TMPDIR:-/tmp}/archs.XXXXXX")
finish() {
    vtest_stop || :
    rm -rf "$work"
}
trap finish EXIT

# ---- what there is ------------------------------------------------------------
key=$({ archs_key; cat $here/table.awk; } | sha256sum | cut -c 1-16)
native=build/archs/native-$host-$key
mkdir -p "$native"
# The tool names them when it writes its models; those it cannot write too.
all=build/archs/all-$key
if [[ ! -s $all ]]; then
    models=$(archs_models)
    sed -n 's/.* save_models: \(Saving \)\?\([^ ]*\) model (.*/\2/p' "$models/log" |
        awk '!seen[$0]++' >"$all.new"
    mv "$all.new" "$all"
fi
if [[ -n $only ]]; then
    tr , '\n' <<<"$only" >"$work/names"
elif [[ -n $part ]]; then
    archs_part >"$work/names"
else
    cp "$all" "$work/names"
fi
unknown=$(grep -vxF -f "$all" "$work/names") &&
    archs_die "unknown to this test-llama-archs: $(tr '\n' ' ' <<<"$unknown")"

# ---- native, then remoted -------------------------------------------------------
while IFS= read -r name; do
    [[ -e $native/$name.tsv ]] || printf '%s\n' "$name"
done <"$work/names" >"$work/missing"
if [[ -s $work/missing ]]; then
    echo "archs: $(wc -l <"$work/missing") natively on $from" >&2
    (
        while IFS= read -r var; do export "${var?}"; done < <(archs_native_env "$host")
        xargs -P "$jobs" -n 1 $here/run.sh --one "$native" $native_devices <"$work/missing"
    )
fi

# Some architectures the tool skips on any device.
skipped=0
while IFS= read -r name; do
    if grep -qE '=(OK|FAIL|cut off)' "$native/$name.tsv"; then
        printf '%s\n' "$name"
    else
        skipped=$((skipped + 1))
    fi
done <"$work/names" >"$work/run"
mv "$work/run" "$work/names"
[[ $skipped -eq 0 ]] || echo "archs: this test-llama-archs runs $skipped of them on no device"

VTEST_KEEP_LOG=build/archs/server-$host.log
: >"$VTEST_KEEP_LOG"
archs_serve "$out" "$host"
trap finish EXIT
echo "archs: $(wc -l <"$work/names") on APIR0 over $host" >&2
(
    while IFS= read -r var; do export "${var?}"; done < <(archs_env "$out")
    xargs -P "$jobs" -n 1 $here/run.sh --one "$work" $remoted_devices <"$work/names"
)
vtest_alive || echo "archs: the server itself did not survive" >&2

# ---- the verdict ----------------------------------------------------------------
failed=build/archs/failed-$host
rm -rf "$failed"
mkdir -p "$failed"
good=0 total=0 skipped=0

# What the program said last that looks like a reason.
reason() { # NAME
    grep -aE '^apir|[0-9] E |^encountered|^[^ ]*[.](cpp|c|h):[0-9]+: ' "$work/$1.err" |
        awk '!seen[$0]++' | tail -n 4 | sed 's/^[0-9.]* E //' | awk '{ printf " | %s", $0 }' || :
}
judge() { # NAME SHOWN FROM TO HOW
    local line
    line=$(awk -v from="$3" -v to="$4" -v how="$5" -f $here/judge.awk "$native/$1.tsv" \
        "$work/$1.tsv")
    case $line in
    NONE*) return ;;
    PASS*) good=$((good + 1)) total=$((total + 1)) ;;
    SKIP*) skipped=$((skipped + 1)) ;;
    *)
        total=$((total + 1))
        line+=$(reason "$1")
        cp "$work/$1".{txt,err} "$failed/"
        ;;
    esac
    printf '%s  archs %-16s %-12s %s\n' "${line%% *}" "$1" "$2" "${line#* }"
}
# Natively the CPU is no device that tensors are split over or that has experts on the host.
if [[ $host == CPU ]]; then how=exact others=alone; else how=states others=states; fi
while IFS= read -r name; do
    before=$((total - good))
    judge "$name" "$from" "$from" APIR0 $how
    judge "$name" Meta Meta Meta $others
    judge "$name" 'Host experts' 'Host experts' 'Host experts' $others
    if [[ $(<"$work/$name.rc") -ne $(<"$native/$name.rc") && $((total - good)) -eq $before ]]; then
        total=$((total + 1))
        printf 'FAIL  archs %-16s exit code %d, natively %d%s\n' "$name" "$(<"$work/$name.rc")" \
            "$(<"$native/$name.rc")" "$(reason "$name")"
    fi
done <"$work/names"

# Of the architectures that are named, most can be run, or this tests nothing.
least=$(wc -l <"$work/names")
[[ -z $only ]] || least=1
[[ $total -ge $least ]] || echo "archs: only $total were compared, of $least at least" >&2
echo "archs: $skipped rows skipped by the tool itself, natively and remoted"
echo "archs: $good of $total as native"
[[ $good -eq $total && $total -ge $least ]]
