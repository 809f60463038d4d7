# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# To be sourced by scripts whose rows are runs of small models:
#
#   write_file FILE PROGRAM ARGS...   PROGRAM ARGS... --output FILE, if the program is newer
#   verdict yes|no NAME DETAIL        prints the row, and counts in passed and failed; `suite` names
#                                     whose row it is

# What a writer writes depends on nothing but itself.
write_file() {
    local file=$1 writer=$2
    shift 2
    [[ -e $file && ! $writer -nt $file ]] && return
    # Several rows at a time may want the same one.
    "$writer" "$@" --output "$file.$$"
    mv "$file.$$" "$file"
}

passed=0 failed=0
verdict() {
    local word=PASS detail=$3
    if [[ $1 == yes ]]; then
        passed=$((passed + 1))
    else
        word=FAIL detail=${3//$'\n'/$'\n'        }
        failed=$((failed + 1))
    fi
    # shellcheck disable=SC2154 # the caller's
    printf '%s  %s %-28s %s\n' "$word" "$suite" "$2" "$detail"
}
