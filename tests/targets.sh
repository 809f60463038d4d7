#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# targets.sh: every target that HACKING.md names works as the first one in a fresh clone. From make's
# own database: each program of ours that a target's scripts name must be among what the target builds,
# in the same mode. Scripts are those of the recipe, what they name in turn, and the C sources of the
# test programs that are built for it; a program is named by its path in the output folder, as in
# $OUT/tests/lib/models/gguf-write.
#
# What this cannot see: a name that is put together at run time; a script that wants another mode's
# output folder besides its own; what a script finds by looking; and whether the build itself works.
# The last line is `targets: N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/targets.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Nothing is run: FORCE has no recipe.
database() { # VARIABLE=VALUE...
    env -u MAKEFLAGS -u MFLAGS make -pq --no-print-directory "$@" FORCE 2>/dev/null || :
}

# What target GOAL's scripts use and it does not build, a line each: the program, and who names it.
missing() { # DATABASE OUT GOAL
    awk -v out="$2/" -v goal="$3" '
    function reach(file) { if (!(file in known)) { known[file] = 1; queue[++queued] = file } }
    # The scripts in a text, also as tests/system/hook/*.bats and as $here/judge.awk.
    function scripts(text, folder,    word, n, list, i) {
        gsub(/\$\{?here\}?\//, folder "/", text)
        while (match(text, /[A-Za-z0-9_.*\/-]+\.(sh|bash|bats|mk)/)) {
            word = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            if (word !~ /^tests\//) word = folder "/" word
            while ((("ls " word " 2>/dev/null") | getline list) > 0) reach(list)
            close("ls " word " 2>/dev/null")
        }
    }
    /^[^\t#%]+:/ && !/:=| = / {
        name = $0; sub(/:.*/, "", name)
        rest = $0; sub(/^[^:]*:+/, "", rest); gsub(/\|/, " ", rest)
        before[name] = before[name] " " rest
    }
    /^\t/ { recipe[name] = recipe[name] "\n" $0
            if (index(name, out) == 1 && name !~ /\.([oda]|ok|json)$/) programs[substr(name, length(out) + 1)] = 1 }
    END {
        if (!(goal in before)) { print "there is no such target"; exit }
        builds[goal] = 1; todo[last = 1] = goal
        for (i = 1; i <= last; i++) {
            n = split(before[todo[i]], word, " ")
            for (k = 1; k <= n; k++) if (!(word[k] in builds)) { builds[word[k]] = 1; todo[++last] = word[k] }
            if (index(todo[i], out) != 1) scripts(recipe[todo[i]], ".")
            else if (todo[i] ~ /\.o$/) {
                file = substr(todo[i], length(out) + 1); sub(/\.o$/, ".c", file)
                if (file ~ /^tests\// && file !~ /^tests\/(unit|process|lib|hostile\/fuzz)\//) reach(file)
            }
        }
        for (i = 1; i <= queued; i++) {
            file = queue[i]; folder = file; sub(/\/[^\/]*$/, "", folder)
            while ((getline line < file) > 0) {
                if (line ~ /^[ \t]*(#|\/?\*)/) continue
                if (file !~ /\.c$/) scripts(line, folder)
                for (p in programs) {
                    at = index(line, "/" p)
                    if (at > 1 && substr(line, at + length(p) + 1, 1) !~ /[A-Za-z0-9_.\/-]/ &&
                        !((out p) in builds) && !((p, file) in said)) {
                        said[p, file] = 1
                        print p " (" file ")"
                    }
                }
            }
            close(file)
        }
    }' "$1"
}

# Which mode a target runs in: its own recipe may name another one.
database MODE=release CC=gcc >"$work/release"
database MODE=asan CC=clang >"$work/asan"
database MODE=asan CC=clang MUTATE=1 >"$work/mutate"
database MODE=fuzz CC=clang >"$work/fuzz"

# The words of the commands in HACKING.md that are phony targets.
targets=$(comm -12 \
    <(sed -n '/^## Commands/,/^## /p' HACKING.md | grep -oE '[a-z0-9-]+' | sort -u) \
    <(sed -n 's/^\.PHONY: //p' "$work/release" | tr ' ' '\n' | sort -u))
passed=0 failed=0
try() { # NAME DATABASE OUT GOAL
    local found
    found=$(missing "$work/$2" "build/$3" "$4")
    if [[ -z $found ]]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "not ok - $1: its scripts use what it does not build: $(paste -sd ' ' <<<"$found")"
    fi
}
for target in $targets; do
    case $target in
    check-attacks)
        try "$target" asan asan-clang "$target"
        try "$target MUTATE=1" mutate asan-clang "$target"
        try "$target, the hook of a release" release release-gcc attacks-hook
        ;;
    # They build nothing themselves: other targets are made by their scripts, or nothing is.
    check | nightly | check-mutant | check-mutate | check-targets) ;;
    fuzz | fuzz-*) try "$target" fuzz fuzz-clang "$target" ;;
    *) try "$target" release release-gcc "$target" ;;
    esac
done

# The test itself: a prerequisite less must be seen.
sed -E '/^check-dispatch:/s| [^ ]*/gguf-write||' "$work/release" >"$work/less"
if [[ $(missing "$work/less" build/release-gcc check-dispatch) == 'tests/lib/models/gguf-write (tests/bench/dispatch.sh)' ]]; then
    passed=$((passed + 1))
    echo "ok - a prerequisite that is taken away is missed"
else
    failed=$((failed + 1))
    echo "not ok - nobody misses gguf-write, taken away from check-dispatch"
fi
echo "targets: $passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 10 ]]
