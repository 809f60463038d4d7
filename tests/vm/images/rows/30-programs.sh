# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# Further programs, in llama.cpp's own layout.

row router - 'llama-server as a router: a process for each of two models'
row_router() {
    served router
    [[ $(curl -sS "$URL/models" | jq -r '[.data[] | select(.status.value == "loaded").id] | sort | join(" ")') == \
        'first second' ]] || die 'not both models are loaded'
}

row draft - 'a second model drafts: both on APIR0'
row_draft() {
    serves draft "${DEVICE[@]}"
    answers draft
    jq -c .timings "$answer"
    jq -e '.timings.draft_n > 0' "$answer" >/dev/null || die 'nothing was drafted'
    podman logs row >"$work/log" 2>&1
    all_on_apir "$work/log" 2
}

row vision - 'llama-mtmd-cli: an image is encoded on APIR0, and the model goes on'
row_vision() {
    did vision
    same_result vision
    all_on_apir "$work/log" 1
    grep -q 'CLIP using APIR0' "$work/log" || die 'the image was not encoded on APIR0'
}

row imatrix - 'llama-imatrix: the same file'
row_imatrix() {
    did imatrix
    same_result imatrix
    all_on_apir "$work/log" 1
}

row tts - 'llama-tts: the same sound, of a text and of a voice to speak like, with both models on APIR0'
row_tts() {
    did tts
    same_result tts
    [[ $(tail -c +45 "$work/out" | tr -d '\0' | wc -c) -gt 40000 ]] || die 'silence'
    all_on_apir "$work/log" 1
    [[ $(grep -c 'CLIP using APIR0' "$work/log") -eq 2 ]] || die 'the voice is not on APIR0'
    ! grep 'unsupported operators' "$work/log" || die 'not all of the voice is on APIR0'
}

row whisper - "whisper.cpp: it hears the same words, with sound and text on APIR0"
row_whisper() {
    did whisper
    same_result whisper
    [[ $(wc -w <"$work/out") -gt 100 ]] || die "so few words: $(<"$work/out")"
    grep -q 'using APIR0 backend' "$work/log" || die 'not on APIR0'
    grep -q 'APIR0 total size' "$work/log" || die 'its weights are not on APIR0'
    on_the_host
}
