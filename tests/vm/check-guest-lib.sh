# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For the bats files that run in the VM.

# shellcheck source=tests/lib/patience.bash
. "${BATS_TEST_DIRNAME}/../lib/patience.bash"

SHARE=/mnt/share
MODELS=/mnt/models
# shellcheck disable=SC2034 # for the tests
PLUGIN=/usr/lib/apir/libggml-apir.so
DEVICE=(--device virtgpu/apir=gpu0)
# shellcheck disable=SC2034 # for the tests
RENDER_NODE=/dev/dri/renderD128

# What both sides must agree on came from check-prepare.sh.
# shellcheck source=/dev/null
. "$SHARE/agreed"

# container [OPTION]... IMAGE CMD...: without a network of its own; the lo that
# it shares is the VM's. Each has its own time limit: the time-outs of bats would
# keep it waiting for their own sleeps at the end.
container() {
    timeout "$(patience "${CONTAINER_SECONDS:-60}")" podman run --network=host -v "$MODELS:/models:ro" "$@" </dev/null
}

# greedy MODEL COMMAND...: COMMAND (which starts with `container …` or `env …` and
# ends before llama-completion) does the greedy run with all layers on the GPU,
# and says what the native run said. MODEL is the path for llama-completion; the
# variable `named` is the device to name, empty: it takes what it sees.
greedy() {
    local model=$1 dir
    shift
    dir=$(mktemp -d "$BATS_TEST_TMPDIR/greedy.XXXXXX")
    for _ in {1..30}; do
        # shellcheck disable=SC2086 # words on purpose
        "$@" llama-completion -m "$model" $named -ngl 99 $PREPARE_GREEDY -lv 4 \
            -n "$PREPARE_TOKENS" -p "$PREPARE_PROMPT" >"$dir/text" 2>"$dir/log" </dev/null || {
            tail -n 20 "$dir/log"
            return 1
        }
        # See prepare_native: its end may be lost, and then its last words are too.
        ! grep -q 'common_perf_print: .*total time' "$dir/log" || break
        echo '# greedy: again; llama-completion lost the end of its output' >&3
    done
    same "$(<"$dir/text")" "$(<"$SHARE/native.$(basename "$model" .gguf)")" || return 1
    grep -Eq 'offloaded ([0-9]+)/\1 layers' "$dir/log" || {
        echo 'not all layers were on the device'
        return 1
    }
    grep -q 'using device APIR0' "$dir/log"
}
named='-dev APIR0'

# A question to the host's side (check-host.sh); prints its answer.
host() {
    local port name answer
    for port in /sys/class/virtio-ports/*; do
        read -r name <"$port/name"
        [[ $name != apir.ctl ]] || break
    done
    exec {ctl}<>"/dev/${port##*/}" || return 1
    echo "$*" >&"$ctl"
    read -r -t "$(patience 20)" -u "$ctl" answer || answer='error: no answer'
    exec {ctl}>&-
    echo "$answer"
    [[ $answer != error:* ]]
}

# new_worker "PID...": the worker that was not there before; waits until there is one.
new_worker() {
    wait_until 20 find_worker "$1" >&2 && find_worker "$1"
}
find_worker() {
    local pid
    for pid in $(host workers); do
        [[ " $1 " == *" $pid "* ]] || { echo "$pid"; return 0; }
    done
    return 1
}

# server NAME PORT MODEL: a llama-server on APIR0 in a container of that name, ready. No silence is a loss to it: that
# would come later than a loss may.
server() {
    container -d --replace --name "$1" "${DEVICE[@]}" -e APIR_SILENCE_SECONDS=3600 localhost/llama \
        llama-server -m "/models/$3.gguf" -dev APIR0 -ngl 99 --host 127.0.0.1 --port "$2" \
        -np 1 -c 4096 -b 16 -ub 16 -t 1 -tb 1 --no-warmup >/dev/null
    ready "$2"
}

ready() {
    wait_until 20 curl -sf -o /dev/null "http://127.0.0.1:$1/health" || { echo "nobody serves on port $1"; return 1; }
}

# complete PORT: the text of the same greedy run by that server.
complete() {
    jq -n --arg prompt "$PREPARE_PROMPT" --argjson n "$PREPARE_TOKENS" \
        '{prompt: $prompt, n_predict: $n, temperature: 0, seed: 1, cache_prompt: false}' |
        curl -sS --max-time "$(patience 60)" -d @- "http://127.0.0.1:$1/completion" | jq -r .content
}

# Fails with both texts if a server's answer is not the native one.
answers_as_native() { # PORT MODEL
    same "$(complete "$1")" "$(<"$SHARE/native.$2")"
}

same() {
    [[ -n $2 && $1 == "$2" ]] && return 0
    printf 'here:   %s\nnative: %s\n' "$1" "$2"
    return 1
}
