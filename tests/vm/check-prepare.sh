# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# To be sourced in the build root by what runs llama.cpp in the VM, before the
# boot. MAKE and OUT (the build's output directory) may be set.
#
#   prepare_models DIR          DIR/first.gguf and DIR/second.gguf, two small models
#   prepare_native MODEL N      prints the text of the same greedy run without us
#   prepare_install DESTDIR     what a distribution's guest package would install, in VM_ARCH's programs
#   prepare_config FILE [KEY]...  the host worker's configuration
#   prepare_machine FOLDER      all that tests/vm/engines/setup.sh finds in the VM: FOLDER/share, to be
#                               shared, FOLDER/archives, a disk, and FOLDER/backend.json, the host's
#
# PREPARE_PROMPT is the prompt of all greedy runs; PREPARE_GREEDY the options
# that native and remoted runs share.

OUT=${OUT:-build/release-gcc}

# Batches of 16, since ggml-blas takes over from 32 rows on and rounds otherwise.
PREPARE_PROMPT='Hello, world'
PREPARE_GREEDY='-c 512 -b 16 -ub 16 -t 1 -tb 1 --temp 0 --seed 1 -no-cnv --no-warmup --no-display-prompt --simple-io'

prepare_model() { # FILE ARGS...
    local file=$1
    shift
    if [[ ! -e $file || $OUT/tests/lib/models/gguf-write -nt $file ]]; then
        "$OUT/tests/lib/models/gguf-write" "$@" --output "$file"
    fi
}

# Different in shape, type and weights: one's words cannot pass for the other's.
prepare_models() {
    mkdir -p "$1"
    prepare_model "$1/first.gguf" --preset 3M --type q4_0 --seed 1
    prepare_model "$1/second.gguf" --arch qwen3 --heads 4 --heads-kv 2 --type q8_0 --seed 2
}

# What the worker computes: the CPU backend, with llama.cpp's defaults.
# llama-completion does not wait for its printing thread: on a busy machine the
# end of the text is lost. Its last words tell whether all was printed.
# With VM_ACCEL=nested by the code that ggml has for the outer VM's CPU: that for this one rounds otherwise.
prepare_native() {
    local log as=()
    # shellcheck disable=SC2016 # expanded by the inner shell
    [[ ${VM_ACCEL-} != nested ]] || as=(unshare --mount bash -c 'for file in /usr/lib/*/ggml/backends0/libggml-cpu-*.so; do
        [[ $file == *-haswell.so ]] || mount --bind /dev/null "$file"; done; exec "$@"' bash)
    log=$(mktemp)
    for _ in {1..50}; do
        # shellcheck disable=SC2086 # words on purpose
        "${as[@]}" env -u GGML_BACKEND_PATH GGML_VK_VISIBLE_DEVICES= timeout 600 \
            llama-completion -m "$1" -dev none $PREPARE_GREEDY \
            -n "$2" -p "$PREPARE_PROMPT" >"$log.text" 2>"$log" </dev/null
        ! grep -q 'common_perf_print: .*total time' "$log" || break
    done
    grep -q 'common_perf_print: .*total time' "$log" && cat "$log.text"
    local rc=$?
    rm -f "$log" "$log.text"
    return "$rc"
}

prepare_install() {
    rm -rf "$1"
    ${MAKE:-make} --no-print-directory -s install-frontend install-hook install-cdi \
        ARCH="${VM_ARCH:-$(uname -m)}" DESTDIR="$1" prefix=/usr >/dev/null
}

# One thread: threads of the worker that spin, on the cores that emulate the
# guest's, make all of it a hundred times slower. The CPU, because the native run
# it is compared with is one.
prepare_config() {
    local file=$1
    shift
    printf '{"threads": 1, "devices": ["CPU"]%s}\n' "${*:+, $*}" >"$file"
}

prepare_machine() {
    prepare_models build/models/vm || return 1
    prepare_install "$PWD/$1/share/root" || return 1
    ${MAKE:-make} --no-print-directory -s install-backend DESTDIR="$PWD/$1/share/host-root" prefix=/usr \
        >/dev/null || return 1
    prepare_config "$1/backend.json"
    cp "$1/backend.json" "$1/share/host.json"
    mkdir -p "$1/archives"
    ln build/images/archives/llama.tar "$1/archives/"
}
