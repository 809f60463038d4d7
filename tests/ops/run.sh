#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--part] [--ops OP,...] [--device NAME] [--jobs N] [OUT]
#
# Runs ggml's own test-backend-ops on the host's backend and on APIR0 over vtest, and compares case
# by case: what is supported and passes natively must be supported and pass remoted. --part takes
# a sample of all cases, --ops only some operators. A worker that dies or hangs costs the case in
# which it did; the others run again in a new process. OUT is the build's output directory.
#
# --device with another name than APIR0 tests this script: no server is started then, and the
# device is whatever the caller's environment provides (CPU always is).
#
# The last line is `ops: N of M as native`; all that differs is in build/ops/mismatches.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/ops
self=$here/run.sh
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh

max_rounds=12 # per group; more dead workers than this in one group, and the rest is lost

# test-backend-ops runs tiny operators with four threads, also on two cores, where they mostly
# wait for each other: one thread each, and several processes.
export OMP_THREAD_LIMIT=1 GGML_VK_VISIBLE_DEVICES=

# ---- one process ------------------------------------------------------------
# run_tests DEVICE SELECTION ARGS... -> lines of status, tab, name. SELECTION is a file of operator
# names or full case names, or empty. A process that says nothing for $quiet seconds hangs.
run_tests() {
    local device=$1 selection=$2 fd pid line
    shift 2
    [[ -z $selection ]] || set -- "$@" -o "$(paste -sd, "$selection")"
    # Line buffered, or a crash takes the last results with it.
    exec {fd}< <(exec timeout -k 5 14400 stdbuf -oL "$tester" test -b "$device" "$@" \
        2>>"$work/stderr")
    pid=$!
    while :; do
        IFS= read -r -t "$quiet" -u "$fd" line || {
            [[ $? -le 128 ]] || kill -TERM "$pid" 2>/dev/null || :
            break
        }
        printf '%s\n' "$line"
    done | awk -f $here/parse.awk
    exec {fd}<&-
}

# Splits the names in FILE so that each list fits into one argument (128 KiB): PREFIX.000 and on.
split_names() { # FILE PREFIX
    awk -v prefix="$2" '
        { if (size + length($0) + 1 > 60000 || !file) {
              if (file) close(file)
              file = sprintf("%s.%03d", prefix, part++); size = 0 }
          size += length($0) + 1; print > file }' "$1"
}

# ---- one group of cases, called again by xargs --------------------------------
# GROUP.native is what is expected; GROUP.sel, if there, what to ask for in the first round.
run_group() {
    local group=$1 round pending=$1.native results=$1.results all part
    for ((round = 1; round <= max_rounds; round++)); do
        : >"$results"
        if [[ $round -eq 1 && -e $group.sel ]]; then
            run_tests "$device" "$group.sel" >>"$results"
        else
            rm -f "$group".names.*
            cut -f 2 "$pending" | awk '!seen[$0]++' >"$group.all"
            split_names "$group.all" "$group.names"
            for part in "$group".names.*; do
                run_tests "$device" "$part" >>"$results"
            done
        fi
        all=0
        [[ $round -lt $max_rounds ]] || all=1
        rm -f "$group.rest" "$group.verdict"
        awk -v verdicts="$group.verdict" -v rest="$group.rest" -v all=$all -f $here/judge.awk \
            "$pending" "$results"
        cat "$group.verdict" >>"$group.verdicts"
        [[ -s $group.rest ]] || break
        mv "$group.rest" "$group.pending"
        pending=$group.pending
    done
    echo "  ${group##*/}: $(wc -l <"$group.verdicts") cases, $round process(es)" >&2
}

# Called again by xargs; the rest comes through the environment.
# shellcheck disable=SC2154 # tester, device, work and quiet are exported below
case ${1-} in
--group)
    run_group "$2"
    exit
    ;;
--native)
    run_tests CPU "$2" >"$2.tsv"
    exit
    ;;
esac

# ---- the whole --------------------------------------------------------------
part='' ops='' device=APIR0 jobs=$(nproc) out=
while [[ $# -gt 0 ]]; do
    case $1 in
    --part) part=yes ;;
    --ops) ops=$2 && shift ;;
    --device) device=$2 && shift ;;
    --jobs) jobs=$2 && shift ;;
    -*) echo "run.sh: $1: unknown option" >&2 && exit 2 ;;
    *) out=$1 ;;
    esac
    shift
done
out=${out:-build/release-gcc}
tester=$(find /usr/libexec -name test-backend-ops -type f -perm -1 2>/dev/null | head -n 1)
[[ -n $tester ]] || { echo "run.sh: no test-backend-ops here (package libggml0)" >&2; exit 2; }
mkdir -p build/ops
work=$(mktemp -d "${TMPDIR:-/tmp}/ops.XXXXXX")
finish() {
    vtest_stop || :
    rm -rf "$work"
}
trap finish EXIT
# The slowest case of all takes a minute on a busy machine with two cores.
quiet=600
[[ -z $part ]] || quiet=120
export tester device work quiet

