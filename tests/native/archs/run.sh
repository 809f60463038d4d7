#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--part] [--archs NAME,...] [--host CPU|lavapipe|gpu] [--guest aarch64] [--jobs N] [--seconds N] [OUT]
#
# Runs llama.cpp's own test-llama-archs for each architecture that it knows, natively on the
# host's device and in a guest on APIR0, and compares row by row: the error against the CPU, the
# round trip through a file and the mixed batch, and the same tensor parallel ("Meta") over APIR0.
# One process for an architecture, so that a crash costs that one. On the CPU both are exact, so
# that also the figures must agree; with Vulkan (lavapipe, which is on the CPU, or the machine's
# GPU) the verdicts must. With --guest the guest is an arm64 program under qemu-user, with the plug-in of
# `make ARCH=aarch64`; its own CPU, with which the tool compares, rounds otherwise, so verdicts count.
#
# --part takes the architectures in tests/native/archs/part; --seconds leaves out those that have not
# begun by then. Native results are kept in build/archs: they depend on packages, processor and
# host only. All output of what failed is in build/archs/failed-HOST. The last line is
# `archs: N of M as native`. SKIP is what the tool skips natively too (it cannot run some
# architectures anywhere, and has no tensor parallelism for some); it counts nowhere.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/native/archs
# shellcheck source=tests/native/archs/lib.sh
. $here/lib.sh

seed=7
limit=900 # seconds for one architecture; the slowest takes less than a minute on the CPU

# ---- one architecture, called again by xargs ------------------------------------
# One process. Leaves FILE.tsv, FILE.txt, FILE.err and FILE.rc; ENV is a file of variables.
run_one() { # FILE ENV DEVICES NAME
    local file=$1 rc tries env program=("$archs_tests/test-llama-archs")
    mapfile -t env <"$2"
    # By default it has a processor that ggml's choice of a CPU backend ends over; this is tests/vm/run.sh's.
    [[ -z $guest || $2 != "$work/remoted.env" ]] ||
        program=("qemu-$guest" -cpu cortex-a76 -L "$guest_root"
            "$guest_root/usr/libexec/$guest-linux-gnu/llama.cpp-tests/test-llama-archs")
    # The tool prints from a thread and, natively too, can end before that has printed all. Then
    # the summary, always the last line, is missing; so it is after a crash, but with another code.
    for ((tries = 0; tries < 100; tries++)); do
        rc=0
        # Names have no character that means something in the expression but the dot.
        timeout -k 5 "$(archs_limit $limit)" env GGML_NO_BACKTRACE=1 "${env[@]}" \
            "${program[@]}" -s $seed -a "^${4//./[.]}\$" \
            >"$file.txt" 2>"$file.err" </dev/null || rc=$?
        [[ $rc -le 1 ]] || break
        ! grep -q "^Summary:" "$file.txt" || break
    done
    echo "$rc" >"$file.rc"
    awk -v devices="$3" -f $here/table.awk "$file.txt" >"$file.new"
    mv "$file.new" "$file.tsv"
}
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
    PASS* | SKIP*) ;;
    *)
        line+=$(reason "$1")
        cp "$work/$1".{txt,err} "$failed/"
        ;;
    esac
    printf '%s  archs %-16s %-12s %s\n' "${line%% *}" "$1" "$2" "${line#* }"
}
# Both sides, then a line for each kind of device; what is to be counted begins it.
row() { # NAME
    local name=$1 lines
    if archs_late; then
        printf 'LEFT  archs %s\n' "$name"
        return
    fi
    [[ -e $native/$name.tsv ]] || run_one "$native/$name" "$work/native.env" "$native_devices" "$name"
    if [[ $(<"$native/$name.rc") -eq 124 || $(<"$native/$name.rc") -eq 137 ]]; then
        rm "$native/$name.tsv"
        printf 'FAIL  archs %-16s natively it did not end in time\n' "$name"
        return
    fi
    if ! grep -qE '=(OK|FAIL|cut off)' "$native/$name.tsv"; then
        printf 'NONE  archs %-16s natively this test-llama-archs runs it on no device\n' "$name"
        return
    fi
    run_one "$work/$name" "$work/remoted.env" "$remoted_devices" "$name"
    lines=$(
        judge "$name" "$from" "$from" APIR0 "$how"
        judge "$name" Meta Meta Meta "$others"
        judge "$name" 'Host experts' 'Host experts' 'Host experts' "$others"
    )
    if [[ $(<"$work/$name.rc") -ne $(<"$native/$name.rc") && $lines != *FAIL\ \ * ]]; then
        lines+=$(printf '\nFAIL  archs %-16s exit code %d, natively %d%s\n' "$name" \
            "$(<"$work/$name.rc")" "$(<"$native/$name.rc")" "$(reason "$name")")
    fi
    # Nothing to compare is a failure as well.
    printf '%s\n' "${lines:-FAIL  archs $name has no row on both sides}"
}
# shellcheck disable=SC2154 # those of the functions above that are exported below
if [[ ${1-} == --one ]]; then
    row "$2" 2>/dev/null # what bash says of a crash
    exit
