# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# Many small models by llama-server's router: a program, and so a worker of ours, for each that is loaded.

SERVER=http://127.0.0.1:8080
answers() { curl -sf -o /dev/null "$SERVER/health"; }

# serves: the router, until the row's end; the command, an exec, is the standard input. Sets $before, the
# workers there are: the router has one, too, for it asks what devices there are.
serves() {
    setsid bash -s <&0 >"$work/router.log" 2>&1 &
    at_end "kill -TERM -- -$!; wait $!; cat $work/router.log"
    wait_for answers
    before=$(worker_count)
}

# asked MODEL: what it says is what the same model says natively.
asked() {
    local text
    prepare_native "/models/$1.gguf" 12 >"$work/native.$1"
    text=$(
        bash -e -s <<END | tee /dev/stderr | jq -r .content
curl -sS --max-time 60 -d '{"model": "$1", "prompt": "$PREPARE_PROMPT", "n_predict": 12, "temperature": 0, "seed": 1}' http://127.0.0.1:8080/completion
END
    )
    [[ -n $text && $text == "$(<"$work/native.$1")" ]] || die "$1 says: $text; natively: $(<"$work/native.$1")"
}

# loaded MODEL...: these, and no others.
loaded() {
    [[ $(curl -sS "$SERVER/models" | jq -r '.data[] | select(.status.value == "loaded").id' | sort | paste -sd ' ') == "$*" ]]
}

row router host 'two models by one router: each answers as natively, each in a worker of its own; one is unloaded'
row_router() {
    local before
    serves <<'END'
exec apir run --device host0 -- llama-server --models-dir /models --models-max 2 --port 8080 -dev APIR0 -ngl 99 -c 512 \
    -np 1 -b 16 -ub 16 -t 1 -tb 1 --no-warmup
END
    asked first
    asked second
    loaded first second || die 'not both are loaded'
    workers_are $((before + 2)) || die "$(worker_count) workers, and $before before"
    curl -sS --max-time 60 -d '{"model": "first"}' http://127.0.0.1:8080/models/unload
    wait_for loaded second
    wait_for workers_are $((before + 1))
    asked second
    asked first
}

row router-max host '--models-max 1: the second model takes the place of the first'
row_router_max() {
    local before
    serves <<'END'
exec apir run --device host0 -- llama-server --models-dir /models --models-max 1 --port 8080 -dev APIR0 -ngl 99 -c 512 \
    -np 1 -b 16 -ub 16 -t 1 -tb 1 --no-warmup
END
    asked first
    asked second
    loaded second || die 'not the second alone is loaded'
    wait_for workers_are $((before + 1))
}
