#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--part] [--ops OP,...] [--host CPU|lavapipe|gpu] [--jobs N] [--seconds N] [OUT]
#
# Runs ggml's own test-backend-ops on the host's backend and on APIR0 over vtest, and compares case
# by case: what is supported and passes natively must be supported and pass remoted; and of all
# cases, what each says it supports. --part takes a sample of all cases, --ops only some operators.
# The host's backend is its CPU's, or Vulkan's on lavapipe or on the machine's first GPU. A worker
# that dies or hangs costs the case in which it did; the others run again in a new process.
# --seconds ends it all a little after that time; what there was no time for is counted apart. OUT
# is the build's output directory.
#
# The last line is `ops: N of M as native`; all that differs is in build/ops/mismatches.txt.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/native/ops
self=$here/run.sh
# shellcheck source=tests/native/archs/lib.sh
. tests/native/archs/lib.sh # also: one thread for each operator, which are tiny

max_rounds=12 # per group; more dead workers than this in one group, and the rest is lost

# ---- one process ------------------------------------------------------------
# run_tests native|remoted SELECTION -> lines of status, tab, name. SELECTION is a file of operator
# names or full case names. A process that says nothing for $quiet seconds hangs.
run_tests() {
    local side=$1 fd pid line vars on=APIR0
    mapfile -t vars <"$work/$side.env"
    [[ $side == remoted ]] || on=$native_device
    # Line buffered, or a crash takes the last results with it.
    exec {fd}< <(exec timeout -k 5 "$(archs_limit 14400)" env "${vars[@]}" stdbuf -oL "$tester" test -b "$on" -o "$(paste -sd, "$2")" 2>>"$work/stderr")
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

# Those that differ; what fails natively may do what it likes.
mismatches() { # VERDICTS
    awk -F '\t' '$1 != $2 && $1 != "FAIL" { printf "%s (native %s): %s\n", $2, $1, $3 }' "$1"
}

# ---- one group of cases, called again by xargs --------------------------------
# GROUP.sel is what to ask for. What is expected is kept in a file of the same name.
run_group() {
    local group=$1 kept=$native/${1##*/} pending results=$1.results round all blamed part
    : >"$group.verdicts"
    ! archs_late || return 0
    if [[ ! -e $kept ]]; then
        run_tests native "$group.sel" >"$group.native"
        # Cut short it is of use now, but not later.
        if archs_late; then kept=$group.native; else mv "$group.native" "$kept"; fi
    fi
    pending=$kept
    for ((round = 1; round <= max_rounds; round++)); do
        : >"$results"
        if [[ $round -eq 1 ]]; then
            archs_late || run_tests remoted "$group.sel" >>"$results"
        else
            rm -f "$group".names.*
            cut -f 2 "$pending" | awk '!seen[$0]++' >"$group.all"
            split_names "$group.all" "$group.names"
            for part in "$group".names.*; do
                archs_late || run_tests remoted "$part" >>"$results"
            done
        fi
        # Nobody is to blame for what the time has cut short.
        all=0 blamed=0
        if archs_late; then blamed=1; elif [[ $round -eq $max_rounds ]]; then all=1; fi
        : >"$group.verdict"
        rm -f "$group.rest"
        awk -v verdicts="$group.verdict" -v rest="$group.rest" -v all=$all -v blamed=$blamed \
            -f $here/judge.awk "$pending" "$results"
        cat "$group.verdict" >>"$group.verdicts"
        [[ -s $group.rest ]] || break
        mv "$group.rest" "$group.pending"
        pending=$group.pending
        ! archs_late || break
    done
    echo "  ${group##*/}: $(wc -l <"$group.verdicts") cases, $round process(es)" >&2
    mismatches "$group.verdicts" | sed 's/^/  /' >&2
}

# Called again by xargs; the rest comes through the environment.
# shellcheck disable=SC2154 # tester, native_device, native, work and quiet: see below
if [[ ${1-} == --group ]]; then
    run_group "$2"
    exit
fi

# ---- the whole --------------------------------------------------------------
export GGML_VK_VISIBLE_DEVICES=
archs_options --ops "$@"
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
native_device=Vulkan0 devices=', "devices": ["Vulkan0"]'
[[ $host != CPU ]] || native_device=CPU devices=''
# What each side takes on, of all cases but fusions: the answer, a tab, the name.
support() { # native|remoted DEVICE
    local vars
    mapfile -t vars <"$work/$1.env"
    env "${vars[@]}" "$tester" support -b "$2" --output csv 2>/dev/null |
        awk -F '","' 'NR > 1 { print $5 "\t" $2 "(" $3 ")" }'
}

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

# A group is what one process runs: some cases of an operator; for a sample, whose names go to
# different groups, so that these take about as long, a share of them.
if [[ -n $part ]]; then
    select_sample | tee "$work/wanted" |
        awk -v work="$work" -v n=$((jobs * 2)) '{ print > sprintf("%s/part%02d.sel", work, i++ % n) }'
else
    # `support` leaves out fusions. A backend that takes next to nothing names all cases at once.
    "$tester" test -b BLAS 2>/dev/null | awk -f $here/parse.awk | cut -f 2 | awk '!seen[$0]++' |
        awk -v only="$only" '
            BEGIN { n = split(only, list, ","); for (i = 1; i <= n; i++) asked[list[i]] = 1 }
            { op = $0; sub(/\(.*/, "", op) }
            only == "" || op in asked' >"$work/wanted"
    awk -v work="$work" -v most=300 '
        { op = $0; sub(/\(.*/, "", op); k = n[op]++
          if (k % most == 0) { if (file[op]) close(file[op])
                               file[op] = sprintf("%s/%s.%02d.sel", work, op, k / most) }
          print >> file[op]; close(file[op]) }' "$work/wanted"
fi
[[ -s $work/wanted ]] || { echo "run.sh: no such cases, or no BLAS backend to list them" >&2; exit 1; }

# The native side depends on the packages, the processor and the selection only, so it is kept.
key=$({
    archs_key
    sha256sum "$tester"
    cat "$work/wanted" $here/parse.awk
    echo "$native_device ${part:+$jobs}"
} | sha256sum | cut -c 1-16)
native=build/ops/native-$key
# A GPU's driver is none of these.
[[ $host != gpu ]] || native=$work/native
mkdir -p "$native"
export tester native_device native work quiet

VTEST_KEEP_LOG=build/ops/server.log
: >"$VTEST_KEEP_LOG"
archs_native_env "$host" >"$work/native.env"
# Both are read by vtest_start.
# shellcheck disable=SC2034
mapfile -t VTEST_ENV < <(archs_device_env "$host")
# shellcheck disable=SC2034
VTEST_CONFIG="{\"threads\": 2$devices}"
vtest_start "$out"
trap finish EXIT
vtest_env "$out" >"$work/remoted.env"

echo "ops: $(wc -l <"$work/wanted") cases on $native_device and on APIR0" >&2
# The largest first, so that no long one is left over at the end.
wc -l "$work"/*.sel | sort -rn | awk '$2 ~ /\.sel$/ { sub(/\.sel$/, "", $2); print $2 }' |
    xargs -P "$jobs" -n 1 "$self" --group
vtest_alive || echo "ops: virgl_test_server itself did not survive" >&2

cat "$work"/*.verdicts >"$work/all"
mismatches "$work/all" | sort >build/ops/mismatches.txt
cp "$work/stderr" build/ops/stderr.log 2>/dev/null || :
head -n 40 build/ops/mismatches.txt
m=$(wc -l <"$work/all")
bad=$(wc -l <build/ops/mismatches.txt)
if [[ $bad -gt 40 ]]; then
    echo "... and $((bad - 40)) more in build/ops/mismatches.txt"
fi
other=0
if [[ -z $part$only ]]; then
    support native "$native_device" >"$work/takes.native"
    support remoted APIR0 >"$work/takes.remoted"
    diff "$work/takes.native" "$work/takes.remoted" >build/ops/support.diff || :
    n=$(wc -l <"$work/takes.native")
    other=$(grep -c '^[<>]' build/ops/support.diff || :)
    [[ $n -gt 0 ]] || other=1
    head -n 40 build/ops/support.diff
    same=$(comm -12 <(sort "$work/takes.native") <(sort "$work/takes.remoted") | wc -l)
    echo "ops: support: $same of $n answers as native," \
        "$(grep -c '^1' "$work/takes.native" || :) of them yes"
fi
awk -F '\t' '{ k[$1]++ } END { for (s in k) printf "%d %s natively, ", k[s], s
                              print NR " cases" }' "$work/all"
# Those that natively gave no answer, or had no time; a sample names some fusions by their operator.
awk -F '\t' 'NR == FNR { seen[$3]; next } /\(/ && !($1 in seen)' "$work/all" "$work/wanted" \
    >build/ops/unanswered.txt
left=$(wc -l <build/ops/unanswered.txt)
[[ $left -eq 0 ]] || echo "ops: $left cases gave no answer${ARCHS_UNTIL:+ or had no time}: build/ops/unanswered.txt"
echo "ops: $((m - bad)) of $m as native"
[[ $m -gt 0 && $bad -eq 0 && $other -eq 0 && $left -eq 0 ]]
