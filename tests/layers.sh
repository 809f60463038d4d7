#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# layers.sh: the order of rooms. An #include goes within a room or along an arrow of the table below; no
# circle of files (a header and the source of its name are one); what a header declares is of one source
# (other systems' are in posix/ and macos/), but for lists of functions of one typedef; at most 15 sources
# in a folder; no function longer than 60 lines but for those of tests/long-functions, a list that only
# gets shorter; `if (!p)`, and `rc` for what a call has returned.
# The last line is `layers: N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."

# ROOM: rooms that it may include. A folder without a line belongs to the room above it.
arrows='
common:
common/oci: common
common/image: common
protocol: common
frontend/link: common protocol
frontend/graph: common protocol frontend/link frontend/plugin
frontend/plugin: common protocol frontend/link
frontend/ggml: common protocol frontend/link frontend/plugin frontend/graph
backend/config: common
backend/server: common protocol backend/config
backend/worker: common protocol backend/config backend/worker/ggml backend/worker/rules backend/worker/sandbox backend/worker/shaders
backend/worker/ggml: common protocol
backend/worker/rules: common protocol backend/worker/ggml
backend/worker/sandbox: common backend/config
backend/worker/shaders: common protocol backend/worker/ggml
hook: common common/oci common/image
cdi: common common/oci common/image protocol backend/config backend/server/unix/access.h frontend/link
'
SOURCES_MAX=15 LINES_MAX=60

passed=0 failed=0
judge() { # WHAT: what is wrong, a line each, on standard input
    local list
    list=$(cat)
    if [[ -z $list ]]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "not ok - $1"
        while read -r line; do echo "    $line"; done <<<"$list"
    fi
}

mapfile -t files < <(find common protocol frontend backend hook cdi -name '*.[ch]' | sort)

tests() { find tests -name '*.[ch]' -not -path '*/corpus/*' | sort; }

# Every include of a file of ours: FILE INCLUDED.
includes() {
    grep -HoE '^#include "[^"]+"' "${files[@]}" | sed -E 's/:#include "(.*)"/ \1/'
}

against_arrows() {
    includes | awk -v arrows="$arrows" '
    function room(file,    r) {
        r = file
        do sub(/\/?[^\/]*$/, "", r); while (r != "" && !(r in allowed))
        return r
    }
    BEGIN {
        n = split(arrows, line, "\n")
        for (i = 1; i <= n; i++) if (split(line[i], part, ": *") >= 1 && part[1] != "") allowed[part[1]] = " " part[2] " "
    }
    {
        from = room($1); to = room($2)
        if (from == "" || (from != to && index(allowed[from], " " to " ") == 0 && index(allowed[from], " " $2 " ") == 0))
            print $1 ": includes " $2
    }'
}

# tsort names the members of a circle.
circles() {
    includes | sed 's/\.[ch]\( \|$\)/\1/g' | awk '$1 != $2' | { tsort 2>&1 >/dev/null || :; } | sed 's/^tsort: //'
}

# HEADER: the sources that its functions are in, where there is more than one.
scattered() {
    # shellcheck disable=SC2046
    awk '
    function name_of(line) {
        sub(/\(.*/, "", line)
        sub(/.*[ *]/, "", line)
        return line
    }
    FNR == 1 { comment = 0 }
    /^\/\*/ { comment = 1 }
    comment { if (/\*\//) comment = 0; next }
    !/^[a-z].*[ *][a-z_0-9]+\(/ || /^(static|typedef|extern)/ { next }
    FILENAME ~ /c$/ && !/;$/ { source[name_of($0)] = FILENAME }
    FILENAME ~ /h$/ { heads[FILENAME, name_of($0)] = 1 }
    END {
        for (pair in heads) {
            split(pair, p, SUBSEP)
            from = source[p[2]]
            if (from == "" || index(list[p[1]], " " from) > 0) continue
            list[p[1]] = list[p[1]] " " from
            if (++n[p[1]] == 2) many[p[1]] = 1
        }
        for (h in many) print h ":" list[h]
    }' $(printf '%s\n' "${files[@]}" | grep -vE "/($(sed -n 's/^SYSTEM_FOLDERS := linux //p' Makefile | tr ' ' '|'))/")
}

dialect() {
    # shellcheck disable=SC2046
    grep -nE '[!=]= NULL|^ +int (r|ret|err|e|res|result)( =|;|,)' "${files[@]}" $(tests)
}

crowded() {
    find common protocol frontend backend hook cdi -name '*.c' -printf '%h\n' | sort | uniq -c |
        awk -v most="$SOURCES_MAX" '$1 > most { print $2 ": " $1 " sources" }'
}

# FILE FUNCTION LINES of all that are longer.
long() {
    awk -v most="$LINES_MAX" '
    FNR == 1 { name = "" }
    /^[a-zA-Z_].*\(/ && !/;$/ && !/^#/ { head = $0; start = FNR; sub(/\(.*/, "", head); sub(/.*[ *]/, "", head); name = head
        if (name ~ /^[A-Z_]+$/) { name = $0; gsub(/^[^(]*\(|[,)].*/, "", name) } }
    /^}/ && name != "" { if (FNR - start + 1 > most) print FILENAME, name, FNR - start + 1; name = "" }' \
        "${files[@]}" $(tests)
}
too_long() {
    local file name lines known
    while read -r file name lines; do
        known=$(awk -v f="$file" -v n="$name" '$1 == f && $2 == n { print $3 }' tests/long-functions)
        [[ -n $known && $lines -le $known ]] || echo "$file: $name has $lines lines"
    done < <(long)
    while read -r file name lines; do
        grep -qE "^$file $name " < <(long) || echo "$file: $name is not too long any more: take it off tests/long-functions"
    done < <(grep -v '^#' tests/long-functions)
}

if [[ ${1-} == --long ]]; then
    long
    exit
fi
judge 'includes go along the arrows' < <(against_arrows)
judge 'no circle of files' < <(circles)
judge 'a header declares what one file defines' < <(scattered)
judge 'one dialect' < <(dialect)
judge 'no crowded folder' < <(crowded)
judge 'no long function' < <(too_long)
echo "layers: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
