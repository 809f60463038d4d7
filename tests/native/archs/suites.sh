#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# suites.sh [--part] [--suites NAME,...] [--host CPU|lavapipe|gpu] [OUT]
#
# Runs llama.cpp's other tests of a backend natively on the host's device and in a guest on APIR0,
# and compares the result of each of their cases:
#
#   opt                training: datasets, gradients, both optimizers
#   thread-safety      models and contexts in as many threads; the texts they write
#   llama-context      state copied, saved, restored and rolled back, for several kinds of model
#   backend-sampler    samplers that run on the device
#   model-load-cancel, autorelease, mtmd-c-api, fusion     one case each
#
# The plug-in is where apir-hook puts it: as libggml-metal.so in a folder that ggml searches, so
# that its device comes before the CPU. GGML_BACKEND_PATH is read after all others, and test-opt
# makes a scheduler of the devices as they come, of which ggml asserts that the last is the CPU.
#
# --part leaves out opt and some models, which take long. The last line is `suites: N of M as native`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/native/archs
# shellcheck source=tests/native/archs/lib.sh
. $here/lib.sh
archs_without_blas "$here/suites.sh" "$@"

archs_options --suites "$@"
out=$(realpath "$out")
native_device=Vulkan0
[[ $host != CPU ]] || native_device=CPU
limit=1200
work=build/archs/suites-$host
rm -rf "$work"
mkdir -p "$work"
work=$(realpath "$work")

# ---- models -------------------------------------------------------------------
text_model=$work/llama.gguf
"$out/tests/lib/models/gguf-write" --arch llama --heads 4 --heads-kv 2 --type q8_0 \
    --output "$text_model"
models=$(realpath "$(archs_models)")

# ---- the suites -----------------------------------------------------------------
# Each runs in a side's environment and folder and prints a line for each case: its name, a tab,
# its result. `device` is the side's device as ggml names it, `log` a file for what else is said.
program() { # NAME ARGS... -> output in $log
    local name=$1 rc=0
    shift
    (cd "$folder" && exec timeout -k 5 $limit env GGML_NO_BACKTRACE=1 "${vars[@]}" "$archs_tests/test-$name" "$@") \
        >>"$log" 2>&1 || rc=$?
    return $rc
}
exit_code() { # CASE NAME ARGS...
    local case=$1 rc=0
    shift
    program "$@" || rc=$?
    printf '%s\t%s\n' "$case" "exit code $rc"
}

# Some print from a thread and, natively too, can end before that has printed all. So once more,
# if one that should have said TEXT has not; but not after a crash.
again_until() { # TEXT NAME ARGS...
    local text=$1 said tries
    shift
    for ((tries = 0; tries < 50; tries++)); do
        : >"$log"
        said=$(exit_code all "$@")
        [[ $said == *'code '[01] ]] || break
        ! grep -qa "$text" "$log" || break
    done
    printf '%s\n' "$said"
}

