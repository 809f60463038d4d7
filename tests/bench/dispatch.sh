#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# dispatch.sh [--gpu|--part] [OUT]
#
# Proof by count that the host computes remoted work as native work: a Vulkan layer counts what
# ggml's Vulkan backend asks of the driver (tests/bench/count_layer.c), once in llama-bench itself
# and once in the worker. Each run is made with N and with 2N tokens (or one prompt and two), and
# the differences must be the same to the last one, so that loading and setting up are not part of
# it. Then ggml's own log of each graph must name the same operations, fused ones as such, as often
# and for the same sizes. At last the test tests itself: with fusion off on one side it must fail.
#
# --part takes the model with experts alone, with flash attention.
# The driver is Mesa's lavapipe; with --gpu, those of this machine. Under a layer some drivers (NVIDIA's)
# end even the native run; then ggml's log is all there is, and the output says so. OUT is the build's output
# directory. DISPATCH_MODELS="FILE..." takes these models instead of small ones made here,
# DISPATCH_CONFIG adds members to the worker's configuration.
# The last line is `dispatch: N of M comparisons as native`.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh

vulkan=(GGML_VK_VISIBLE_DEVICES="${GGML_VK_VISIBLE_DEVICES:-0}")
counted=yes # whether the layer counts
attention=(on off)
part=
if [[ ${1-} == --part ]]; then
    shift
    part=yes attention=(on)
fi
if [[ ${1-} == --gpu ]]; then
    shift
    counted=perhaps
else
    lavapipe=/usr/share/vulkan/icd.d/lvp_icd.json
    [[ -e $lavapipe ]] ||
        { echo "dispatch: no $lavapipe here; install Mesa's Vulkan drivers, or use --gpu" >&2; exit 1; }
    vulkan=("VK_DRIVER_FILES=$lavapipe" GGML_VK_VISIBLE_DEVICES=0)
fi
out=$(realpath "${1:-build/release-gcc}")
unset GGML_BACKEND_PATH APIR_TRANSPORT APIR_LOG APIR_ON_LOSS APIR_CONFIG
work=$(mktemp -d "${TMPDIR:-/tmp}/dispatch.XXXXXX")
finish() {
    vtest_stop || :
    rm -rf "$work"
}
trap finish EXIT

counting=(VK_ADD_LAYER_PATH="$out/tests/bench" VK_INSTANCE_LAYERS=VK_LAYER_APIR_count)
native_file=$work/native.counts remoted_file=$work/remoted.counts
side_env=() # for the native side alone
passed=0 failed=0

verdict() { # NAME DETAIL CONDITION...
    if "${@:3}"; then
        passed=$((passed + 1))
        printf 'PASS  dispatch %-30s %s\n' "$1" "$2"
    else
        failed=$((failed + 1))
        printf 'FAIL  dispatch %-30s %s\n' "$1" "$2"
    fi
}

die() {
    echo "dispatch: $*" >&2
    exit 1
}

# ---- runs -----------------------------------------------------------------------

# Servers differ in what the worker's environment holds; both write to the same log.
serve() { # ENV...
    # All four are read by unix_start.
    # shellcheck disable=SC2034
    VTEST_ENV=("${vulkan[@]}" APIR_LOG=debug "$@") # ggml's own log, all of it
    # shellcheck disable=SC2034
    VTEST_CONFIG="{${DISPATCH_CONFIG:+$DISPATCH_CONFIG, }\"threads\": 1, \"devices\": [\"Vulkan0\"], \"spare_workers\": 0, \"shader_seconds\": 0,
        \"sandbox_write\": [\"$work\"]}" # the layer's counts
    unix_start "$out" # it lives on after its clients, and so writes all that their workers have printed
    trap finish EXIT
    mapfile -t remoted_env < <(vtest_env "$out")
    # Its first worker has tried the device, which would count.
    timeout "$(patience 120)" env "${remoted_env[@]}" llama-bench --list-devices >"$work/first.out" 2>&1 ||
        die "the first program fails: $(tail -n 3 "$work/first.out")"
}

bench() { # DEVICE ARGS...: llama-bench's options which could be chosen by device are fixed
    local device=$1
    shift
    llama_bench=(llama-bench --device "$device" -ngl 99 --no-warmup --threads 1 -o csv "$@")
}

