#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--seconds N] [--host cpu|lavapipe] [--without STEP,...] [--seed N]... [OUT]
#
# The differential fuzzers, natively beside APIR0, in several processes one after the other: from each
# of the given seeds on, or from new ones as long as there is time. With the host's CPU everything must be
# equal bit for bit. With lavapipe, a GPU in software, the queue of a device runs behind the
# program; there only what has no rounding is compared: bytes, copies and additions.
#
# The small models of all architectures are used as well, if tests/native/archs has made them.
# Random work meets assertions and faults of llama.cpp's own, and memory that it has not initialised: a
# sequence that ends is done again with the CPU on both sides, several times. If that ends in the same
# way, at the same step, or if the CPU differs from itself anywhere in it (which thread is the first to
# see that is chance), the sequence says nothing: it is counted apart and the run goes on.
# The last line is `differ: N operations in M sequences agree, seed S`; a difference ends the run,
# with what is needed to see it again. OUT is the build's output directory.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/native/archs/lib.sh
. tests/native/archs/lib.sh
# shellcheck source=tests/native/options/rows.sh
. tests/native/options/rows.sh

seconds=30 host=cpu without='' seeds=()
while [[ ${1-} == --* ]]; do
    case $1 in
    --seconds) seconds=$2 ;;
    --host) host=$2 ;;
    --without) without=$2 ;;
    --seed) seeds+=("$2") ;;
    *) echo "usage: run.sh [--seconds N] [--host cpu|lavapipe] [--without STEP,...] [--seed N]... [OUT]" >&2; exit 2 ;;
    esac
    shift 2
done
out=${1:-build/release-gcc}
programs=$out/tests/native/differ
models=build/models

# Each is found by its name, in run_one.
# shellcheck disable=SC2034
ggml=(ggml-differ) both=(ggml llama)
case $host in
cpu) VTEST_CONFIG='{"threads": 1}' ;;
lavapipe)
    # shellcheck disable=SC2034 # both are read by unix_start
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0"]}'
    # shellcheck disable=SC2034
    mapfile -t VTEST_ENV < <(archs_device_env lavapipe)
    ggml+=(--only "transfer,copy,life,relay,cross,many,bulk") without+=,memset both=(ggml)
    ;;
*) echo "differ: --host cpu or lavapipe" >&2; exit 2 ;;
esac

[[ -z $without ]] || ggml+=(--without "$without")

# Small ones: what the fuzzer looks for is between the operations, not in their size.
shapes=(
    "differ-gqa-q8_0 --arch llama --heads 4 --heads-kv 2 --type q8_0"
    "differ-gqa-f32 --arch llama --heads 4 --heads-kv 2 --type f32"
    "differ-qwen3-f16 --arch qwen3 --heads 4 --heads-kv 2 --type f16"
    "differ-moe-q4_0 --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type q4_0"
    "differ-moe-f32 --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type f32"
)
mkdir -p "$models"
files=()
for shape in "${shapes[@]}"; do
    read -r -a args <<<"$shape"
    file=$models/${args[0]}.gguf
    write_file "$file" "$out/tests/lib/models/gguf-write" "${args[@]:1}"
    files+=("$file")
done
for file in "$models"/archs-*/*.gguf; do
    [[ ! -e $file ]] || files+=("$file")
done
# shellcheck disable=SC2034
llama=(llama-differ "${files[@]}")

unix_start "$out"
trap vtest_stop EXIT
mapfile -t vars < <(vtest_env "$out")

operations=0 sequences=0 asserts=0 first=
# One process of a program, ggml or llama: its last line is in $said, the rest in the file.
run_program() { # ggml|llama FILE SECONDS OPTIONS...
    local -n program=$1
    # A sequence goes on behind the limit; a hang is a failure.
    said=$(timeout $(($3 + $(patience 180))) env "${vars[@]}" GGML_NO_BACKTRACE=1 \
        "$programs/${program[0]}" --seconds "$3" "${@:4}" "${program[@]:1}" 2>"$2")
}
# How a process has ended: ggml's own words, or the step that it fell in.
ending() { # FILE
    grep -aoE '^[^ ]*[.](cpp|c|h):[0-9]+: .*|(CRASH|DIFFERENCE) in seed .*' "$1" | head -n 1
}
ends_natively_too() { # ggml|llama SEED HOW
    local tries natively
    for tries in 1 2 3 4 5 6; do
        ! run_program "$1" "$VTEST_DIR/native" 60 --seed "$2" --sequences 1 --remote CPU || continue
        natively=$(ending "$VTEST_DIR/native" || :)
        [[ $natively != "$3" && "${natively%%,*}" != "DIFFERENCE in seed $2" ]] || return 0
    done
    return 1
}
count() { # WORDS THAT BEGIN WITH: PROGRAM: N operations in M sequences
    operations=$((operations + $2)) sequences=$((sequences + $5))
}

run_one() { # ggml|llama SEED SECONDS
    local which=$1 seed=$2 until=$((SECONDS + $3)) said why ended log=$VTEST_DIR/said
    [[ -n $first ]] || first=$seed
    while ! run_program "$which" "$log" $((until > SECONDS ? until - SECONDS : 1)) --seed "$seed"; do
        why=$(ending "$log" || :)
        ended=$(sed -n 's/.*: \(ABORT\|CRASH\|DIFFERENCE\) in seed \([0-9]*\),.*/\2/p' "$log" | head -n 1)
        if [[ -z $why || -z $ended ]] || ! ends_natively_too "$which" "$ended" "$why"; then
            grep -v '^load_backend\|^ggml_vulkan' "$log" | tail -n 20 >&2
            tail -n 5 "$VTEST_LOG" >&2
            echo "differ: $which --seed $seed --host $host does not agree"
            exit 1
        fi
        echo "$which-differ: seed $ended ends natively too: $why"
        # shellcheck disable=SC2046 # words are what is wanted
        count $(grep -a 'agree before it$' "$log" | tail -n 1)
        asserts=$((asserts + 1)) seed=$((ended + 1))
    done
    echo "$said"
    # shellcheck disable=SC2086
    count $said
}

end=$((SECONDS + seconds))
if [[ ${#seeds[@]} -gt 0 ]]; then
    part=$((seconds / ${#seeds[@]} / ${#both[@]}))
    ((part > 1)) || part=2
else
    part=$((seconds / 10 > 2 ? seconds / 10 : 2))
    ((part < 120)) || part=120
fi
for seed in "${seeds[@]}"; do
    for which in "${both[@]}"; do
        run_one "$which" "$seed" "$part"
    done
done
while [[ ${#seeds[@]} -eq 0 ]] && ((SECONDS < end)); do
    for which in "${both[@]}"; do
        run_one "$which" "$((SRANDOM % 1000000000))000" "$part"
    done
done
vtest_alive || { echo "differ: the server did not survive" >&2; exit 1; }
[[ $asserts -eq 0 ]] || echo "differ: $asserts sequences more ended, and natively too"
echo "differ: $operations operations in $sequences sequences agree, seed $first"
[[ $operations -gt 0 ]]
