# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# Where images have llama.cpp. Debian's own places are in tests/vm/engines and tests/vm.

row control - 'no --device: the same checks refuse what the CPU computes'
row_control() {
    serves app
    ask first "$URL"
    podman logs row >"$work/log" 2>&1
    ! (all_on_apir "$work/log" 1) || die 'a result of the CPU has passed'
    ! computed || die 'the host has computed'
}

row app - "llama.cpp's own image: programs and libraries in /app, its entry point"
row_app() {
    served app
    hook_says 'placed as /app/libggml-'
}

row fedora - "ramalama's image: libraries in /usr/lib64, modules in /usr/bin, ggml-vulkan and Mesa; ramalama's options"
row_fedora() {
    served fedora --security-opt=label=disable --cap-drop=all --security-opt=no-new-privileges --env HOME=/tmp --init
    hook_says 'placed as /usr/bin/libggml-'
}

row localai - "LocalAI's backend: a folder with all libraries, the loader is the program"
row_localai() {
    served localai
    hook_says 'placed as /var/lib/local-ai/backends/llama-cpp/lib/libggml-'
}

row python - 'a wheel in a venv: libraries in site-packages/llama_cpp/lib, the interpreter is the program'
row_python() {
    did python
    jq -e '.devices | map(select(startswith("APIR"))) | length == 1' "$work/out" >/dev/null ||
        die "its devices: $(<"$work/out")"
    [[ $(jq -c .tokens "$work/out") == "$(jq -c .tokens "$NATIVE/python")" ]] || die 'other tokens than natively'
    all_on_apir "$work/log" 1
}
