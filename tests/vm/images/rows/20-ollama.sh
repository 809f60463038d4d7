# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# Ollama's layout and the ways in which its program starts llama-server (launcher.sh).

# discovers OPTION...: $work/out has a line "FOLDER: LINE" for each that it reads.
discovers() {
    run_podman "$@" localhost/ollama discover >"$work/out" 2>"$work/err" || die "it ended with $?"
    cat "$work/err" "$work/out"
}
# What its program takes for devices: FOLDER NAME DESCRIPTION MiB, by the same expression.
devices() {
    sed -nE 's|^/usr/lib/ollama/([^:]*): +([^:]+): +(.+) +\(([0-9]+) MiB, +[0-9]+ MiB free\)$|\1 \2 \3 \4|p' "$work/out"
}

row ollama-discovery - 'a list of devices for each folder, GGML_BACKEND_PATH overridden: APIR0 in each, and nothing else'
row_ollama_discovery() {
    discovers "${DEVICE[@]}"
    hook_says 'placed as /usr/lib/ollama/libggml-'
    devices | tee "$work/devices"
    [[ $(cut -d ' ' -f 1,2 "$work/devices" | paste -sd ';') == 'cuda_v13 APIR0;vulkan APIR0' ]] ||
        die 'not APIR0 once in each folder'
    # Its program takes equal ones of the same number for one; what it takes for a library is the description,
    # if no library's name is in it. One without memory is passed over.
    [[ $(cut -d ' ' -f 2- "$work/devices" | sort -u | wc -l) -eq 1 ]] || die 'two devices to it'
    ! grep -Eiq 'cuda|rocm|hip|metal|apple' <(cut -d ' ' -f 2- "$work/devices") || die 'a name of another library'
    ! grep -q ' 0$' "$work/devices" || die 'without memory'
}

row ollama-no-hook - 'without the hook nothing is found: the launcher does override the variable'
row_ollama_no_hook() {
    at_end 'rm -f /etc/cdi/bare.json'
    apir cdi generate --no-hook --class bare --output /etc/cdi/bare.json
    discovers --device virtgpu/bare=gpu0
    ! devices | grep APIR || die 'APIR0 without the hook'
}

row ollama-killed - 'a server that is killed at its first word: the next one computes'
row_ollama_killed() {
    [[ $(run_podman "${DEVICE[@]}" localhost/ollama kill | tee /dev/stderr) == 'killed: 137' ]] || die 'not killed'
    served ollama-vulkan
}

row ollama-vulkan - 'the server with the vulkan folder: all layers on APIR0'
row_ollama_vulkan() { served ollama-vulkan; }

row ollama-cuda - 'the server with the folder of a library that cannot be loaded: all layers on APIR0'
row_ollama_cuda() { served ollama-cuda; }
