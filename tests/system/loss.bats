#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The host goes away in the middle of the work: whoever waits ends with an error within two
# seconds, everybody else goes on.

load system.bash

setup() {
    common_setup
    model_small
}

LIMIT_MS=2000 # what is promised

# Who is told of no end but waits for a sign of life waits for longer than any loss here may take.
server() {
    server_start
    REMOTE+=("APIR_SILENCE_SECONDS=3600")
}

# bench_job NAME: a generation without an end; sets JOB and, once it is in the middle, WORKER.
bench_job() {
    local before
    mapfile -t before < <(workers)
    remote_job "$1" llama-bench -m "$MODEL" -dev APIR0 -t 1 -p 0 -n 256 -r 100000 --progress
    busy_worker "${before[@]}"
    wait_until 60 grep -q 'generation run' "$T/$1.err"
    wait_until 60 computes "$WORKER" "$(cpu_ticks "$WORKER")"
}

# ended_by SIGNAL VICTIM JOB: sends the signal, and the job ends in time; sets STATUS.
ended_by() {
    local since took
    since=$(now_ms)
    kill "-$1" "$2"
    wait_until 60 gone "$3" || { echo "still runs"; return 1; }
    took=$(($(now_ms) - since))
    STATUS=0
    wait "$3" || STATUS=$?
    echo "ended $took ms later with status $STATUS"
    in_time "$took" "$LIMIT_MS"
}

# One clear line, not one per call.
one_line() { # NAME WORDS
    local lines
    lines=$(grep '^apir:' "$T/$1.err")
    echo "$lines"
    [[ $(grep -c 'is lost' <<<"$lines") -eq 1 && $lines == *"$2"* ]]
}

lose() { # SIGNAL WORDS
    server
    local other since
    bench_job other
    other=$JOB
    local other_worker=$WORKER
    bench_job bench
    ended_by "$1" "$WORKER" "$JOB"
    # An error of its own: an abort of ggml's would be a signal.
    [[ $STATUS -ne 0 && $STATUS -lt 128 ]]
    one_line bench "$2"
    # The other context computes on, on the same server.
    wait_until 30 computes "$other_worker" "$(cpu_ticks "$other_worker")"
    kill -0 "$other"
    refute grep -q '^apir:' "$T/other.err"
    # And a new one works at once.
    since=$(now_ms)
    remote "$EXERCISE" compute 2>"$T/new.err"
    echo "a new context took $(($(now_ms) - since)) ms"
    [[ $(workers) == "$other_worker" ]] || wait_until 5 n_workers_is 1
}

@test "loss: SIGKILL of the worker in the middle of llama-bench" { lose KILL "killed by signal 9"; }
@test "loss: SIGABRT of the worker, as an assert ends it" { lose ABRT "killed by signal 6"; }
@test "loss: SIGSTOP of the worker" { lose STOP "stopped"; }

@test "loss: what a program reads and is told afterwards" {
    server
    local signal
    for signal in KILL ABRT STOP; do
        remote_job "lost-$signal" "$EXERCISE" lost
        busy_worker
        wait_until 20 grep -q ready "$T/lost-$signal.out"
        wait_until 20 computes "$WORKER" "$(cpu_ticks "$WORKER")"
        ended_by "$signal" "$WORKER" "$JOB"
        cat "$T/lost-$signal.out"
        [[ $STATUS -eq 0 ]]
        grep -q 'as promised' "$T/lost-$signal.out"
        one_line "lost-$signal" ""
        wait_until 10 n_workers_is 0
    done
}

# A connection that the server has accepted is in state 03, under its socket's name.
has_no_client() {
    awk -v path="$VTEST_SOCKET" '$6 == "03" && $8 == path { found = 1 } END { exit found }' /proc/net/unix
}

@test "loss: SIGKILL of apir-render-server ends its clients, and their workers" {
    server
    local server
    bench_job bench
    server=$(render_server)
    ended_by KILL "$server" "$JOB"
    [[ $STATUS -ne 0 ]]
    one_line bench ""
    wait_until 10 gone "$WORKER"
    if [[ $VTEST_TRANSPORT == unix ]]; then
        # Containers have the socket's directory: its next server is reached by the same name.
        wait "$VTEST_PID" || :
        unix_restart "$OUT"
    fi
    # The test server makes a new one for the first client after it had none.
    wait_until 10 n_workers_is 0
    if [[ -n $STAYS ]]; then
        kill "$STAYS"
        wait_until 10 has_no_client
    fi
    remote "$EXERCISE" compute 2>"$T/new.err"
}

