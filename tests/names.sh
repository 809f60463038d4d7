#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# names.sh: what documents and comments name exists. In README.md, HACKING.md, SECURITY.md, CHANGELOG.md
# and docs/: every `path` of a source, script or folder of ours, every `c_identifier`, every row of
# check-attacks that SECURITY.md names, every "`test file`: its test", and every link: its file and the heading in it.
# In comments of C: every (x.h). In docs/protocol.md: the minor version. And every text that a mutant takes out.
# The last line is `names: N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/names.XXXXXX")
trap 'rm -rf "$work"' EXIT
find . \( -path ./build -o -path ./.git \) -prune -o -type f -print | sed 's|^\./|/|' >"$work/files"
grep -vE '\.md$|^/tests/hostile/fuzz/corpus/' "$work/files" | sed 's|^/||' >"$work/sources"
xargs grep -ohaE '[A-Za-z_][A-Za-z0-9_]*' <"$work/sources" | sort -u >"$work/words"

there() { grep -qE "$1" "$work/files"; }
escaped() { sed 's/[.*]/\\&/g' <<<"$1"; }

# What a document's line calls by name, and what of it does not exist, a line each.
unknown() { # DOCUMENT
    local word
    # Text between backticks, also across a line's end; code blocks are the shell's.
    awk '/^ *```/ { code = !code; next } !code && !/^    / { print }' "$1" | tr '\n' ' ' | grep -oE '`[^`]+`' |
        tr -d '`' | sort -u | while read -r word; do
        case $word in
        *[!A-Za-z0-9_./-]* | *NAME* | /* | ./* | *//* | build/* | lib/* | share/* | libexec/* | bin/*) ;;
        *.[ch] | *.sh | *.bats | *.bash | *.mk | *.md) there "$(escaped "$word")\$" || echo "$word" ;;
        */) there "/$(escaped "$word")" || echo "$word" ;;
        *[/.-]* | *_ | ggml_* | virgl_*) ;;
        *_test | *_fuzz) there "/$word\.c\$" || echo "$word" ;;
        [a-z]*_*) grep -qxF "$word" "$work/words" || echo "$word" ;;
        esac
    done
}

# The last column of SECURITY.md's table: rows `a`, `b` to `c`; `program`: test; `file.bats`: test.
unshown() {
    local part word name
    sed -n '/^## What shows it/,/^## /p' SECURITY.md | grep '^| ' | awk -F '|' '{ print $3 }' | tr ';' '\n' |
        sed 's/^ *//; s/ *$//' | while read -r part; do
        case $part in
        rows\ * | row\ *)
            grep -oE '`[^`]+`' <<<"$part" | tr -d '`' | while read -r word; do
                grep -qF "{\"$word\"," tests/hostile/attacks/rows_*.c || grep -q "^$word|" tests/hostile/attacks/hook_rows ||
                    echo "row $word"
            done
            ;;
        \`*\`:\ *)
            word=${part#\`} word=${word%%\`*} name=${part#*: } name=${name%%, *}
            there "/$(escaped "${word%.bats}")\.(c|bats)\$" || echo "$word"
            grep "/$(escaped "${word%.bats}")\.\(c\|bats\)\$" "$work/files" | sed 's|^|.|' |
                xargs grep -qF -- "$name" || echo "$part"
            ;;
        esac
    done
}

# Every link of the documents to a file of ours: "document link" for each file that is not there, and for each
# heading of a document that is not. A heading's name is what GitHub makes of it; a second one has -1.
broken_links() { # DOCUMENT...
    awk '
    FNR == 1 { code = 0; folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = "" }
    /^ *```/ { code = !code }
    code { next }
    /^#+ / {
        name = $0; sub(/^#+ +/, "", name); sub(/ +$/, "", name)
        while (match(name, /\]\([^)]*\)/)) name = substr(name, 1, RSTART - 1) substr(name, RSTART + RLENGTH)
        name = tolower(name); gsub(/[][`!-,.\/:-@{-~]/, "", name); gsub(/ /, "-", name)
        number = had[FILENAME, name]++
        heading[FILENAME "#" name (number ? "-" number : "")]
    }
    { for (rest = $0; match(rest, /\]\([^) ]+\)/); rest = substr(rest, RSTART + RLENGTH)) {
          link = substr(rest, RSTART + 2, RLENGTH - 3)
          if (link !~ /^(https?|mailto):/) links[++n] = FILENAME " " link " " (link ~ /^#/ ? FILENAME : folder) link
      } }
    END {
        for (i = 1; i <= n; i++) {
            split(links[i], part, " "); path = part[3]
            while (sub(/[^\/]+\/\.\.\//, "", path));
            file = path; sub(/#.*/, "", file)
            if (system("test -e \"" file "\"") != 0 || (path ~ /\.md#/ && !(path in heading))) print part[1] " " part[2]
        }
    }' "$@"
}

# A header or source that a comment refers to in parentheses.
unheard() {
    grep '\.[ch]$' "$work/sources" | xargs grep -noE '\([a-z_0-9/]+\.[ch]\)' | while IFS=: read -r file line word; do
        word=${word//[()]/}
        there "/$(escaped "$word")\$" || echo "$file:$line: $word"
    done
}

# A mutant's text that no source has: it would take nothing out.
takes_nothing() {
    # shellcheck source=tests/mutant.bash
    . tests/mutant.bash
    mutant() { # NAME (FILE FROM TO)...
        shift
        while [[ $# -ge 3 ]]; do
            mutant_write "$1" "$2" "$3" /dev/null || :
            shift 3
        done
    }
    elsewhere() { mutant "$@"; }
    unmutated() { :; }
    # shellcheck source=tests/hostile/attacks/mutants
    . tests/hostile/attacks/mutants
    mutant() { mutant_write "$2" "$4" "$5" /dev/null || :; } # NAME FILE TEST FROM TO
    # shellcheck source=tests/hostile/sandbox/mutants
    . tests/hostile/sandbox/mutants
}

# The protocol's minor version without a row in docs/protocol.md.
untold() {
    local minor
    minor=$(sed -n 's/^#define APIR_PROTOCOL_MINOR \([0-9]*\)u$/\1/p' protocol/shm.h)
    grep -q "^| 1\.$minor |" docs/protocol.md || echo "| 1.$minor |"
}

passed=0 failed=0
judge() { # WHAT: the names that are wrong on standard input
    local list
    list=$(sort -u)
    if [[ -z $list ]]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "not ok - $1"
        sed 's/^/    does not exist: /' <<<"$list"
    fi
}

shopt -s nullglob
documents=(*.md docs/*.md docs/*/*.md)
for document in "${documents[@]}"; do
    judge "$document: paths and names" < <(unknown "$document")
done
judge "documents: links" < <(broken_links "${documents[@]}")
judge "SECURITY.md: what shows it" < <(unshown)
judge "docs/protocol.md: the minor version" < <(untold)
judge "comments: files" < <(unheard)
judge "mutants: what they take out" < <(takes_nothing)
echo "names: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
