#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench.sh OUT [--quick] [--all] [--only CASE]...: all measurements that this machine can do, and what they
# say about the targets. OUT is the build's output directory; results go to build/bench/, which is
# emptied of the last run's before. Progress is on stderr, the last line on stdout is
# `bench: N of M targets met`. What a run finds never takes the place of a miss unseen: targets
# that were not met by the results that it replaces are named on stderr and at the end of
# table.md, and stay in build/bench/earlier.jsonl until that file is removed.
#
#   --quick       small blocks and few rounds: shows that everything runs, decides little
#   --all         the cases beyond `make bench`, too
#   --only CASE   this case; may be repeated. Samples of other cases stay as they are
#
# BENCH_AGAINST: the build/MODE-COMPILER folder of another commit, for the case `against`.
#
# A case runs in a process of its own (bench.sh OUT --case CASE), which ends the servers that it
# started, however it ends itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh

cases=(overhead stamp-135M cpu-135M idle memory vm start)
all_cases=("${cases[@]}" default-q4_0 default-q4_k default-q8_0 server-1 server-8 server-16 draft embeddings
    batched depth state load together-8)
# One token beside another build: only where BENCH_AGAINST names its folder, or by --only, which says what it wants.
known=("${all_cases[@]}" against)
[[ -z ${BENCH_AGAINST-} ]] || cases+=(against) all_cases+=(against)
dir=build/bench
models=build/models
limit=1500 # seconds for one program; the longest takes a third of that here

say() { printf 'bench: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

[[ $# -gt 0 && $1 != -* ]] || die "usage: bench.sh OUT [--quick] [--all] [--only CASE]...; a case is one of: ${known[*]}"
out=$(realpath -e "$1")
shift
quick='' one='' only=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --quick) quick=--quick ;;
    --all) cases=("${all_cases[@]}") ;;
    --only | --case)
        [[ " ${known[*]} " == *" ${2-} "* ]] || die "$1 ${2-}: a case is one of: ${known[*]}"
        if [[ $1 == --only ]]; then only+=("$2"); else one=$2; fi
        shift
        ;;
    *) die "$1: usage: bench.sh OUT [--quick] [--all] [--only CASE]..." ;;
    esac
    shift
done
unset GGML_BACKEND_PATH APIR_TRANSPORT APIR_LOG APIR_ON_LOSS
# What ggml finds here must be what a case asks for, not a GPU that it came across.
export GGML_VK_VISIBLE_DEVICES=

# ---- one case ------------------------------------------------------------------

rpc=   # ggml's server
child= # what measures

cleanup() {
    local status=$?
    # shellcheck disable=SC2086 # empty, or a number
    kill $child $rpc 2>/dev/null || :
    vtest_stop || :
    [[ -z ${work-} ]] || rm -rf "$work"
    exit "$status"
}

# In the background, so that a signal to us is acted upon at once; not forever, whatever hangs.
run() {
    timeout -k 5 "$limit" "$@" &
    child=$!
    local rc=0
    wait "$child" || rc=$?
    child=
    return "$rc"
}

# Written anew only if the writer changed: its output depends on nothing else.
model() { # PRESET [TYPE [VOCAB]]: sets $file
    local type=${2:-q8_0}
    file=$models/$1-$type${3:+-$3}.gguf
    mkdir -p "$models"
    if [[ ! -e $file || $out/tests/lib/models/gguf-write -nt $file ]]; then
        say "writing $file"
        "$out/tests/lib/models/gguf-write" --arch llama --preset "$1" --type "$type" ${3:+--vocab "$3"} \
            --output "$file" >&2
    fi
}

# In state 0A, listening.
rpc_listens() { awk -v port="$(printf ':%04X' "$port")" '$2 ~ port "$" && $4 == "0A" { found = 1 } END { exit !found }' /proc/net/tcp; }
rpc_start() { # DEVICE [NAME=VALUE]...: sets $endpoint
    local program port=50152
    program=$(compgen -G '/usr/libexec/*/llama/bin/ggml-rpc-server' | head -n 1 ||
        command -v ggml-rpc-server) || die "no ggml-rpc-server here (package libggml0-backend-rpc)"
    while rpc_listens; do port=$((port + 1)); done
    env "${@:2}" "$program" --host 127.0.0.1 --port "$port" --device "$1" --threads 1 >"$work/rpc.log" 2>&1 </dev/null &
    rpc=$!
    wait_until 20 rpc_listens || die "ggml-rpc-server does not listen: $(tail -n 5 "$work/rpc.log")"
    endpoint=127.0.0.1:$port
}

# Of two numbers, the one for this kind of run.
pick() { if [[ -n $quick ]]; then echo "$1"; else echo "$2"; fi; } # QUICK FULL

case_overhead() {
    BENCH_AGAINST='' run tests/bench/overhead.sh "$out" --out "$samples" ${quick:+--tokens 5000} >&2
}