run_native() { # ENV... -- ARGS...
    local env=()
    while [[ $1 != -- ]]; do env+=("$1"); shift; done
    shift
    bench Vulkan0 "$@"
    timeout "$(patience 120)" env "${vulkan[@]}" ${side_env[@]+"${side_env[@]}"} "${env[@]}" \
        "${llama_bench[@]}" >"$work/native.out" 2>"$work/native.err" ||
        die "the native run failed: $(tail -n 3 "$work/native.err")"
}

run_remoted() { # ARGS...
    bench APIR0 "$@"
    timeout "$(patience 120)" env "${remoted_env[@]}" "${llama_bench[@]}" >"$work/remoted.out" \
        2>"$work/remoted.err" ||
        die "the remoted run failed: $(tail -n 3 "$work/remoted.err" "$VTEST_LOG")"
}

# ---- counts ---------------------------------------------------------------------

# The layer's file as lines of name and number.
counts_read() { # FILE
    [[ -s $1 ]] || die "nothing was counted in $1: the layer was not loaded"
    paste -d ' ' <(head -c 512 "$1" | tr -d '\0') <(tail -c +513 "$1" | od -An -v -tu8 -w8 | tr -d ' ')
}

# Lines of name, difference of two runs natively, the same remoted, for a count; `all_pipelines`
# is not a difference: those of the whole first run.
counts_pair() { # "ARGS of the short run" "ARGS of the long run"
    local side args i=0
    for args in "$1" "$2"; do
        i=$((i + 1))
        rm -f "$native_file" "$remoted_file"
        # shellcheck disable=SC2086 # lists of words
        run_native "${counting[@]}" APIR_COUNT_FILE="$native_file" -- $args
        # shellcheck disable=SC2086
        run_remoted $args
        counts_read "$native_file" >"$work/native.$i"
        counts_read "$remoted_file" >"$work/remoted.$i"
    done
    for side in native remoted; do
        awk 'NR == FNR { first[$1] = $2; next }
             { print $1, $2 - first[$1] }
             END { print "all_pipelines", first["pipelines"] }' \
            "$work/$side.1" "$work/$side.2" >"$work/$side.delta"
    done
    join <(sort "$work/native.delta") <(sort "$work/remoted.delta") >"$work/pairs"
    awk '$1 == "dispatches" && $2 > 0 { found = 1 } END { exit !found }' "$work/pairs" ||
        die "no dispatch was counted natively; is the model on Vulkan0?"
}

# A prompt's inputs are large: in registered memory the device copies them itself, in submissions of
# their own, where natively the CPU may write them. How bytes travel is not what is computed: these
# counts are shown and not judged.
transfers='^(submits|command_buffers|copies|copied_bytes)$'
transfers_apart() {
    awk -v t="$transfers" '$1 ~ t && $2 != $3 { printf "; %s: %d native, %d remoted", $1, $2, $3 }' \
        "$work/pairs"
    awk -v t="$transfers" '$1 !~ t' "$work/pairs" >"$work/judged"
    mv "$work/judged" "$work/pairs"
}

# What the pairs say, for a person: each count per unit; those that differ, with both sides.
counts_text() { # UNITS UNIT
    awk -v n="$1" -v unit="$2" '
        $2 == $3 && ($1 == "dispatches" || $1 == "submits" || $1 == "barriers" || $1 == "copies") {
            same = same sprintf("%s%.10g %s", same ? ", " : "", $2 / n, $1)
        }
        $2 != $3 { diff = diff sprintf("; %s: %d native, %d remoted", $1, $2, $3) }
        END { print same " per " unit diff }' "$work/pairs"
}

check_counts() { # NAME UNITS UNIT SHORT LONG
    local total same apart=
    counts_pair "$4" "$5"
    if [[ $3 == prompt* ]]; then
        transfers_apart >"$work/apart"
        apart=$(<"$work/apart")
    fi
    total=$(wc -l <"$work/pairs")
    same=$(awk '$2 == $3' "$work/pairs" | wc -l)
    verdict "$1" "$same of $total the same: $(counts_text "$2" "$3")${apart:+ (not judged$apart)}" \
        test "$same" -eq "$total"
}

# ---- names ----------------------------------------------------------------------

# ggml's log gives each kind of operation with its number in a graph and its time; the time goes, and so does the
# worker's name.
ops_read() { # FILE
    sed -nE -e 's/^apir: worker of context [0-9]+: //' -e 's/^(.*: [0-9]* x )[0-9.e+]* us = .*/\1/p' "$1"
}
new_log() { tail -c "+$(($1 + 1))" "$VTEST_LOG"; }
log_is_whole() { new_log "$1" | grep -q 'context [0-9]* destroyed'; } # what its worker has printed comes before