# The sample: every STEPth case of an operator, at least two of each, and some small fusions,
# which `support` does not list. Left out are tensors of millions of rows, and types whose tables
# take seconds to build.
select_sample() {
    "$tester" support -b CPU --output csv 2>/dev/null | awk -F '","' '
        NR == 1 || $3 ~ /[^0-9.][0-9][0-9][0-9][0-9][0-9][0-9]/ ||
        $3 ~ /iq[12]_/ || $3 ~ /n_mats=[0-9][0-9][0-9]/ { next }
        { op[++n] = $2; name[n] = $2 "(" $3 ")"; total[$2]++ }
        END { for (i = 1; i <= n; i++) {
                  o = op[i]; step = total[o] < 50 ? total[o] / 2 : total[o] < 1000 ? 25 : 50
                  if (k[o]++ >= next_at[o]) { print name[i]; next_at[o] += step } } }' |
        awk '!seen[$0]++'
    printf '%s\n' ADD_ADD ADD_RMS_NORM NORM_MUL_ADD RMS_NORM_MUL_ADD RMS_NORM_SCALE \
        SILU_MUL GELU_MUL ADD_SILU_MUL SSM_CONV_BIAS_SILU
}

: >"$work/wanted"
if [[ -n $part ]]; then
    select_sample >"$work/wanted"
elif [[ -n $ops ]]; then
    tr , '\n' <<<"$ops" >"$work/wanted"
fi

# The native side depends on the packages, the processor and the selection only, so it is kept.
key=$({
    cat "$work/wanted" $here/parse.awk
    sha256sum "$tester" "$(ldconfig -p | awk '/libggml-base\.so\.0/ { print $NF; exit }')"
    grep -m 1 '^model name' /proc/cpuinfo || :
} | sha256sum | cut -c 1-16)
native=build/ops/native-$key.tsv
if [[ ! -s $native ]]; then
    echo "ops: running natively" >&2
    : >"$work/native"
    if [[ -s $work/wanted ]]; then
        split_names "$work/wanted" "$work/part"
        split -n "r/$((jobs * 2))" "$work/wanted" "$work/some."
        for file in "$work"/some.*; do
            split_names "$file" "$work/native-${file##*.}"
        done
        printf '%s\n' "$work"/native-*.* | xargs -P "$jobs" -n 1 "$self" --native
        cat "$work"/native-*.tsv >"$work/native"
    else
        run_tests CPU "" -j "$jobs" >"$work/native"
    fi
    [[ -s $work/native ]] || { echo "run.sh: the native run gave nothing" >&2; exit 1; }
    # Several threads have mixed the order; who gets the blame for a crash depends on it. `support`
    # has it for all but the fusions, which are few of each kind.
    "$tester" support -b CPU --output csv 2>/dev/null |
        awk -F '","' 'NR > 1 { print $2 "(" $3 ")" }' >"$work/order"
    awk -F '\t' 'NR == FNR { if (!($1 in rank)) rank[$1] = FNR; next }
                 { print (($2 in rank) ? rank[$2] : 1000000 + FNR) "\t" $0 }' \
        "$work/order" "$work/native" | sort -n -s -k 1,1 | cut -f 2- >"$native.part"
    mv "$native.part" "$native"
fi

# A group is what one process runs: an operator, or for a sample a share of the names.
if [[ -n $part ]]; then
    # Names of one operator go to different groups, so that these take about as long.
    awk -v work="$work" -v groups="$((jobs * 2))" \
        '{ print > sprintf("%s/part%02d.native", work, n++ % groups) }' "$native"
else
    awk -v work="$work" -F '\t' \
        '{ op = $2; sub(/\(.*/, "", op); file = work "/" op
           if (!(op in seen)) { seen[op] = 1; print op > (file ".sel"); close(file ".sel") }
           print >> (file ".native"); close(file ".native") }' "$native"
fi

if [[ $device == APIR0 ]]; then
    VTEST_KEEP_LOG=build/ops/server.log
    : >"$VTEST_KEEP_LOG"
    vtest_start "$out"
    trap finish EXIT
    while IFS= read -r var; do
        export "${var?}"
    done < <(vtest_env "$out")
fi

echo "ops: running on $device" >&2
# The largest first, so that no long one is left over at the end.
wc -l "$work"/*.native | sort -rn | awk '$2 ~ /\.native$/ { sub(/\.native$/, "", $2); print $2 }' |
    xargs -P "$jobs" -n 1 "$self" --group
if [[ $device == APIR0 ]] && ! vtest_alive; then
    echo "ops: virgl_test_server itself did not survive" >&2
fi

cat "$work"/*.verdicts >"$work/all"
awk -F '\t' '$1 != $2 && $1 != "FAIL" { printf "%s (native %s): %s\n", $2, $1, $3 }' "$work/all" |
    sort >build/ops/mismatches.txt
cp "$work/stderr" build/ops/stderr.log 2>/dev/null || :
head -n 40 build/ops/mismatches.txt
m=$(wc -l <"$work/all")
bad=$(wc -l <build/ops/mismatches.txt)
if [[ $bad -gt 40 ]]; then
    echo "... and $((bad - 40)) more in build/ops/mismatches.txt"
fi
awk -F '\t' '{ k[$1]++ } END { for (s in k) printf "%d %s natively, ", k[s], s
                              print NR " cases" }' "$work/all"
echo "ops: $((m - bad)) of $m as native"
[[ $m -gt 0 && $bad -eq 0 ]]