# What a token that computes nothing costs with each build, in turns.
case_against() {
    [[ -x ${BENCH_AGAINST-}/backend/apir-render-server && -e $BENCH_AGAINST/frontend/libggml-apir.so ]] ||
        die "against: BENCH_AGAINST=DIR names the build/release-gcc of another commit, with all of it built"
    local pair side other line
    for ((pair = 0; pair < $(pick 1 8); pair++)); do
        for side in before apir; do
            [[ $side == before ]] && other=$BENCH_AGAINST || other=
            line=$(BENCH_AGAINST=$other run tests/bench/overhead.sh "$out" --tokens "$(pick 5000 100000)" | tail -n 1)
            say "against: $side: $line"
            [[ $line =~ ^overhead:\ p50\ ([0-9.]+)\ us,\ p99\ ([0-9.]+)\ us ]] || return 1
            printf '{"case":"against","side":"%s","metric":"%s","pair":%d,"value":%s,"unit":"us"}\n' \
                "$side" added-p50 "$pair" "${BASH_REMATCH[1]}" "$side" added-p99 "$pair" "${BASH_REMATCH[2]}" >>"$samples"
        done
    done
}

# ---- llama.cpp's programs, natively and on the host ------------------------------------------

# Where prompts are computed, weights are of a type that ggml repacks for the CPU: natively, batches of 32 and more
# of other types are for a BLAS backend, if there is one, and Debian's comes with the reference BLAS, which is slow.

host_start() { # [CONFIG]
    # shellcheck disable=SC2034 # read by unix_start
    VTEST_CONFIG=${1-'{}'}
    unix_start "$out"
    trap cleanup EXIT # unix_start has set its own
}
programs() { # COMMAND OPTION...: with $file, as the case $one
    local vars
    mapfile -t vars < <(vtest_env "$out")
    run env "${vars[@]}" tests/bench/programs.sh "$1" --case "$one" --model "$file" --out "$samples" \
        --side "native=${native-CPU}" --side apir=APIR0 --server "$VTEST_PID" "${@:2}"
}
turns() { # COMMAND OPTION...
    host_start
    programs "$@"
}

# What llama.cpp and the road take by themselves: the host computes nothing.
case_stamp-135M() {
    local stamp=$out/tests/bench/libggml-stamp.so
    model 135M
    # As in overhead.sh: the server is not to fill a shader cache beside what is measured.
    host_start "{\"ggml_backends_dir\": \"$out/tests/bench/backends\", \"devices\": [\"STAMP0\"],
        \"spare_workers\": 0, \"shader_seconds\": 0}"
    rpc_start STAMP0 "GGML_BACKEND_PATH=$stamp"
    native=STAMP0 programs default --backend "$stamp" --side "rpc=rpc:$endpoint" --pairs "$(pick 2 20)" --repeat 5 -- -t 1
}
# One thread computes on every side.
case_cpu-135M() {
    model 135M q4_0
    host_start '{"threads": 1}'
    rpc_start CPU
    programs default --side "rpc=rpc:$endpoint" --pairs "$(pick 2 16)" --pp "$(pick 64 128)" --tg "$(pick 8 32)" -- -t 1
}
case_idle() {
    model 3M
    host_start '{"threads": 1}'
    programs idle --seconds "$(pick 5 60)"
}
case_memory() {
    model 3M
    host_start '{"threads": 1, "spare_workers": 0}'
    programs memory --tokens "$(pick 5000 100000)" -- -t 1
}
case_start() {
    model 135M
    turns start --pairs "$(pick 2 12)"
}

default() { # TYPE PROMPT
    model "$(pick 135M 1B)" "$1"
    turns default --pairs "$(pick 1 8)" --pp "$2" --tg "$(pick 8 24)"
}
case_default-q4_0() { default q4_0 "$(pick 16 128)"; }
case_default-q4_k() { default q4_k "$(pick 16 128)"; }
# A longer prompt of it is natively for ggml's BLAS backend, which takes minutes with Debian's reference BLAS.
case_default-q8_0() { default q8_0 16; }

# A round is a set of processes.
server() { # ROUNDS SLOTS REQUESTS [OPTION]...: with $file, as the case $one
    local round
    host_start
    for ((round = 0; round < $1; round++)); do
        programs server --pairs 1 --first "$round" --slots "$2" --requests "$3" "${@:4}"
    done
}
case_server-1() {
    model 135M q4_0
    server "$(pick 1 6)" 1 "$(pick 2 8)"
}
case_server-8() {
    model 135M q4_0
    server "$(pick 1 6)" 8 "$(pick 4 32)"
}
case_server-16() {
    model 135M q4_0
    server "$(pick 1 6)" 16 "$(pick 4 32)"
}
case_embeddings() {
    model 135M q4_0
    server "$(pick 1 6)" 8 "$(pick 16 64)" --answers embeddings
}
# Random weights agree on nothing: that a step gives two tokens on average, one of them the draft's, is made up.
case_draft() {
    local draft
    model 135M q4_0 32000 # 1B's: both have to know the same tokens
    draft=$file
    [[ -n $quick ]] || model 1B q4_0
    server "$(pick 1 6)" 1 "$(pick 2 4)" -- --spec-type draft-simple -md "$draft" --spec-synth-len 2
}

