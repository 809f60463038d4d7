# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A version's programs, remoted and natively; a part of run.sh, which sources it. WHERE is a folder of
# build/npm, or `debian`.
#
#   on_device WHERE         the package of that version that has a backend for the device, by the one that has the CPU's
#   folder WHERE            where its libraries are
#   library WHERE           its libggml
#   host_config WHERE       the configuration of a host with that version
#   run_guest WHERE ARGS... the program of that version that computes (tests/native/ggml/guest.c); `vars` is its environment
#   natively COMMAND WHERE ARGS...   runs the COMMAND with that version on the device itself
#   guests_say FILE --texts|--logs SETTINGS COMMAND ARGS...   what those programs say of the models whose names come
#                           from stdin, in FILE, a line for each model and setting; COMMAND takes a program's arguments.
#                           FILE.err is what they and the host have said besides, and a line for each program. A FILE
#                           that is there already stays as it is

# shellcheck disable=SC2154 # device, out, models and vars are run.sh's
on_device() {
    if [[ $1 == debian || $device == CPU ]]; then
        echo "$1"
    elif [[ $1 == node-x64 ]]; then
        echo node-x64-vulkan-3.22.1
    else
        local version=${1#node-x64-}
        echo "node-x64-vulkan-${version/old/3.6.0}"
    fi
}
folder() { find "$PWD/build/npm/$1/bins" -mindepth 1 -maxdepth 1 -name 'linux-x64*'; }
library() { find "$(folder "$1")" -name 'libggml.*so'; } # its name may have a version of llama.cpp in it

host_config() {
    local config='{"threads": 1}'
    [[ $device == CPU ]] || config='{"threads": 1, "devices": ["Vulkan0"]}'
    [[ $1 == debian ]] || config=$(jq -c --arg ggml "$(library "$1")" --arg dir "$(folder "$1")" \
        '. + {ggml: $ggml, ggml_backends_dir: $dir}' <<<"$config")
    echo "$config"
}

run_guest() {
    local program=("$out/tests/native/ggml/guest")
    [[ $1 == debian ]] || program=(node tests/system/hook/node_llama.cjs "$(folder "$1")")
    # One that hangs is gone on without: on two cores all models take less than half of this.
    timeout 900 env "${vars[@]}" "${program[@]}" "${@:2}"
}
natively() {
    local vars
    # Of ggml-vulkan's buffers that begin as zeros, as APIR0's do, only Debian's can be told.
    if [[ $2 == debian ]]; then
        mapfile -t vars < <(archs_native_env "$device")
    else
        mapfile -t vars < <(archs_device_env "$device")
    fi
    "$1" "$(on_device "$2")" "${@:3}"
}

# As many programs at a time as there are processors, each with its part of the models: kernels are compiled once a
# process.
guests_say() {
    local file=$1 job pids=() list=()
    mapfile -t list
    # There from an earlier run.
    [[ ! -e $file ]] || return 0
    for ((job = 0; job < archs_jobs; job++)); do
        printf '%s\n' "${list[@]}" | awk -v jobs="$archs_jobs" -v job="$job" 'NR % jobs == job' |
            guest_says "$file.$job" "${@:2}" &
        pids+=($!)
    done
    wait "${pids[@]}" || :
    cat "$file".*.err >"$file.err"
    cat "$file".*.lines | jq -c --arg from "$models/ggml-" '.model |= (ltrimstr($from) | rtrimstr(".gguf"))' >"$file.new"
    rm -f "$file".[0-9]*
    mv "$file.new" "$file"
}
# One that ends at a model goes on after it: a version may lack an architecture, and what it has said counts.
guest_says() {
    local file=$1 how=$2 settings=$3 left=() begun
    mapfile -t left
    : >"$file.lines"
    while [[ ${#left[@]} -gt 0 ]]; do
        echo "guest: with ${#left[@]} models" >>"$file.err"
        left=("${left[@]/#/$models/ggml-}")
        "${@:4}" "$how" "$settings" "${left[@]/%/.gguf}" >"$file.said" 2>>"$file.err" || :
        left=("${left[@]#"$models/ggml-"}")
        # The last line may have been cut off.
        grep '}$' "$file.said" >>"$file.lines" || break
        begun=$(grep -c '"begins"' "$file.said")
        left=("${left[@]:begun}")
    done
}
