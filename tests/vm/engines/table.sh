# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # guest.sh and row.sh use the table
#
# The table of rows of $SUITE, made by sourcing its rows/*.sh in their order:
#
#   row NAME NEED WHAT [SECONDS]   a row, run by the function row_NAME (with _ for -);
#                                  NEED is what setup.sh brings up before, such as
#                                  docker or docker+host, or -
#   computing NAME NEED WHAT COMMAND   a row that is `computes COMMAND`, up to the image, and no more;
#                                  COMMAND is read when it runs
#   placed NAME NEED WHAT COMMAND  the same, and the hook has placed the plug-in
#   absent NAME WHAT WHY           a row that the packages at hand cannot run

table_rows=()
declare -A table_need table_what table_limit table_absent table_absent_what

row() {
    table_rows+=("$1")
    table_need[$1]=$2
    table_what[$1]=$3
    table_limit[$1]=${4-}
}

computing() {
    row "$1" "$2" "$3"
    eval "row_${1//-/_}() { computes $4; }"
}

placed() {
    row "$1" "$2" "$3"
    eval "row_${1//-/_}() { computes $4; hook_placed; }"
}

absent() {
    table_absent_what[$1]=$2 table_absent[$1]=$3
}

for table_file in "tests/vm/${SUITE:-engines}"/rows/*.sh; do
    # shellcheck source=/dev/null
    . "$table_file"
done