ops_pair() { # ARGS
    local from
    # shellcheck disable=SC2086 # a list of words
    run_native GGML_VK_PERF_LOGGER=1 -- $1
    ops_read "$work/native.err" >"$work/native.ops"
    from=$(stat -c %s "$VTEST_LOG")
    # shellcheck disable=SC2086
    run_remoted $1
    wait_until 20 log_is_whole "$from" || die "the server does not say that the context has ended"
    new_log "$from" >"$work/remoted.log"
    ops_read "$work/remoted.log" >"$work/remoted.ops"
    [[ -s $work/native.ops ]] || die "ggml's GGML_VK_PERF_LOGGER printed no operations"
}

ops_same() { cmp -s "$work/native.ops" "$work/remoted.ops"; }

check_ops() { # NAME ARGS
    local kinds total what
    ops_pair "$2"
    kinds=$(sed 's/: [0-9]* x $//' "$work/native.ops" | sort -u | wc -l)
    total=$(awk '{ n += $(NF - 1) } END { print n }' "$work/native.ops")
    what="$total operations of $kinds kinds, the same ones"
    ops_same || what=$(diff "$work/native.ops" "$work/remoted.ops" | head -n 6 | tr '\n' ' ')
    verdict "$1" "$what" ops_same
}

# ---- all of it ------------------------------------------------------------------

if [[ -n ${DISPATCH_MODELS-} ]]; then
    read -r -a models <<<"$DISPATCH_MODELS"
else
    models=("$work/3M-q8_0.gguf" "$work/moe-q4_0.gguf")
    "$out/tests/lib/models/gguf-write" --preset 3M --type q8_0 --output "${models[0]}"
    "$out/tests/lib/models/gguf-write" --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 \
        --experts-used 2 --type q4_0 --output "${models[1]}"
    [[ -z $part ]] || models=("${models[1]}")
fi

tokens=16
token_short="-p 0 -n $tokens -r 1" token_long="-p 0 -n $((2 * tokens)) -r 1"
prompt_short="-p 64 -n 0 -r 1" prompt_long="-p 64 -n 0 -r 2"

if [[ $counted == perhaps ]]; then
    # shellcheck disable=SC2086 # a list of words
    if (run_native "${counting[@]}" APIR_COUNT_FILE="$native_file" -- -m "${models[0]}" $token_short) 2>/dev/null; then
        counted=yes
    else
        counted=no
        echo "dispatch: this driver ends the native run under a counting layer: only ggml's log is compared"
    fi
fi

if [[ $counted == yes ]]; then
    serve "${counting[@]}" APIR_COUNT_FILE="$remoted_file"
    for model in "${models[@]}"; do
        name=$(basename "$model" .gguf)
        for fa in "${attention[@]}"; do
            check_counts "$name token fa-$fa" "$tokens" token "-m $model -fa $fa $token_short" \
                "-m $model -fa $fa $token_long"
        done
        check_counts "$name prompt" 1 "prompt of 64" "-m $model -fa on $prompt_short" \
            "-m $model -fa on $prompt_long"
    done

    # The same comparison must see what fusion makes of a graph.
    side_env=(GGML_VK_DISABLE_FUSION=1)
    counts_pair "-m ${models[0]} -fa on $token_short" "-m ${models[0]} -fa on $token_long"
    unfused=$(awk '$1 == "dispatches" && $2 > $3 { print $2 " against " $3 " dispatches" }' "$work/pairs")
    side_env=()
    vtest_stop
else
    unfused='other operations'
fi

serve GGML_VK_PERF_LOGGER=1
for model in "${models[@]}"; do
    name=$(basename "$model" .gguf)
    check_ops "$name token, names" "-m $model -fa on -p 0 -n 4 -r 1"
    check_ops "$name prompt, names" "-m $model -fa on $prompt_short"
done
side_env=(GGML_VK_DISABLE_FUSION=1)
ops_pair "-m ${models[0]} -fa on -p 0 -n 4 -r 1"
sees_it() { [[ -n $unfused ]] && ! ops_same; }
verdict "the test itself" "fusion is off on one side, which must show: ${unfused:-it does not}" sees_it

echo "dispatch: $passed of $((passed + failed)) comparisons as native"
[[ $failed -eq 0 ]]
