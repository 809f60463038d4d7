#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The plug-in's file: it must load into programs that know nothing of us, on old and new glibc
# and on musl.

load system.bash

# Undefined names, without versions; also of the plug-in that clang has built, where it has.
undefined() {
    local clang=${PLUGIN/release-gcc/release-clang} plugins=("$PLUGIN")
    [[ $clang == "$PLUGIN" || ! -e $clang ]] || plugins+=("$clang")
    readelf --wide --dyn-syms "${plugins[@]}" | awk '$7 == "UND" && $8 != "" { print $8 }' | sort -u
}

@test "plug-in: needs no library" {
    run -0 readelf --wide --dynamic "$PLUGIN"
    [[ $output != *"(NEEDED)"* ]]
    [[ $output != *"(RPATH)"* && $output != *"(RUNPATH)"* ]]
}

@test "plug-in: exports ggml_backend_init and ggml_backend_score and nothing else" {
    run -0 bash -c "nm --dynamic --defined-only '$PLUGIN' | awk '{ print \$NF }' | sort"
    [[ $output == $'ggml_backend_init\nggml_backend_score' ]]
}

@test "plug-in: undefined names carry no version" {
    run -0 readelf --wide --version-info "$PLUGIN"
    [[ $output != *GLIBC* && $output != *"Version needs"* ]]
    run -0 undefined
    [[ -n $output && $output != *@* ]]
}

@test "plug-in: every undefined name is in glibc 2.17's libc or libdl, and in musl" {
    local libc musl name bad=()
    libc=$(gcc -print-file-name=libc.so.6)
    musl=$(realpath /lib/ld-musl-*.so.1)
    [[ -e $libc && -e $musl ]]
    # Today's glibc names the version in which each symbol (also) appeared: the oldest counts.
    # Versions of 2.34 alone stand for what moved in from libpthread and libdl; the old names of
    # those are there too.
    readelf --wide --dyn-syms "$libc" | awk '
        $7 != "UND" && split($8, part, /@+/) == 2 && part[2] ~ /^GLIBC_2\./ {
            split(substr(part[2], 7), v, ".")
            minor = v[2] + 0
            if (minor <= 17) print part[1]
        }' | sort -u >"$T/old"
    nm --dynamic --defined-only "$musl" | awk '{ print $NF }' | sort -u >"$T/musl"
    [[ $(wc -l <"$T/old") -gt 1000 && $(wc -l <"$T/musl") -gt 1000 ]]
    for name in $(undefined); do
        # In libpthread where that is a library of its own: not there in every process.
        case $name in pthread_* | sem_* | *_chk | __isoc* | __tls_get_addr) bad+=("$name") ;; esac
        grep -qxF "$name" "$T/old" || bad+=("$name: newer than glibc 2.17")
        grep -qxF "$name" "$T/musl" || bad+=("$name: not in musl")
    done
    printf '%s\n' "${bad[@]}"
    [[ ${#bad[@]} -eq 0 ]]
}

@test "plug-in: no thread-local storage, no executable stack, no text relocations" {
    run -0 readelf --wide --program-headers "$PLUGIN"
    # A segment line: its type first. (One section name more is no segment.)
    refute grep -Eq '^ +TLS ' <<<"$output"
    grep -Eq '^ +GNU_STACK .* RW +0x' <<<"$output"
    refute grep -Eq '^ +LOAD .* RWE ' <<<"$output"
    run -0 readelf --wide --dynamic "$PLUGIN"
    [[ $output != *TEXTREL* ]]
}

@test "plug-in: stays loaded (NODELETE), starts nothing when it is loaded" {
    run -0 readelf --wide --dynamic "$PLUGIN"
    grep -Eq 'FLAGS_1.*NODELETE' <<<"$output"
    # No constructors or destructors of its own.
    [[ $output != *"(INIT)"* && $output != *"(FINI)"* ]]
    [[ $output != *"(INIT_ARRAY)"* && $output != *"(FINI_ARRAY)"* ]]
}

@test "plug-in: loads under musl and declines a program without ggml" {
    ln -s "$(realpath "$PLUGIN")" "$T/libggml-metal.so"
    run -0 --separate-stderr timeout "$(patience 20)" "$OUT/tests/system/musl-load" "$PLUGIN" "$T/libggml-metal.so"
    [[ $output == $'score 1\ndeclined' ]]
    # Said once, however often it is asked.
    [[ ${#stderr_lines[@]} -le 1 ]]
}
