#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--part] [--host CPU|lavapipe|gpu] [--guest aarch64] [--list] [--jobs N] [--seconds N] [OUT]
# run.sh --parity [--native] [OUT]
#
# Every option of llama.cpp that moves work, its packaged programs and whisper.cpp's (programs.sh): each is run
# on the host's device itself and on APIR0, and both must have seen the same. On the host's CPU that is
# bit for bit, with one thread, no repacked weights and no BLAS on both sides; on lavapipe, Mesa's Vulkan
# device in software, and on the machine's first GPU the normalised mean square error of logits may be
# 1e-4, which is what llama.cpp's own test of architectures allows a device. With --guest the programs on APIR0 are
# arm64 ones under qemu-user, with the plug-in of `make ARCH=aarch64`; rows in which their own CPU, which rounds
# otherwise, has a part of the work are left out. What random options and calls come to: tests/native/differ.
#
# --part takes a representative subset; ROW="NAME..." only these rows; --jobs runs so many at a time (1);
# --seconds leaves out those that have not begun by then. OUT is the build's output directory. What a failed row
# printed is in build/options/NAME.log. --parity has the rows of `make check-parity` instead, over vtest; with --native
# both runs are native, which tests the tools alone. The last line is `options: N of M as native`, or `parity: ...`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/native/archs/lib.sh
. tests/native/archs/lib.sh
# shellcheck source=tests/native/options/rows.sh
. tests/native/options/rows.sh
# shellcheck source=tests/native/options/programs.sh
. tests/native/options/programs.sh

suite=options list='' twice='' args=() archs_jobs=1
for arg; do
    case $arg in
    --list) list=yes ;;
    --parity) suite=parity ;;
    --native) twice=yes ;;
    *) args+=("$arg") ;;
    esac
done
archs_options --rows "${args[@]}"
ROW=${ROW:-${only//,/ }}
out=$(realpath "$out")
guest_out=${out%/*}/release-$guest-linux-gnu-gcc guest_root=build/sysroot-$guest
models=build/models
logs=build/$suite
limit=$(patience 120) # seconds of one run: it hangs then
mkdir -p "$models" "$logs"
# Called by itself, below, for one row of several at a time.
[[ -n ${OPTIONS_ONE-} ]] || find "$logs" -type f -delete
work=$(mktemp -d "${TMPDIR:-/tmp}/options.XXXXXX")
finish() {
    vtest_stop || :
    rm -rf "$work"
}
trap finish EXIT

some_tolerance=(--nmse 1e-4)
mapfile -t native_env < <(archs_device_env "$host")
mapfile -t vulkan < <(archs_device_env "${host/CPU/lavapipe}")
if [[ $host == CPU ]]; then
    native=CPU members='' tolerance=() requests=8
else
    native=Vulkan0 members=', "devices": ["Vulkan0"]' tolerance=("${some_tolerance[@]}") requests=1
fi

# ---- models -----------------------------------------------------------------------

# Prints the path of a model of this name; heads of 64 values, so that any cache type fits, but for
# llama-narrow: its heads of 16 are half a block of a quantised type.
model_file() { # NAME
    local name=$1 file=$models/options-$1.gguf
    local write=$out/tests/lib/models/gguf-write extra=$out/tests/lib/models/gguf-extra
    case $name in
    llama-gqa-*) write_file "$file" "$write" --arch llama --heads 4 --heads-kv 2 --type "${name##*-}" ;;
    llama-mha-*) write_file "$file" "$write" --arch llama --heads 4 --heads-kv 4 --type "${name##*-}" ;;
    135M-*) write_file "$file" "$write" --preset 135M --type "${name##*-}" ;; # as many nodes as a real one has
    qwen2-*) write_file "$file" "$write" --arch qwen2 --heads 8 --heads-kv 2 --type "${name##*-}" ;;
    llama-wide-*) write_file "$file" "$write" --arch llama --embd 512 --heads 8 --heads-kv 4 --layers 6 \
        --ff 1024 --type "${name##*-}" ;;
    llama-narrow-*) write_file "$file" "$write" --arch llama --embd 128 --heads 8 --heads-kv 4 --head-dim 16 \
        --ff 256 --type "${name##*-}" ;;
    llama-draft-*) write_file "$file" "$write" --arch llama --layers 1 --embd 128 --heads 2 --heads-kv 2 \
        --ff 128 --type "${name##*-}" ;;
    qwen3-*) write_file "$file" "$write" --arch qwen3 --heads 4 --heads-kv 2 --type "${name##*-}" ;;
    qwen3moe-*) write_file "$file" "$write" --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 \
        --experts-used 2 --type "${name##*-}" ;;
    lora-*) write_file "$file" "$extra" lora --model "$(model_file "${name#lora-}")" ;;
    vision-*) write_file "$file" "$extra" vision --model "$(model_file "${name#vision-}")" ;;
    split-*) # in several files, of which the first is named
        file=$models/options-$name-00001-of-00002.gguf
        [[ -e $file && ! $write -nt $file ]] ||
            llama-gguf-split --split-max-tensors 20 "$(model_file "${name#split-}")" "$models/options-$name" >/dev/null
        ;;
    whisper-model | whisper-parakeet | whisper-sound)
        file=$work/$name # whisper.cpp goes by what is in it
        [[ -e $file ]] || "$out/tests/lib/models/whisper-write" "${name#*-}" "$file"
        ;;
    image) # a ring in colours, as PNM; without the byte 0, which awk may not print
        file=$work/image.ppm
        LC_ALL=C awk 'BEGIN { printf "P6 80 60 255\n"
            for (y = 0; y < 60; y++) for (x = 0; x < 80; x++) {
                d = int(sqrt((x - 40) ^ 2 + (y - 30) ^ 2))
                printf "%c%c%c", 1 + d * 9 % 120, 1 + x * 3 % 120, (d > 12 && d < 22 ? 125 : 30) } }' >"$file"
        ;;
    rank-*) write_file "$file" "$extra" rank --model "$(model_file "${name#rank-}")" ;;
    grammar)
        file=$work/grammar
        printf 'root ::= ("the " | "a ") word (" " word)*\nword ::= [a-z] [a-z] [a-z]?\n' >"$file"
        ;;
    *) echo "run.sh: no model is called $name" >&2 && return 1 ;;
    esac
    echo "$file"
}

# ---- the host side ------------------------------------------------------------------

serving=none # the configuration of the host side that runs
remoted_env=()
serve() { # MEMBERS ENV...: more members of its configuration, more of its environment
    [[ $serving != "$*" ]] || return 0
    vtest_stop || :
    serving=$*
    # Both are read by unix_start.
    # shellcheck disable=SC2034
    VTEST_CONFIG="{\"threads\": 1$1}"
    shift
    # shellcheck disable=SC2034
    VTEST_ENV=("${native_env[@]}" "$@")
    if [[ $suite == parity ]]; then vtest_start "$out"; else unix_start "$out"; fi
    trap finish EXIT
    mapfile -t remoted_env < <(vtest_env "$out")
    [[ -z $guest ]] || remoted_env+=("GGML_BACKEND_PATH=$guest_out/frontend/libggml-apir.so")
}

# command_of SIDE PROGRAM: sets `command`, the words that start it there. PROGRAM is a path below OUT, or a name.
command_of() {
    command=("$2")
    [[ $1 != native && -n $guest ]] || return 0
    if [[ $2 == */* ]]; then
        command=("$guest_out/${2#"$out/"}")
    else
        command=("$guest_root/usr/bin/$2")
    fi
    # By default it has a processor that ggml's choice of a CPU backend ends over; this is tests/vm/run.sh's.
    command=("qemu-$guest" -cpu cortex-a76 -L "$guest_root" "${command[@]}")
}

