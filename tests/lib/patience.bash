# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# How tests wait, for scripts (tests/lib/clock.h is for C): until something is there, and never for a time. The machine
# may have other work, which takes the cores for as long as it likes: nothing is judged by how soon it comes, and a
# limit only ends what hangs. It is written as what is plenty on a machine of one's own, and multiplied here.
#
#   APIR_PATIENCE              how many times that it is: 10
#   patience SECONDS           prints such a limit, for `timeout` and the like
#   wait_until SECONDS CMD...  polls; false once the limit is over
#   in_time MS PROMISED        whether what is promised within so many milliseconds has come. As promised is for a
#                              machine of one's own; here so many times that. What comes by another way, after a
#                              silence, say, must be later still: whoever asks sees to that.
#   pause SECONDS              a short wait between two looks

export APIR_PATIENCE=${APIR_PATIENCE:-10}

patience() { echo $(($1 * APIR_PATIENCE)); }

# Without a process: nothing ever comes from this pipe.
pause() {
    [[ -n ${PATIENCE_NAP-} ]] || exec {PATIENCE_NAP}<> <(:)
    read -r -t "$1" -u "$PATIENCE_NAP" _ || :
}

wait_until() {
    local end=$((${EPOCHREALTIME/./} + $(patience "$1") * 1000000))
    shift
    until "$@"; do
        ((${EPOCHREALTIME/./} < end)) || return 1
        pause 0.02
    done
}

now_ms() {
    echo $((${EPOCHREALTIME/./} / 1000))
}

in_time() {
    [[ $1 -le $(($2 * APIR_PATIENCE)) ]]
}
