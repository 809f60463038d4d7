#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--go-on] [--device CPU|lavapipe|gpu] [--guest NAME] [--host NAME] [OUT]
#
# Guests whose ggml is of each layout on hosts whose ggml is of each layout (protocol/ggml_probe.c), over
# the unix transport, in the worker's sandbox, on the host's CPU or through its Vulkan backend on lavapipe or its
# first GPU: node-llama-cpp's packages from npm, each with its own llama.cpp and ggml, and Debian's. On a host
# the configuration's `ggml` and `ggml_backends_dir` name the files of such a package. Every guest generates a
# text greedily with each model and setting: flash attention off and on, a cache of f16 and of q8_0 (where the
# program lets one choose); texts.bash says what it must be.
# Each guest also computes a model of each architecture that its version knows (archs.bash).
# On the CPU its ggml makes random operations (tests/native/ggml/ops.c), which its CPU and the host compute: as many
# as are supported must agree.
#
# The table is kept in build/ggml/DEVICE/table, and as docs/compatibility.md has it in matrix.md there. With
# --go-on what an earlier run there has found stays: native runs, and pairs that passed.
# The last line is `ggml: N of M pairs pass`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh
# shellcheck source=tests/native/options/rows.sh
. tests/native/options/rows.sh
# shellcheck source=tests/native/archs/lib.sh
. tests/native/archs/lib.sh
# shellcheck source=tests/native/ggml/programs.bash
. tests/native/ggml/programs.bash
# shellcheck source=tests/native/ggml/texts.bash
. tests/native/ggml/texts.bash
# shellcheck source=tests/native/ggml/archs.bash
. tests/native/ggml/archs.bash

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
operations=6000 device=CPU going_on=''
declare -A chosen=([guest]='' [host]='')
while [[ ${1-} == --* ]]; do
    case $1 in
    --go-on) going_on=yes && shift && continue ;;
    --device) device=${2-} ;;
    --guest) chosen[guest]=${2-} ;;
    --host) chosen[host]=${2-} ;;
    *) device='' ;;
    esac
    [[ $device =~ ^(CPU|lavapipe|gpu)$ && $# -ge 2 ]] || {
        echo "usage: run.sh [--go-on] [--device CPU|lavapipe|gpu] [--guest NAME] [--host NAME] [OUT]" >&2
        exit 2
    }
    shift 2
done
out=${1:-build/release-gcc}
suite=ggml models=build/models results=build/ggml/$device
work=$(mktemp -d "${TMPDIR:-/tmp}/ggml.XXXXXX")
finish() {
    vtest_stop || :
    rm -rf "$work"
}
trap finish EXIT
mkdir -p "$models" "$results"
[[ $going_on ]] || rm -rf "${results:?}"/*

# Since ggml has SET_ROWS llama.cpp's caches want it, and the oldest host has it not (frontend/ggml/entry.c).
declines() { # GUEST'S-LAYOUT HOST'S-LAYOUT
    [[ $2 == L0 && $1 != L0 ]]
}

# Whether a version is to be run as a guest, or as a host.
wanted() { # guest|host NAME
    [[ -z ${chosen[$1]} || ${chosen[$1]} == "$2" ]]
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
        timeout 120 env "${env[@]}" "$out/tests/native/ggml/ops" --seed "$seed" --cases $((operations + 1 - seed)) \
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

# How many graphs the host's workers have computed of those programs that have left.
graphs_of() { sed -nE 's/.* GRAPH_EXEC +([0-9]+) times.*/\1/p' "$1" | awk '{ n += $1 } END { print n + 0 }'; }
lines_of() { grep -c "$2" "$1" || :; } # FILE PATTERN

pair() { # GUEST HOST: each a line of `versions`
    local g h file detail graphs computed wanted declining='' ok=yes texts=0 arches=0 own bad=() cell
    local -A counts=([host]=0 [guest]=0 [near]=0)
    read -r -a g <<<"$1"
    read -r -a h <<<"$2"
    file=$results/${g[1]}-on-${h[1]}
    ! declines "${g[0]}" "${h[0]}" || declining=yes
    : >"$VTEST_LOG"
    texts_pair "${g[0]}" "${g[1]}" "${g[2]}" "${h[1]}" "${h[2]}"
    [[ $texts -gt 0 ]] || bad+=("no texts")
    if [[ $declining ]]; then
        detail="${g[0]} on ${h[0]}: $texts texts on the guest's own CPU"
        [[ ${counts[near]} -eq 0 ]] || bad+=("not its own texts")
        [[ $(graphs_of "$VTEST_LOG") -eq 0 ]] || bad+=("it was to decline this host")
        [[ $(lines_of "$file-texts.err" '^apir: .*going on without the host') -eq $(lines_of "$file-texts.err" '^guest: ') ]] ||
            bad+=("not one line that says why")
        declined=$((declined + 1))
        cell='own CPU'
    else
        arches_pair "${g[1]}" "${g[2]}" "${h[1]}" "${g[3]}"
        graphs=$(graphs_of "$VTEST_LOG")
        detail="${g[0]} on ${h[0]}: $texts texts: ${counts[host]} host, ${counts[guest]} guest, ${counts[near]} near"
        detail+=", $arches architectures; $graphs graphs"
        cell="$texts, $arches"
        own=$(($(lines_of "$file-texts" '"devices":\[\]') + $(lines_of "$file-archs" '"devices":\[\]')))
        [[ $own -eq 0 ]] || bad+=("computed on its own CPU $own times")
        # A prompt and what follows it, each time; a prompt and some tokens.
        wanted=$((text_tokens * $(lines_of "$file-texts" '"made"') + 5 * $(lines_of "$file-archs" '"logs"')))
        [[ $graphs -ge $wanted ]] || bad+=("only $graphs graphs of $wanted came to the host")
        if [[ $device == CPU ]]; then
            operate "${g[2]}" "$file-operations"
            mapfile -t -O ${#bad[@]} bad < <(grep -E '^(DIFFERS|LOST|FAILED)' "$file-operations")
            computed=$(awk '$1 == "ops:" { n += $2 } END { print n + 0 }' "$file-operations")
            detail+=", $computed operations"
            [[ $computed -gt 0 ]] || bad+=("no operation was computed")
        fi
    fi
    cat "$VTEST_LOG" >>"$file-texts.err"
    if [[ ${#bad[@]} -gt 0 ]]; then
        ok=no cell=wrong
        detail+=$(printf '\n%s' "${bad[@]}")
    fi
    verdict "$ok" "${g[1]} on ${h[1]}" "$detail" | tee -a "$results/table"
    [[ $ok == yes ]] && passed=$((passed + 1)) || failed=$((failed + 1))
    cells["${g[1]} on ${h[1]}"]=$cell
    echo "$ok,${g[1]} on ${h[1]},$cell" >>"$results/cells"
}

# What earlier runs have found, if it is still to hold.
earlier() {
    local ok pair cell
    touch "$results"/{cells,table}
    grep '^yes,' "$results/cells" >"$work/cells" || :
    grep '^PASS' "$results/table" >"$work/table" || :
    cp "$work"/{cells,table} "$results/"
    while IFS=, read -r ok pair cell; do
        cells[$pair]=$cell
        passed=$((passed + 1))
        [[ $cell != 'own CPU' ]] || declined=$((declined + 1))
    done <"$results/cells"
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

texts_write
arches_write
for version in "${versions[@]}"; do
    read -r layout name where _ <<<"$version"
    for package in "$where" "$(on_device "$where")"; do
        [[ $package == debian || -d build/npm/$package ]] ||
            { echo "ggml: no build/npm/$package here, and it could not be fetched: tests/system/hook/npm.sh" >&2; exit 1; }
    done
    wanted guest "$name" || wanted host "$name" || continue
    texts_native "$layout" "$name" "$where" || exit 1
    ! wanted guest "$name" || arches_native "$name" "$where"
done

declined=0
declare -A cells=()
earlier
for host in "${versions[@]}"; do
    read -r layout on where _ <<<"$host"
    wanted host "$on" || continue
    # Both are read by unix_start.
    # shellcheck disable=SC2034
    VTEST_CONFIG=$(host_config "$(on_device "$where")")
    mapfile -t VTEST_ENV < <(archs_device_env "$device" && echo APIR_LOG=info)
    unix_start "$out"
    trap finish EXIT
    mapfile -t vars < <(vtest_env "$out" && echo APIR_LOG=info)
    for guest in "${versions[@]}"; do
        read -r _ name _ <<<"$guest"
        both="$name on $on"
        wanted guest "$name" && [[ ! -v cells[$both] ]] || continue
        pair "$guest" "$host"
    done
    vtest_alive || { echo "ggml: the server on $layout has ended" >&2; exit 1; }
    vtest_stop
done
matrix >"$results/matrix.md"
[[ $declined -eq 0 ]] || echo "ggml: $declined of them on the guest's own CPU, since the host lacks an operation"
echo "ggml: $passed of $((passed + failed)) pairs pass"
[[ $failed -eq 0 && $passed -gt 0 ]]
