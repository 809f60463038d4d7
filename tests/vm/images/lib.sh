# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh of tests/vm/engines, lines.sh and the rows share variables
#
# For the rows of this suite, beside tests/vm/engines/lib.sh: containers of podman. Images are file trees made of
# Debian's packages in the places of another image's files (trees.sh says which); each row's program says what the
# same program says in the same tree on the host's CPU without us, all of its layers are on APIR0, and the host has
# computed.

# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh
# shellcheck source=tests/vm/images/lines.sh
. tests/vm/images/lines.sh
unset APIR_LOG # the host's

NATIVE=/mnt/share/native
RUN+=(-v /mnt/more:/more:ro)
URL=http://127.0.0.1:8080
answer=$work/answer

# serves NAME OPTION...: the server of lines.sh in a container, until the row's end.
serves() {
    local name=$1
    shift
    at_end 'podman rm --force --ignore --time 0 row >/dev/null'
    host_mark
    # shellcheck disable=SC2086 # words on purpose
    podman run -d --name row "${RUN[@]:2}" "$@" "localhost/${server_image[$name]}" \
        ${server_entry[$name]} ${server_args[$name]} --host 127.0.0.1 --port 8080 >/dev/null </dev/null
    WAIT_TENTHS=600 wait_for curl -sf -o /dev/null "$URL/health" ||
        { podman logs row 2>&1 | tail -n 20 && die 'the server does not get ready'; }
}

# answers NAME: what it says to each question is what its program says natively.
answers() {
    local model text
    for model in $(models_of "$1"); do
        text=$(ask "$model" "$URL") || die "no answer: $(<"$answer")"
        [[ -n $text && $text == "$(<"$NATIVE/$1.$model")" ]] ||
            die "it says: $text; natively: $(<"$NATIVE/$1.$model")"
        echo "as natively: $text"
    done
}

# all_on_apir FILE MODELS: what llama.cpp has logged there says that each of so many models has all of its
# layers on APIR0; and the host has computed.
all_on_apir() {
    grep -aE 'using device|offloaded .* layers' "$1" || true
    [[ $(grep -acE 'offloaded ([0-9]+)/\1 layers' "$1") -eq $2 ]] || die "not all layers of $2 models"
    ! grep -a 'using device' "$1" | grep -v 'using device APIR0' || die 'not on APIR0 alone'
    grep -aq 'using device APIR0' "$1" || die 'not on APIR0'
    on_the_host
}

# served NAME OPTION...: a server whose answers are as natively, and computed on APIR0.
served() {
    serves "$@" "${DEVICE[@]}"
    answers "$1"
    podman logs row >"$work/log" 2>&1
    all_on_apir "$work/log" "$(models_of "$1" | wc -w)"
    hook_placed
}

# did NAME OPTION...: a program of lines.sh whose result is as natively.
did() {
    local rc=0
    host_mark
    run_podman --entrypoint '' "${DEVICE[@]}" "${@:2}" "localhost/${program_image[$1]}" sh -c "${program_line[$1]}" \
        >"$work/out" 2>"$work/log" || rc=$?
    tail -n 40 "$work/log"
    [[ $rc -eq 0 ]] || die "it ended with $rc"
    hook_placed
}
same_result() { # NAME
    cmp "$work/out" "$NATIVE/$1" || die 'another result than natively'
    echo "as natively: $(wc -c <"$work/out") bytes"
}