# ---- rows ---------------------------------------------------------------------------

why() { # SIDE: the last that it said
    tail -n 3 "$work/$1.err"
}

# What a person needs to look into a row that failed.
keep_log() { # NAME
    { for side in native remoted; do
        echo "== $side"
        cat "$work/$side.txt" "$work/$side.err" 2>/dev/null || :
    done
    echo "== host side"
    tail -n 200 "$VTEST_LOG" 2>/dev/null || :; } >"$logs/$1.log"
}

wanted() { # NAME PART KIND: is this row asked for, and can it be on this host?
    [[ -z $guest ]] || { [[ $3 != slots && $3 != *:* ]] && guest_says_the_same "$1"; } || return 1
    [[ $host == CPU && -z $guest ]] || ! program_is_extra "$3" || return 1
    if [[ -n ${ROW-} ]]; then
        [[ " $ROW " == *" $1 "* ]]
    else
        [[ -z $part || $2 == part ]]
    fi
}
# Programs leave text, files and logits, in which one rounding is another answer. A guest of another architecture says
# the same where its own CPU computes nothing: it has no layers, and the program itself no logarithms or sums to make.
guest_says_the_same() { # NAME
    case $1 in
    perplexity* | imatrix* | results | *-half* | *-on-cpu | *cmoe* | *-ot* | *-none | *nkvo* | ngl-*) return 1 ;;
    esac
}

# begin NAME: is there time for it? What then runs may take a little longer.
begin() {
    ! archs_late || { printf 'LEFT  %s %s\n' "$suite" "$1" && return 1; }
    limit=$(archs_limit "$limit")
}

[[ $suite != parity ]] || programs=("${parity[@]}")
if [[ -n $list ]]; then
    printf '%s\n' "${programs[@]}"
    exit
fi
all_rows() { # what to do with a row
    local row fields
    for row in "${programs[@]}"; do
        read -r -a fields <<<"$row"
        ! wanted "${fields[@]:0:3}" || "$1" "${fields[0]}" "${fields[@]:2}"
    done
}
if [[ $jobs -eq 1 ]]; then
    one_row() { ! begin "$1" || program_row "$@"; }
    all_rows one_row
    [[ -z ${OPTIONS_ONE-} ]] || exit 0
else
    one_name() { echo "$1"; }
    all_rows one_name >"$work/names"
    OPTIONS_ONE=yes xargs -P "$jobs" -I '{}' env ROW='{}' tests/native/options/run.sh --host "$host" --guest "$guest" "$out" \
        <"$work/names" | tee "$work/lines" || :
    passed=$(grep -c '^PASS' "$work/lines" || :)
    failed=$(($(wc -l <"$work/names") - passed))
fi

echo "$suite: $passed of $((passed + failed)) as native"
[[ $passed -gt 0 && $failed -eq 0 ]]
