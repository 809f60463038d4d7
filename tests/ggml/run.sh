#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--device CPU|lavapipe|gpu] [--guest NAME] [--host NAME] [OUT]
#
# Guests whose ggml is of each layout on hosts whose ggml is of each layout (protocol/ggml_probe.c), over
# the unix transport, in the worker's sandbox, on the host's CPU or through its Vulkan backend on lavapipe or its
# first GPU: node-llama-cpp's packages from npm, each with its own llama.cpp and ggml, and Debian's. On a host
# the configuration's `ggml` and `ggml_backends_dir` name the files of such a package. Every guest generates a
# text greedily with each model and setting: flash attention off and on, a cache of f16 and of q8_0 (where the
# program lets one choose).
#
# What a text must be. The graph is the guest's and the kernels are the host's: no native run has both. The
# text is `host` if it is the one that all of the host's version gives natively, on that device; else `guest` if
# it is the one that all of the guest's version gives natively there (where llama.cpp has come to make another
# graph of the same model). The last bit of a sum, which versions' kernels do not share, may decide between two
# tokens, more often where a cache is rounded by steps of 1/127 or products by those of f16. So a text is also right,
# `near`, if the guest's llama.cpp, natively and with that setting, finds each token of it as likely as the most likely
# one but for `tie` standard deviations of the logits (of 1024 tokens by chance most are 3 off), or on a GPU the host's
# llama.cpp does. Nothing else passes. Models of experts have no quantised cache on a GPU: natively, too, rounding
# decides there which expert a token has, and so between texts that have nothing in common.
# `own`: the guest has declined the host with one line and computes on its own CPU. That is right only
# where `declines` below says so, and the text is its own native one.
# Weights of q4_0, q4_k and q6_k, and with AMX of q8_0 and f16, have a layout of the CPU's own, in which products are
# rounded otherwise. A guest before 3.18.1 asks no GPU for it: its weights are plain on the host, and natively they are
# not. That its native run leave them plain, too, only Debian's llama.cpp can be told. So that one, with plain weights,
# judges which of these models' texts are `near`, by `tie_plain`: natively Debian's backends for one CPU and another are
# 0.11 apart with plain q4_k. Models of the first three have no quantised cache: with that, too, texts of two versions
# are not near.
# Except on lavapipe, where it would take more than a day, each guest also computes a model of each architecture that
# its version knows (archs.bash).
# On the CPU its ggml makes random operations (tests/ggml/ops.c), which its CPU and the host compute: as many
# as are supported must agree.
#
# The table is kept in build/ggml/DEVICE/table, and as docs/compatibility.md has it in matrix.md there.
# The last line is `ggml: N of M pairs pass`.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh
# shellcheck source=tests/options/rows.sh
. tests/options/rows.sh
# shellcheck source=tests/archs/lib.sh
. tests/archs/lib.sh
# shellcheck source=tests/ggml/archs.bash
. tests/ggml/archs.bash

# Layout, name of the version, where it is, and how many architectures it runs at the least.
versions=(
    "L0 3.6.0 node-x64-old 36"
    "L1 3.13.0 node-x64-3.13.0 60"
    "L2 3.18.1 node-x64-3.18.1 87"
    "L3 3.20.0 node-x64-3.20.0 114"
    "L3 3.21.1 node-x64-3.21.1 121"
    "L3 3.22.1 node-x64 126"
    "L4 debian debian 131"
)
# name, then gguf-write's options
shapes=(
    "llama-f32 --arch llama --heads 4 --heads-kv 4 --type f32"
    "llama-gqa-f16 --arch llama --heads 4 --heads-kv 2 --type f16"
    "llama-gqa-q8_0 --arch llama --heads 4 --heads-kv 2 --type q8_0"
    "llama-moe-f16 --arch llama --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type f16"
    "qwen2-f16 --arch qwen2 --heads 8 --heads-kv 2 --type f16"
    "qwen3-f16 --arch qwen3 --heads 4 --heads-kv 2 --type f16"
    "qwen3moe-f16 --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type f16"
    "llama-gqa-q4_0 --arch llama --heads 4 --heads-kv 2 --type q4_0"
    "llama-gqa-q4_k --arch llama --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 --type q4_k"
    "llama-gqa-q6_k --arch llama --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 --type q6_k"
    "qwen3moe-q4_0 --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type q4_0"
    "qwen3moe-q4_k --arch qwen3moe --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 --experts 8 --type q4_k"
)
settings=(off:f16:f16 on:f16:f16 off:q8_0:f16 on:q8_0:q8_0)
tokens=24 operations=6000