case_batched() {
    model 135M q4_0
    turns batched --pairs "$(pick 1 6)" --pp "$(pick 16 128)" --tg "$(pick 8 32)" --slots 8
}
# On a CPU the time to fill so much context grows with its square: larger models were not tried.
case_depth() {
    model 3M q4_0
    turns default --pairs "$(pick 1 6)" --pp 64 --tg 16 -- -d "$(pick 512 32768)"
}
case_state() {
    model 135M q4_0
    turns state --pairs "$(pick 2 12)" --pp "$(pick 256 2048)"
}
case_load() {
    model "$(pick 135M 1B)"
    host_start
    programs load --pairs "$(pick 2 8)"
    programs load --pairs "$(pick 2 8)" --cold yes
}
case_together-8() {
    model 135M q4_0
    turns together --pairs "$(pick 1 8)" --processes 8 --seconds "$(pick 2 20)" -- -t 1
}

case_vm() {
    local quickly=()
    [[ -z $quick ]] || quickly=(--rounds 1 --idle-seconds 0)
    run tests/bench/vm.sh "$out" "$samples" ${quickly[@]+"${quickly[@]}"} >&2
}

if [[ -n $one ]]; then
    samples=$dir/$one.jsonl
    work=$(mktemp -d "${TMPDIR:-/tmp}/bench.XXXXXX")
    trap cleanup EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    rm -f "$samples"
    "case_$one"
    exit 0
fi

# ---- all of them ---------------------------------------------------------------

# Adds to earlier.jsonl the targets of these cases that the results in $dir say are not met.
earlier_keep() { # CASE...
    [[ -s $dir/results.json ]] || return 0
    jq -c --arg time "$(date -r "$dir/results.json" +%FT%T%z)" '.commits as $commits | .facts.quick as $quick
        | .targets[] | select((.verdict == "missed" or .verdict == "undecided")
            and (.case | IN($ARGS.positional[])))
        | {time: $time, commits: $commits, quick: ($quick == "yes"), case, name, verdict, found, comparison, target}' \
        --args "$@" <"$dir/results.json" >>"$dir/earlier.jsonl"
    # After a run that ended early the results are still those that were kept then.
    sort -u -o "$dir/earlier.jsonl" "$dir/earlier.jsonl"
}
# What it has, a line each.
earlier_print() {
    [[ -s $dir/earlier.jsonl ]] || return 0
    jq -r 'def r: . * 1000 | round / 1000;
        "\(.name) was \(.verdict) on \(.time) (\(.commits | join(", "))\(if .quick then "; --quick" else "" end)): "
        + "\(.found.median | r) (\(.found.low | r) to \(.found.high | r)), wanted \(.comparison) \(.target | r)"' \
        "$dir/earlier.jsonl"
}

[[ -x $out/tests/bench/apir-bench ]] || die "$out/tests/bench/apir-bench is missing; build it first: make all"
running=
trap '[[ -z $running ]] || { kill "$running" 2>/dev/null; wait "$running"; }; exit 143' TERM
trap '[[ -z $running ]] || { kill "$running" 2>/dev/null; wait "$running"; }; exit 130' INT

mkdir -p "$dir"
if [[ ${#only[@]} -gt 0 ]]; then
    earlier_keep "${only[@]}"
else
    only=("${cases[@]}")
    earlier_keep "${known[@]}" # all of them go
    for name in "${known[@]}"; do
        rm -f "$dir/$name.jsonl"
    done
fi

APIR_BENCH_COMMIT=$(git -c safe.directory='*' describe --always --dirty 2>/dev/null) || APIR_BENCH_COMMIT=
export APIR_BENCH_COMMIT # in every sample
version_of() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo unknown; }
tests/bench/machine.sh "ggml=$(version_of libggml0)" "llama=$(version_of libllama0)" \
    "virglrenderer=$(version_of libvirglrenderer1)" "mesa=$(version_of mesa-vulkan-drivers)" "quick=${quick:+yes}" \
    >"$dir/machine.jsonl"

failed=()
for name in "${only[@]}"; do
    began=$SECONDS rc=0
    say "$name ..."
    "$0" "$out" --case "$name" $quick &
    running=$!
    wait "$running" || rc=$?
    running=
    say "$name: $((SECONDS - began)) s"
    [[ $rc -eq 0 ]] || failed+=("$name")
done
say "all: $SECONDS s"

files=("$dir/machine.jsonl")
for name in "${known[@]}"; do
    [[ ! -s $dir/$name.jsonl ]] || files+=("$dir/$name.jsonl")
done
earlier=$(earlier_print)
[[ -z $earlier ]] || say "before:"$'\n'"$earlier"
tests/bench/report.sh "$dir" "${files[@]}"
[[ -z $earlier ]] || printf '\nBefore:\n\n%s\n' "$(sed 's/^/- /' <<<"$earlier")" >>"$dir/table.md"
[[ ${#failed[@]} -eq 0 ]] || die "these cases ended early, their messages are above: ${failed[*]}"