suite_opt() {
    exit_code all opt
    # Both optimizers go over all devices.
    awk -v device="$device" '
        { gsub(/\033\[[0-9;]*m/, "") }
        /^Backend [0-9]+\/[0-9]+: / { at = $3; rounds[at]++; next }
        at == device && /: (OK|FAIL|SKIPPED)/ {
            sub(/^ +/, ""); name = $0; sub(/: [A-Z]+$/, "", name); sub(/Backend [^ ]+ /, "", name)
            print rounds[at] ". " name "\t" $NF }' "$log"
}

# As many models as there are ways to place one; with a device there is one way more. The most
# likely token is taken, so that all of them write the same.
suite_thread-safety() {
    again_until 'All threads finished' thread-safety -m "$text_model" -np 4 -t 1 -n 24 -c 512 \
        -ngl 99 --temp 0 -p "In October"
    [[ $host != CPU ]] ||
        sed -n 's/.* Model [0-9/]*, Context [0-9/]*: /texts\t/p' "$log" | sort -u
}

suite_llama-context() {
    local model name all
    # One with attention only, and those with a state that a cache cannot hold.
    all=("$text_model" "$models"/{qwen35-dense,gemma3-dense,mamba2-dense,lfm2moe-moe}.gguf)
    [[ -z $part ]] || all=("${all[@]:0:2}")
    for model in "${all[@]}"; do
        name=$(basename "$model" .gguf)
        : >"$log"
        exit_code "$name" llama-context -m "$model" -t 1 -ngl 99 -dev "${device/#CPU/none}"
        sed 's/\x1b\[[0-9;]*m//g' "$log" |
            sed -nE "s/^([a-z_]+) +(OK|SKIP|FAIL)( .*)?\$/$name \1\t\2/p"
        cat "$log" >>"$log.all" # for whoever looks into a failure
    done
}

suite_backend-sampler() {
    local case where=gpu
    [[ $device != CPU ]] || where=cpu
    program backend-sampler --model "$text_model" --device $where --test none || :
    sed -n '/Available tests/,$s/^  \(test_[a-z_]*\)$/\1/p' "$log" >"$log.cases"
    while IFS= read -r case; do
        # An assertion that fails natively too fails at the same place.
        : >"$log"
        exit_code "$case" backend-sampler --model "$text_model" --device $where --test "$case"
        grep -aoE '^[^ ]*: GGML_ASSERT.*' "$log" | sed "s|^|$case\t|" || :
        cat "$log" >>"$log.all"
    done <"$log.cases"
}

suite_model-load-cancel() { exit_code all model-load-cancel "$text_model"; }
suite_autorelease() { exit_code all autorelease "$text_model"; }
suite_mtmd-c-api() { exit_code all mtmd-c-api; }

# It counts what a backend fuses, if that has a way to tell; else it says so and fails.
suite_fusion() {
    rm -f "$folder/fusion.csv"
    again_until "$device" fusion --model "$text_model" --device "$device" --record fusion.csv
    printf 'counts\t%s\n' "$(sha256sum "$folder/fusion.csv" 2>/dev/null | grep . || echo none)"
}

# ---- both sides -----------------------------------------------------------------
VTEST_KEEP_LOG=$work/server.log
archs_serve "$out" "$host" "$work"

side() { # native|remoted SUITE
    local folder=$work/$1 log=$work/$2.$1.log vars device=$native_device
    mkdir -p "$folder"
    if [[ $1 == native ]]; then
        mapfile -t vars <"$work/native.env"
    else
        device=APIR0
        ln -sf "$out/frontend/libggml-apir.so" "$folder/libggml-metal.so"
        vars=("APIR_TRANSPORT=$VTEST_TRANSPORT:$VTEST_SOCKET" GGML_VK_VISIBLE_DEVICES=)
    fi
    "suite_$2" >"$work/$2.$1"
    # Those that are not told which device to take must have found ours; thread-safety names none,
    # but has one way more to place a model.
    case $1-$2 in
    remoted-opt | remoted-thread-safety | remoted-model-load-cancel | remoted-autorelease)
        grep -qa "APIR0\|loaded APIR\|model 1/3" "$log" ||
            printf 'plug-in\tnot loaded\n' >>"$work/$2.$1"
        ;;
    esac
}

suites=(opt thread-safety llama-context backend-sampler model-load-cancel autorelease mtmd-c-api
    fusion)
[[ -z $part ]] || suites=("${suites[@]:1}")
[[ -z $only ]] || IFS=, read -r -a suites <<<"$only"
good=0 total=0
for suite in "${suites[@]}"; do
    # What bash says of a crash is in there.
    side native "$suite" 2>"$work/$suite.crashes"
    side remoted "$suite" 2>>"$work/$suite.crashes"
    cases=$(wc -l <"$work/$suite.native")
    bad=$(diff "$work/$suite.native" "$work/$suite.remoted" | grep '^[<>]' || :)
    # A case that differs is there twice, one that only one side has once.
    n_bad=$(cut -c 3- <<<"$bad" | cut -f 1 | grep . | sort -u | wc -l || :)
    [[ $n_bad -le $cases ]] || n_bad=$cases
    good=$((good + cases - n_bad)) total=$((total + cases))
    if [[ -z $bad && $cases -gt 0 ]]; then
        printf 'PASS  suites %-18s %d of %d cases: %s\n' "$suite" "$cases" "$cases" \
            "$(cut -f 2 "$work/$suite.native" | cut -c 1-40 | sort | uniq -c | sort -rn |
                awk '{ n = $1; $1 = ""; printf "%s%d x%s", (NR > 1 ? ", " : ""), n, $0 }')"
    else
        [[ $n_bad -gt 0 ]] || total=$((total + 1))
        printf 'FAIL  suites %-18s %d of %d cases; native <, remoted >: %s\n' "$suite" \
            $((cases - n_bad)) "$cases" "$(head -n 12 <<<"$bad" | tr '\n\t' '; ')"
    fi
done
echo "suites: $good of $total as native"
[[ $total -gt 0 && $good -eq $total ]]