device=CPU
declare -A chosen=([guest]='' [host]='')
while [[ ${1-} == --* ]]; do
    case $1 in
    --device) device=${2-} ;;
    --guest) chosen[guest]=${2-} ;;
    --host) chosen[host]=${2-} ;;
    *) device='' ;;
    esac
    [[ $device =~ ^(CPU|lavapipe|gpu)$ && $# -ge 2 ]] || {
        echo "usage: run.sh [--device CPU|lavapipe|gpu] [--guest NAME] [--host NAME] [OUT]" >&2
        exit 2
    }
    shift 2
done
out=${1:-build/release-gcc}
suite=ggml models=build/models results=build/ggml/$device
tie=0.03 tie_plain=0.1
[[ $device == CPU ]] || tie=0.1
work=$(mktemp -d "${TMPDIR:-/tmp}/ggml.XXXXXX")
finish() {
    vtest_stop || :
    rm -rf "$work"
}
trap finish EXIT
mkdir -p "$models" "$results"
rm -rf "${results:?}"/*

# Since ggml has SET_ROWS llama.cpp's caches want it, and the oldest host has it not (frontend/ggml/needs.h).
declines() { # GUEST'S-LAYOUT HOST'S-LAYOUT
    [[ $2 == L0 && $1 != L0 ]]
}

# The package of a version that has a backend for the device, by the one that has the CPU's alone.
on_device() { # WHERE
    if [[ $1 == debian || $device == CPU ]]; then
        echo "$1"
    elif [[ $1 == node-x64 ]]; then
        echo node-x64-vulkan-3.22.1
    else
        local version=${1#node-x64-}
        echo "node-x64-vulkan-${version/old/3.6.0}"
    fi
}

# Whether a version is to be run as a guest, or as a host.
wanted() { # guest|host NAME
    [[ -z ${chosen[$1]} || ${chosen[$1]} == "$2" ]]
}

folder() { find "$PWD/build/npm/$1/bins" -mindepth 1 -maxdepth 1 -name 'linux-x64*'; } # WHERE

# A program of that version with one model; `vars` is its environment.
guest() { # WHERE MODEL ARGS...
    local program=("$out/tests/ggml/guest")
    [[ $1 == debian ]] || program=(node tests/hook/node_llama.cjs "$(folder "$1")")
    timeout 300 env "${vars[@]}" "${program[@]}" "$models/ggml-$2.gguf" "${@:3}"
}

# The same on the device itself.
native() { # WHERE MODEL ARGS...
    local vars
    # Of ggml-vulkan's buffers that begin as zeros, as APIR0's do, only Debian's can be told.
    if [[ $1 == debian ]]; then
        mapfile -t vars < <(archs_native_env "$device")
    else
        mapfile -t vars < <(archs_device_env "$device")
    fi
    guest "$(on_device "$1")" "${@:2}"
}

library() { find "$(folder "$1")" -name 'libggml.*so'; } # WHERE; its name may have a version of llama.cpp in it

host_config() { # WHERE
    local config='{"threads": 1}'
    [[ $device == CPU ]] || config='{"threads": 1, "devices": ["Vulkan0"]}'
    [[ $1 == debian ]] || config=$(jq -c --arg ggml "$(library "$1")" --arg dir "$(folder "$1")" \
        '. + {ggml: $ggml, ggml_backends_dir: $dir}' <<<"$config")
    echo "$config"
}

# Whether a version is too old for a model.
too_old() { # LAYOUT MODEL
    [[ $1 == L0 && $2 == qwen3* ]]
}

# Whether a CPU has a layout of its own for this model's weights.
repacked() { # MODEL
    [[ $1 == *-q[46]_* ]]
}

# Whether natively this CPU has plain weights only if told so.
natively_repacked() { # MODEL SETTING
    repacked "$1" || { [[ $1 =~ -(q8_0|f16)$ && $2 != *q8_0* ]] && grep -qw amx_int8 /proc/cpuinfo; }
}

# The settings that a version has and that tell something about this model.
able() { # NAME MODEL
    jq -r 'select(.made).setting' "$results/native-$1-$2" |
        if repacked "$2" || [[ $device != CPU && $2 == *moe* ]]; then grep -v q8_0; else cat; fi
}

made() { # FILE SETTING
    jq -r --arg setting "$2" 'select(.setting == $setting) | .made // [] | join(",")' "$1"
}

is_near() { # MODEL SETTING TEXT GUEST HOST
    local distance judge judges=("$4") how=--judge most=$tie
    if [[ $device != CPU ]]; then
        judges+=("$5")
    elif natively_repacked "$1" "$2"; then
        judges=(debian) how=--judge-plain most=$tie_plain
    fi
    for judge in "${judges[@]}"; do
        distance=$(native "$judge" "$1" "$how" "$2" "$3" 2>/dev/null) || return 1
        echo "$distance $1 $2 $judge" >>"$results/distances"
        ! awk -v d="$distance" -v most="$most" 'BEGIN { exit !(d >= 0 && d <= most) }' || return 0
    done
    return 1
}

# What the text is, of those that it may be. NATIVE and PAIR are what guests have printed.
text_is() { # MODEL SETTING HOST'S-NATIVE GUEST'S-NATIVE PAIR GUEST HOST
    local text
    text=$(made "$5" "$2")
    if [[ -z $text ]]; then
        echo none
    elif [[ $text == "$(made "$3" "$2")" ]]; then
        echo host
    elif [[ $text == "$(made "$4" "$2")" ]]; then
        echo guest
    elif is_near "$1" "$2" "$text" "$6" "$7"; then
        echo near
    else
        echo wrong
    fi
}

# Random operations with the guest's ggml; kernels that end the process natively are passed over. Leaves
# what there is to say in FILE.
operate() { # WHERE FILE
    local where=$1 seed=1 rc next place=() env=(GGML_NO_BACKTRACE=1 PATH=/nowhere "${vars[@]}")
    if [[ $where != debian ]]; then
        rm -rf "${work:?}/lib"
        mkdir "$work/lib"
        ln -s "$(folder "$where")"/*.so "$work/lib/"
        ln -s "$(folder "$where")/libggml-base.so" "$work/lib/libggml-base.so.0"
        ln -s "$(library "$where")" "$work/lib/libggml.so.0"
        env+=("LD_LIBRARY_PATH=$work/lib") place=("$(folder "$where")")
    fi
    : >"$2"
    while [[ $seed -le $operations ]]; do
        rc=0
        timeout 120 env "${env[@]}" "$out/tests/ggml/ops" --seed "$seed" --cases $((operations + 1 - seed)) \
            ${place[@]+"${place[@]}"} >"$work/said" 2>/dev/null || rc=$?
        cat "$work/said" >>"$2"
        next=$(sed -n 's/.*--seed \([0-9]*\) goes on$/\1/p' "$work/said")
        case $rc in
        0 | 1) break ;;
        3 | 4) [[ -n $next ]] || break ;;
        *) echo "FAILED: it ended with $rc" >>"$2" && break ;;
        esac
        seed=$next
    done
}

pair() { # GUEST HOST: each a line of `versions`
    local g h shape model setting is file detail computed ok=yes cell graphs=0 texts=0 runs=0 bad=() own=0 made=() arches=0
    local -A count=([host]=0 [guest]=0 [near]=0)
    read -r -a g <<<"$1"
    read -r -a h <<<"$2"
    for shape in "${shapes[@]}"; do
        model=${shape%% *}
        ! too_old "${g[0]}" "$model" || continue
        file=$results/${g[1]}-on-${h[1]}-$model
        mapfile -t made < <(able "${g[1]}" "$model")
        runs=$((runs + 1))
        : >"$VTEST_LOG"
        guest "${g[2]}" "$model" "${made[@]}" >"$file" 2>"$file.err" || bad+=("$model ended with $?")
        graphs=$((graphs + $(vtest_graphs)))
        cat "$VTEST_LOG" >>"$file.err"
        if jq -es 'any(.devices == [])' "$file" >/dev/null; then
            own=$((own + 1))
            [[ $(grep -c '^apir: .*going on without the host' "$file.err") -eq 1 ]] || bad+=("$model: not one line that says why")
        fi
        texts=$((texts + ${#made[@]}))
        # Its own CPU is no matter of the device's.
        [[ $device == CPU ]] || ! declines "${g[0]}" "${h[0]}" || continue
        for setting in "${made[@]}"; do
            is=$(text_is "$model" "$setting" "$results/native-${h[1]}-$model" "$results/native-${g[1]}-$model" "$file" \
                "${g[2]}" "${h[2]}")
            if [[ -v count[$is] ]]; then
                count[$is]=$((count[$is] + 1))
            else
                bad+=("$model $setting: $is")
            fi
        done
    done
    detail="${g[0]} on ${h[0]}: $runs models, $texts texts: ${count[host]} host, ${count[guest]} guest, ${count[near]} near; $graphs graphs"
    if declines "${g[0]}" "${h[0]}"; then
        detail="${g[0]} on ${h[0]}: $texts texts on the guest's own CPU"
        [[ $own -eq $runs && $graphs -eq 0 ]] || bad+=("it was to decline this host")
        [[ ${count[near]} -eq 0 ]] || bad+=("not its own texts")
        declined=$((declined + 1))
    else
        if [[ $device != lavapipe ]]; then
            arches_pair "${g[1]}" "${g[2]}" "${h[1]}" "${g[3]}"
            detail+=", $arches architectures"
        fi
        if [[ $device == CPU ]]; then
            file=$results/${g[1]}-on-${h[1]}-operations
            operate "${g[2]}" "$file"
            mapfile -t -O ${#bad[@]} bad < <(grep -E '^(DIFFERS|LOST|FAILED)' "$file")
            computed=$(awk '$1 == "ops:" { n += $2 } END { print n + 0 }' "$file")
            detail+=", $computed operations"
            [[ $computed -gt 0 ]] || bad+=("no operation was computed")
        fi
        [[ $own -eq 0 ]] || bad+=("computed on its own CPU $own times")
        [[ $graphs -ge $((tokens * texts)) ]] || bad+=("only $graphs graphs of $((tokens * texts)) came to the host")
    fi
    [[ ${#bad[@]} -eq 0 && $texts -gt 0 ]] || ok=no
    [[ $ok == yes ]] || detail+=$(printf '\n%s' "${bad[@]}")
    verdict "$ok" "${g[1]} on ${h[1]}" "$detail" | tee -a "$results/table"
    [[ $ok == yes ]] && passed=$((passed + 1)) || failed=$((failed + 1))
    cell=$texts
    [[ $arches -eq 0 ]] || cell+=", $arches"
    ! declines "${g[0]}" "${h[0]}" || cell='own CPU'
    [[ $ok == yes ]] || cell=wrong
    cells[${g[1]} on ${h[1]}]=$cell
}

# For docs/compatibility.md: a line for each guest, a column for each host, in each cell how many texts, and how
# many architectures.
matrix() {
    local host guest
    printf '| guest \\ host |'
    for host in "${versions[@]}"; do
        read -r layout name _ <<<"$host"
        printf ' %s (%s) |' "$name" "$layout"
    done
    printf '\n|---|'
    printf -- '---|%.0s' "${versions[@]}"
    echo
    for guest in "${versions[@]}"; do
        read -r layout name _ <<<"$guest"
        printf '| %s (%s) |' "$name" "$layout"
        for host in "${versions[@]}"; do
            read -r _ host _ <<<"$host"
            printf ' %s |' "${cells[$name on $host]-not run}"
        done
        echo
    done
}

for shape in "${shapes[@]}"; do
    read -r -a args <<<"$shape"
    write_file "$models/ggml-${args[0]}.gguf" "$out/tests/models/gguf-write" "${args[@]:1}"
done
[[ $device == lavapipe ]] || arches_write
for version in "${versions[@]}"; do
    read -r layout name where _ <<<"$version"
    for package in "$where" "$(on_device "$where")"; do
        [[ $package == debian || -d build/npm/$package ]] ||
            { echo "ggml: no build/npm/$package here, and it could not be fetched: tests/hook/npm.sh" >&2; exit 1; }
    done
    wanted guest "$name" || wanted host "$name" || continue
    for shape in "${shapes[@]}"; do
        model=${shape%% *}
        : >"$results/native-$name-$model"
        ! too_old "$layout" "$model" || continue
        native "$where" "$model" "${settings[@]}" >"$results/native-$name-$model" 2>"$work/err" &&
            [[ -n $(able "$name" "$model") ]] ||
            { cat "$work/err" >&2; echo "ggml: $name does not run natively" >&2; exit 1; }
    done
    [[ $device == lavapipe ]] || ! wanted guest "$name" || arches_native "$name" "$where"
done

declined=0
declare -A cells=()
for host in "${versions[@]}"; do
    read -r layout name where _ <<<"$host"
    wanted host "$name" || continue
    # Both are read by unix_start.
    # shellcheck disable=SC2034
    VTEST_CONFIG=$(host_config "$(on_device "$where")")
    mapfile -t VTEST_ENV < <(archs_device_env "$device" && echo APIR_LOG=info)
    unix_start "$out"
    trap finish EXIT
    mapfile -t vars < <(vtest_env "$out" && echo APIR_LOG=info)
    for guest in "${versions[@]}"; do
        read -r _ name _ <<<"$guest"
        wanted guest "$name" || continue
        pair "$guest" "$host"
    done
    vtest_alive || { echo "ggml: the server on $layout has ended" >&2; exit 1; }
    vtest_stop
done
matrix >"$results/matrix.md"
[[ $declined -eq 0 ]] || echo "ggml: $declined of them on the guest's own CPU, since the host lacks an operation"
echo "ggml: $passed of $((passed + failed)) pairs pass"
[[ $failed -eq 0 && $passed -gt 0 ]]
