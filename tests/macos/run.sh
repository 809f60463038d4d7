#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh --part | SUITES OUT: what can be known of the host's part on macOS without a Mac (docs/macos.md).
#
#   links     apir-render-server and apir-worker of both architectures, by zig's cross compiler
#   exports   each function of ggml that the worker looks up is in a ggml that has Metal
#   units     what is in posix/ runs here: units of a server and a worker without epoll, signalfd, eventfd,
#             memfd and SOCK_SEQPACKET, on a kqueue that is ours (kqueue.c) and with Linux' futex; all but
#             those of not-run
#   suites    such a server and worker in SUITES (suites.sh), with the Linux build OUT. virglrenderer takes only memory
#             that can be sealed (sealed.c)
#
# The compiler and that ggml are npm's (tests/system/hook/npm.sh), json-c is Debian's source. --part: links of one
# architecture, with the names of json-c's functions in place of json-c, and exports; what npm does not give is skipped,
# which in CI is a failure. The last line is `macos: N passed, N failed`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=build/macos zig=$PWD/build/npm/zig-x64/zig metal=build/npm/mac-arm64/bins/mac-arm64-metal
target=macos.14.4 # the first with os_sync_wait_on_address()
export ZIG_GLOBAL_CACHE_DIR=$PWD/$work/cache ZIG_LOCAL_CACHE_DIR=$PWD/$work/cache
mkdir -p "$work"

passed=0 failed=0
try() { # WHAT COMMAND...: its output is shown where it fails
    local log=$work/try.log what=$1
    shift
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "ok - $what"
    else
        failed=$((failed + 1))
        echo "not ok - $what"
        tail -n 40 "$log" | sed 's/^/    | /'
    fi
}

skip() { # WHAT REASON
    echo "skipped  $1: $2"
    [[ -z ${CI-} ]] || failed=$((failed + 1))
}

program() { # FILE TEXT: makes the script FILE of that text
    [[ -x $1 && $(<"$1") == "$2" ]] && return
    echo "$2" >"$1"
    chmod +x "$1"
}

# ---- links -----------------------------------------------------------------------------

# A folder of pkg-config's with json-c for ARCH. The build goes by the compiler's name, and so by the architecture.
json_c_of() { echo "$work/json-c-$1/lib/pkgconfig"; }
cc_of() { echo "$PWD/$work/cc-$1"; }
out_of() { echo "build/release-macos-cc-$1/backend"; }

prepare() {
    [[ -x $zig ]] || { echo "no compiler: tests/system/hook/npm.sh zig-x64 fetches it" && return 1; }
    local arch
    for arch in aarch64 x86_64; do
        program "$(cc_of $arch)" "#!/bin/sh
exec $zig cc -target $arch-$target \"\$@\""
    done
    program "$work/ar" "#!/bin/sh
exec $zig ar \"\$@\""
    # Headers that belong to no system.
    mkdir -p "$work/include"
    ln -sfn /usr/include/vulkan /usr/include/vk_video "$work/include"
}

json_c() { # ARCH
    [[ -e $work/json-c-$1/lib/libjson-c.a ]] || tests/macos/json-c.sh "$(cc_of "$1")" "$work/json-c-$1"
}

# What a linker has to know of a library: the names that it exports, here Debian's of this machine. And the headers.
json_c_names() {
    local stub=$PWD/$work/json-c-names
    mkdir -p "$stub/include"
    ln -sfn /usr/include/json-c "$stub/include/"
    nm -D --defined-only --without-symbol-versions "/usr/lib/$(uname -m)-linux-gnu/libjson-c.so.5" |
        awk '$2 != "A" { names = names sep "_" $3; sep = ", " }
            END { print "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: libjson-c.dylib\nexports:\n" \
                "  - targets: [ arm64-macos ]\n    symbols: [ " names " ]\n..." }' >"$stub/libjson-c.tbd"
    printf '%s\n' 'Name: json-c' 'Description: names' 'Version: 0' "Cflags: -I$stub/include" "Libs: -L$stub -ljson-c" \
        >"$stub/json-c.pc"
    grep -q _json_object_get "$stub/libjson-c.tbd"
}

link() { # ARCH, always, as what is linked with may be another
    local folder out
    folder=$(json_c_of "$1") out=$(out_of "$1")
    rm -f "$out/apir-render-server" "$out/apir-worker"
    "${MAKE:-make}" --no-print-directory -j"$(nproc)" SYSTEM=macos MODE=release CC="$(cc_of "$1")" CFLAGS="-isystem $work/include" \
        PKG_CONFIG="PKG_CONFIG_LIBDIR=$folder pkg-config" "$out/apir-render-server" "$out/apir-worker"
}

is_for() { # ARCH PROGRAM
    file --brief "$(out_of "$1")/$2" | grep "^Mach-O 64-bit ${1/aarch64/arm64} executable"
}

links() { # JSON-C ARCH...
    local arch program json=$1
    shift
    try "a compiler for macOS" prepare
    for arch; do
        try "$arch: json-c" "$json" "$arch"
        try "$arch: server and worker compile and link" link "$arch"
        for program in apir-render-server apir-worker; do
            try "$arch: $program is a program of macOS" is_for "$arch" $program
        done
    done
}

# ---- exports ---------------------------------------------------------------------------