@test "loss: SIGSTOP of apir-render-server" {
    server
    local server
    bench_job bench
    server=$(render_server)
    kill -STOP "$server"
    # The worker needs no server to compute, so nothing is lost yet; then the kernel alone can tell.
    ended_by KILL "$WORKER" "$JOB"
    [[ $STATUS -ne 0 ]]
    one_line bench "its worker has ended, and its server does not say why"
}

@test "loss: APIR_ON_LOSS=exit ends the process itself" {
    server
    REMOTE+=("APIR_ON_LOSS=exit")
    remote_job lost "$EXERCISE" lost
    busy_worker
    wait_until 20 grep -q ready "$T/lost.out"
    ended_by KILL "$WORKER" "$JOB"
    # The exercise would end with 0 had it been told.
    [[ $STATUS -eq 1 ]]
    refute grep -q 'lost' "$T/lost.out"
    one_line lost ""
}

# ---- llama-server -----------------------------------------------------------------------

ask() { # PATH JSON [CURL ARGS...]: the answer to stdout, its status code on a last line
    local path=$1 json=$2
    shift 2
    curl --silent --show-error --max-time "$(patience 60)" --unix-socket "$T/llama.sock" \
        --write-out '\n%{http_code}\n' "$@" -H 'Content-Type: application/json' --data "$json" \
        "http://localhost$path"
}

healthy() {
    curl --silent --fail --max-time "$(patience 5)" --unix-socket "$T/llama.sock" http://localhost/health >/dev/null
}

# llama_server: sets SERVER and WORKER; it is ready to answer.
llama_server() {
    local before
    mapfile -t before < <(workers)
    remote_job llama-server llama-server -m "$MODEL" --device APIR0 -ngl 99 -t 1 -c 65536 -np 1 \
        --host "$T/llama.sock" --no-ui
    SERVER=$JOB
    busy_worker "${before[@]}"
    wait_until 90 healthy
}

ENDLESS='"n_predict": 60000, "ignore_eos": true, "temperature": 0, "cache_prompt": false'

ask_job() { # NAME PATH JSON
    ask "$2" "$3" -N >"$T/$1.out" 2>"$T/$1.err" 3>&- &
    ASK=$!
    JOBS_STARTED+=("$ASK")
}

# What became of the server: it lives on and answers every further request with an error (llama.cpp
# of the build root does), or ended by its own decision. Not by a signal: an abort of ggml's takes
# all requests with it, and the program has no say.
server_after_loss() {
    local code status=0
    code=$(ask /completion '{"prompt": "more", "n_predict": 4}' | tail -n 1) || :
    if gone "$SERVER"; then
        wait "$SERVER" || status=$?
        echo "llama-server ended with status $status"
        [[ $status -lt 128 ]]
    else
        echo "llama-server lives on and answers $code"
        [[ $code -ge 500 ]]
        healthy
    fi
}

@test "loss: llama-server answers a request with an HTTP error" {
    server
    llama_server
    [[ $(ask /completion '{"prompt": "a", "n_predict": 4}' | tail -n 1) == 200 ]]
    ask_job ask /completion "{\"prompt\": \"once upon a time\", $ENDLESS}"
    wait_until 30 computes "$WORKER" "$(cpu_ticks "$WORKER")"
    kill -0 "$ASK"
    ended_by KILL "$WORKER" "$ASK"
    tail -c 500 "$T/ask.out"
    # An error that says so, not a cut connection.
    [[ $(tail -n 1 "$T/ask.out") -ge 500 ]]
    jq -e .error <(head -n 1 "$T/ask.out")
    server_after_loss
    # A new program is served at once.
    remote "$EXERCISE" compute 2>"$T/new.err"
}

@test "loss: llama-server ends a stream of chat with an error" {
    server
    llama_server
    ask_job ask /v1/chat/completions \
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}], \"stream\": true, $ENDLESS}"
    # Words arrive already.
    wait_until 30 grep -q '^data:.*delta' "$T/ask.out"
    kill -0 "$ASK"
    ended_by ABRT "$WORKER" "$ASK"
    tail -c 500 "$T/ask.out"
    grep -Eq '^(data|error):.*error' "$T/ask.out"
    server_after_loss
}