fi
archs_without_blas "$here/run.sh" "$@"

# ---- the whole ------------------------------------------------------------------
archs_options --archs "$@"
[[ -x $archs_tests/test-llama-archs ]] ||
    archs_die "no test-llama-archs here (package llama.cpp-tests)"
# Devices in the order in which the tool has them. Natively the CPU is no device that tensors are
# split over or that has experts on the host.
from=Vulkan0 native_devices=Vulkan0,CPU how=states others=states
[[ $host != CPU ]] || from=CPU native_devices=CPU how=exact others=alone
remoted_devices=CPU,APIR0
work=$(mktemp -d "${TMPDIR:-/tmp}/archs.XXXXXX")
finish() {
    vtest_stop || :
    rm -rf "$work"
}
trap finish EXIT

# What there is.
key=$({ archs_key; cat $here/table.awk; } | sha256sum | cut -c 1-16)
native=build/archs/native-$host-$key
failed=build/archs/failed-$host$guest
rm -rf "$failed"
mkdir -p "$native" "$failed"
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

VTEST_KEEP_LOG=build/archs/server-$host.log
: >"$VTEST_KEEP_LOG"
archs_serve "$out" "$host" "$work"
trap finish EXIT
guest_root=build/sysroot-$guest
if [[ -n $guest ]]; then
    how=states
    sed -i "s|^GGML_BACKEND_PATH=.*|GGML_BACKEND_PATH=$(realpath "build/release-$guest-linux-gnu-gcc")/frontend/libggml-apir.so|" \
        "$work/remoted.env"
fi
echo "archs: $(wc -l <"$work/names") on $from and on APIR0 over $host" >&2
export from how others guest guest_root native native_devices remoted_devices work failed
xargs -P "$jobs" -n 1 $here/run.sh --one <"$work/names" | tee "$work/lines" || :
vtest_alive || echo "archs: the server itself did not survive" >&2

count() { # WORD
    grep -c "^$1" "$work/lines" || :
}
good=$(count PASS)
total=$((good + $(count FAIL)))
# Those that were begun have an end, or this tests nothing.
for word in NONE LEFT; do
    sed -n "s/^$word  archs \([^ ]*\).*/\1/p" "$work/lines" >"$work/$word"
done
[[ ! -s $work/NONE ]] ||
    echo "archs: this test-llama-archs runs $(wc -l <"$work/NONE") of them on no device"
[[ ! -s $work/LEFT ]] || echo "archs: no time was left for: --archs $(paste -sd, "$work/LEFT")"
echo "archs: $(count SKIP) rows skipped by the tool itself, natively and remoted"
answered=$(awk '{ print $3 }' "$work/lines" | sort -u | wc -l)
[[ $answered -eq $(wc -l <"$work/names") ]] ||
    echo "archs: $answered of $(wc -l <"$work/names") gave an answer" >&2
echo "archs: $good of $total as native"
[[ $good -eq $total && $total -gt 0 && $answered -eq $(wc -l <"$work/names") && ! -s $work/LEFT ]]
