# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For tests of tests: a source with one thing taken out.

# mutant_write FILE FROM TO RESULT: FILE with its first FROM as TO; false, with a line, without one.
mutant_write() {
    local text new
    text=$(<"$1")
    new=${text/"$2"/"$3"}
    [[ $new != "$text" ]] || { echo "$1 does not hold: $2"; return 1; }
    printf '%s\n' "$new" >"$4"
}
