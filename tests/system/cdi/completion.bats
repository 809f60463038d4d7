#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The command's own texts, the manual pages and the completion tell the same.

load ../system.bash

# The commands of apir --help, one a line: "cdi generate", "doctor".
commands() {
    "$APIR" --help | sed -nE 's/^  apir ([a-z]+( [a-z]+)?)  .*/\1/p'
}

# The long options of a command's --help.
options() {
    # shellcheck disable=SC2086 # one or two words
    "$APIR" $1 --help | grep -oE '^ +(-h, )?--[a-z-]+' | grep -oE -- '--[a-z-]+'
}

# complete WORD...: what bash offers for the last word of `apir WORD...`.
complete_line() {
    PATH=$OUT/cdi:$PATH bash --norc -c '
        . /usr/share/bash-completion/bash_completion
        . cdi/apir.bash-completion
        COMP_WORDS=(apir "$@") COMP_CWORD=$#
        COMP_LINE="apir $*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
        _apir apir "${*: -1}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

# A manual page as plain text.
page() { mandoc -T ascii "docs/man/$1" | sed 's/.\x08//g'; }

@test "help: every command has one, on stdout, with exit code 0" {
    local command n=0
    while read -r command; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr "$APIR" $command --help
        [[ $output == "Usage: apir $command "* && -z $stderr ]]
        [[ $output == *"Exit codes: "* ]]
        n=$((n + 1))
    done < <(commands)
    ((n >= 6))
}

@test "help: wrong usage is exit code 2, at most two lines on stderr, nothing on stdout" {
    local line
    for line in '' 'nonsense' 'cdi' 'cdi nonsense' 'engine' 'cdi generate --nonsense' 'cdi list x' 'cdi validate' \
        'cdi validate --nonsense' 'doctor --nonsense' 'doctor x' 'config' 'config nonsense' 'config check a b' 'config check --nonsense' 'engine configure' 'engine configure rkt' \
        'engine configure podman docker' 'engine configure --nonsense' 'engine reset --config /x podman' \
        'engine configure docker --config x' 'engine configure docker --engine-version x' spec \
        'spec --format x' 'spec --format lxc x' 'spec --format lxc --name -x' 'spec --nonsense' --nonsense; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr "$APIR" $line
        echo "$line: $stderr"
        [[ -z $output && ${#stderr_lines[@]} -le 2 && ${stderr_lines[-1]} == "Try 'apir"*"--help'." ]]
        [[ ${stderr_lines[0]} == apir* ]]
    done
}

@test "completion: every command" {
    local command
    while read -r command; do
        if [[ $command == *' '* ]]; then
            run -0 complete_line ""
            grep -qxF "${command% *}" <<<"$output"
            run -0 complete_line "${command% *}" ""
            grep -qxF "${command#* }" <<<"$output"
        else
            run -0 complete_line ""
            grep -qxF "$command" <<<"$output"
        fi
    done < <(commands)
}

@test "completion: every long option of every command, and none that it does not have" {
    local command
    while read -r command; do
        read -ra words <<<"$command"
        echo "$command"
        run -0 complete_line "${words[@]}" --
        diff -u <(options "$command" | sort) <(sort <<<"$output")
    done < <(commands)
    run -0 complete_line --
    diff -u <(options '' | sort) <(sort <<<"$output")
}

@test "completion: engines, and files where a file is wanted" {
    run -0 complete_line engine configure d
    [[ $output == docker ]]
    run -0 complete_line spec --format quad
    [[ $output == quadlet ]]
    run -0 complete_line doctor --spec READ
    [[ $output == README.md ]]
    run -0 complete_line cdi validate READ
    [[ $output == README.md ]]
    run -0 complete_line cdi list --spec-dir doc
    [[ $output == docs ]]
}

@test "completion: names of images are no commands" {
    mkdir "$T/bin"
    printf '#!/bin/sh\necho '"'"'localhost/a:1 $(: >%s/mark) localhost/b:2'"'\n" "$T" >"$T/bin/podman"
    chmod 0755 "$T/bin/podman"
    PATH=$T/bin:$PATH run -0 complete_line doctor --image localhost/
    [[ $output == *a:1*b:2* && ! -e $T/mark ]]
}

@test "manual pages: mandoc finds nothing to say" {
    for page in docs/man/*; do
        run -0 mandoc -T lint -W warning "$page"
        [[ -z $output ]]
    done
}

# Of the lines that begin with an option those that stand leftmost: the others are text that was wrapped there.
items() { # SECTION
    awk '/^ +--[a-z]/ { match($0, /^ +/); line[NR] = $0; at[NR] = RLENGTH; if (!left || RLENGTH < left) left = RLENGTH }
        END { for (i in line) if (at[i] == left) print line[i] }' "$1"
}

@test "manual pages: apir.1 has every command and every long option, and no other option" {
    local command
    page apir.1 >"$T/page"
    while read -r command; do
        # A command's own section, up to the next one.
        sed -n "/^ *apir $command\$/,/^\( *apir [a-z ]*\|[A-Z].*\)\$/p" "$T/page" | tail -n +2 >"$T/section"
        [[ -s $T/section ]] || { echo "no section: $command"; false; }
        diff -u <(options "$command" | grep -v -e '--help' | sort) \
            <(items "$T/section" | grep -oE -- '--[a-z-]+' | sort -u)
    done < <(commands)
}

@test "manual pages: the example of apir-cdi(5) is a valid spec" {
    page apir-cdi.5 | sed -n '/^EXAMPLES/,/^SEE ALSO/p' | sed '1d;$d' >"$T/spec.json"
    jq -e '.devices[0].name == "gpu0"' "$T/spec.json"
    run -0 "$APIR" cdi validate --strict --no-host "$T/spec.json"
}

@test "manual pages: apir-hook.8 has every option and stage of the program" {
    page apir-hook.8 >"$T/page"
    "$OUT/hook/apir-hook" --help >"$T/help"
    for word in $(grep -oE '^ +(-h, +)?--[a-z]+' "$T/help" | grep -oE -- '--[a-z]+') createContainer createRuntime \
        prestart precreate poststop; do
        grep -qF -- "$word" "$T/help"
        grep -qwF -- "$word" "$T/page" || { echo "$word"; false; }
    done
}

@test "manual pages: the names in apir.1 are those of doctor's JSON" {
    "$APIR" doctor --json >"$T/json" || [[ $? -eq 1 ]]
    page apir.1 | tr -s ' \n' ' ' >"$T/page"
    jq -e '.version == 1 and (.ok | type) == "boolean" and (.checks | length) > 10 and
        all(.checks[]; (.name | type) == "string" and (.text | length) > 0 and
            (.status | IN("pass", "warn", "fail", "skip", "unchecked")) and
            ((has("todo") | not) or (.status | IN("warn", "fail"))))' "$T/json"
    # Of engines it has those that are there.
    sed -n 's/^#define CDI_ENGINES(X)//p' cdi/engine/engine.h | grep -oE '[a-z]+' >"$T/engines"
    [[ $(wc -l <"$T/engines") -ge 4 ]]
    for name in $(jq -r '.checks[].name' "$T/json") $(<"$T/engines"); do
        grep -qF "\`$name'" "$T/page" || { echo "$name"; false; }
    done
}

@test "manual pages: apir-render-server.8 has every option of the program, libggml-apir.7 every variable and way to the host" {
    local word
    page apir-render-server.8 >"$T/page"
    "$OUT/backend/apir-render-server" --help >"$T/help"
    for word in $(grep -oE '^ +--[a-z-]+' "$T/help"); do
        grep -qF -- "$word" "$T/page" || { echo "$word"; false; }
    done
    page libggml-apir.7 >"$T/page"
    grep -rhoE '"APIR_[A-Z_]+"' frontend --include='*.c' | tr -d '"' | sort -u >"$T/variables"
    [[ $(wc -l <"$T/variables") -ge 5 ]]
    while read -r word; do
        grep -qF "$word" "$T/page" || { echo "$word"; false; }
    done <"$T/variables"
    sed -n 's/^    {"\([a-z]*\)", transport_.*/\1/p' frontend/link/transport.c >"$T/ways"
    [[ $(wc -l <"$T/ways") -ge 3 ]]
    while read -r word; do
        grep -qE "^ +.*\<$word\[?:" "$T/page" || { echo "libggml-apir(7): $word"; false; }
        grep -qE "^\| \`APIR_TRANSPORT.*\`$word\[?:" docs/install.md || { echo "docs/install.md: $word"; false; }
    done <"$T/ways"
}