# Every name of a function of ggml that the worker has in it: those that it looks up are among them.
names() { strings -a "$(out_of aarch64)/apir-worker" | grep -xE '(ggml|gguf)_[a-z0-9_]+' | sort -u; }
exports() {
    llvm-nm --defined-only --extern-only -j "$metal"/libggml{-base,.*}.dylib "$metal/libggml-metal.so" |
        sed -n 's/^_//p' | sort -u
}
known() { sed 's/#.*//' tests/macos/not-exported | awk 'NF { print $1 }' | sort -u; }

# What is missing and not known to be, and the other way round.
missing() { comm -23 <(names) <(exports) | comm -3 - <(known); }
all_there() { [[ $(names | wc -l) -gt 80 && -z $(missing) ]] || { missing && return 1; }; }
# That a name which nobody exports would be seen.
is_seen() { (names() { echo ggml_no_such_function; } && missing | grep -x ggml_no_such_function); }

# ---- units -----------------------------------------------------------------------------

posix=build/release-posix-gcc
backend=$posix/backend

# PROGRAM or PROGRAM TEST, a line each.
not_run() { sed 's/#.*//' tests/macos/not-run | awk 'NF { print $1, $2 }'; }
programs() {
    local source name
    for source in tests/unit/{backend,common,protocol}/*_test.c tests/process/{server,worker}_*_test.c; do
        name=$(basename "$source" .c)
        not_run | grep -qx "$name " || echo "$posix/${source%.c}"
    done
}

# All that is named is there.
not_run_is_known() {
    local program test source
    while read -r program test; do
        source=$(find tests/unit tests/process -name "$program.c")
        [[ -n $source ]] && grep -qE "^[A-Z_]*TEST[A-Z_]*\(${test:-[a-z]}" "$source" && continue
        echo "no $program $test"
        return 1
    done < <(not_run)
}

posix_make() { # LDFLAGS GOAL...
    "${MAKE:-make}" --no-print-directory -j"$(nproc)" SYSTEM=posix MODE=release CC=gcc CFLAGS='-isystem tests/macos/include' \
        LDFLAGS="$work/kqueue.o $work/unfiltered.o -Wl,--wrap=close,--wrap=worker_sandbox_filter $1" "${@:2}"
}

posix_build() {
    local part
    for part in kqueue unfiltered sealed; do
        gcc -std=gnu17 -O1 -g -Wall -Wextra -Wconversion -Werror -isystem tests/macos/include -c -o "$work/$part.o" \
            "tests/macos/$part.c" || return 1
    done
    # shellcheck disable=SC2046 # one word each
    posix_make '' "$backend/apir-worker" $(programs)
}

# Server and worker that virglrenderer of Linux takes memory from. The next posix_build links the server anew.
sealed_build() {
    local server=$backend/apir-render-server
    rm -rf "$work/sealed" "$server"
    mkdir "$work/sealed"
    posix_make "$work/sealed.o -Wl,--wrap=server_unnamed_create" "$server" || return 1
    mv "$server" "$work/sealed/"
    cp "$backend/apir-worker" "$work/sealed/"
}

# These have been run in another way by others: the same ones again.
again=0 again_failed=0
count() { # LOG: its last line "NAME: N passed, N failed"; without one, one has failed
    local p f
    read -r p f < <(sed -nE 's/^(units|system): ([0-9]+) passed, ([0-9]+) failed$/\2 \3/p' "$1") || f=1
    again=$((again + ${p:-0})) again_failed=$((again_failed + f))
}

units() {
    local log=$work/units.log
    try "units of posix/ build" posix_build
    # shellcheck disable=SC2046 # one word each
    APIR_TEST_POSIX=1 UNIT_WITHOUT=$(not_run | awk 'NF > 1 { printf "%s%s", n++ ? " " : "", $2 }') \
        tests/unit/run.sh $(programs) >"$log" 2>&1 || :
    grep -v '^ok ' "$log" || :
    count "$log"
}

suites() { # SUITES OUT
    local log=$work/suites.log
    try "server and worker of posix/ build, for virglrenderer" sealed_build
    [[ -x $work/sealed/apir-worker ]] || return 0
    "$1" "$2" "$work/sealed/apir-render-server" >"$log" 2>&1 || :
    grep -vE '^(ok |1\.\.)' "$log" || :
    count "$log"
}

# What nothing of this runs: thin calls, and the sandbox's profile.
is_little() { [[ $(cat {common,protocol,backend/server,backend/worker,backend/worker/ggml,backend/worker/sandbox}/macos/*.c | wc -l) -lt 300 ]]; }

find_all() {
    try "the worker finds all it looks up in a ggml with Metal" all_there
    try "a function that is not there would be noticed" is_seen
}

if [[ ${1-} == --part ]]; then
    npm() { tests/system/hook/npm.sh "$1" >"$work/npm.log" 2>&1; }
    json_c_of() { echo "$work/json-c-names"; }
    if ! npm zig-x64; then
        skip "all that a compiler for macOS takes" "it is not here and cannot be fetched"
    else
        links json_c_names aarch64
        if npm mac-arm64; then find_all; else skip "what the worker looks up" "npm's ggml is not here and cannot be fetched"; fi
    fi
else
    links json_c aarch64 x86_64
    find_all
    units
    suites "$@"
    passed=$((passed + again)) failed=$((failed + again_failed))
    echo "macos: of these again: $again passed, $again_failed failed"
fi
try "what only a Mac can run has less than 300 lines" is_little
try "what is not run is known by name" not_run_is_known
echo "macos: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
