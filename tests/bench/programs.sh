#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# programs.sh COMMAND [OPTION]... [-- ARGUMENT...]: llama.cpp's own programs as a user starts them, processes of their
# own with their defaults, a side after the other in every pair. ARGUMENTs are for the program. A side whose device is
# APIR0 computes there, as the environment says; any other one does not hear of apir, and llama.cpp chooses its device.
#
#   default     llama-bench
#   batched     llama-batched-bench: one sequence, and as many as --slots says
#   start       llama-completion, from its start to its first token
#   server      llama-server with so many slots and as many clients at a time, whose prompts and answers have different
#               lengths, so that its graph changes often; both sides get the same requests
#   state       llama-server's saving and restoring of a slot
#
#   --model FILE, --side NAME=DEVICE (several), --out FILE for samples (docs/bench-method.md), which are appended
#   --case NAME (COMMAND), --pairs N (20), the first of which has the number --first N (0)
#   --pp N, --tg N     tokens of prompt and generation (512, 64)
#   --slots N          of a server, and sequences (8)
#   --requests N       in each turn of a server (24)
#   --answers embeddings   are what a server is asked for; tokens are the prompts' then
#   --server PID       the host's, of the side APIR0: its CPU time and memory, with all below it
#   --seconds S        of rest before each start (3): the host has a spare worker by then
set -euo pipefail
# shellcheck source=tests/lib/patience.bash
. "$(dirname "${BASH_SOURCE[0]}")/../lib/patience.bash"
export LC_ALL=C

command=$1
shift
declare -A o=([case]=$command [pairs]=20 [first]=0 [pp]=512 [tg]=64 [slots]=8 [requests]=24 [seconds]=3)
declare -A device=() pids=()
sides=()
while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
    --side) sides+=("${2%%=*}") device[${2%%=*}]=${2#*=} ;;
    *) o[${1#--}]=$2 ;;
    esac
    shift 2
done
arguments=("${@:2}")
work=$(mktemp -d "${TMPDIR:-/tmp}/programs.XXXXXX") # a path that is short enough for a socket
trap '[[ ${#pids[@]} -eq 0 ]] || kill -KILL "${pids[@]}" 2>/dev/null || :; wait 2>/dev/null; rm -rf "$work"' EXIT

failed() { # SIDE WHY
    tail -n 20 "$work/$1.log" >&2
    echo "programs.sh: $command on $1: $2; the end of its log is above" >&2
    exit 1
}

# In the shell's place, which is one of its own.
on() { # SIDE PROGRAM ARGUMENT...
    local side=$1
    shift
    set -- "$@" ${arguments[@]+"${arguments[@]}"}
    if [[ ${device[$side]} == APIR* ]]; then
        GGML_VK_VISIBLE_DEVICES='' exec "$@" -dev "${device[$side]}" 2>>"$work/$side.log" </dev/null
    else
        unset GGML_BACKEND_PATH APIR_TRANSPORT
        exec "$@" 2>>"$work/$side.log" </dev/null
    fi
}

sample() { # SIDE METRIC PAIR VALUE [UNIT [TOKENS]]: of seconds without a unit
    local value="\"seconds\":$4"
    [[ -z ${5-} ]] || value="\"value\":$4,\"unit\":\"$5\""
    printf '{"case":"%s","side":"%s","metric":"%s","pair":%d%s,%s,"time":"%s"%s}\n' "${o[case]}" "$1" "$2" "$3" \
        "${6:+,\"n\":$6}" "$value" "$(date -u +%FT%TZ)" "${APIR_BENCH_COMMIT:+,\"commit\":\"$APIR_BENCH_COMMIT\"}" >>"${o[out]}"
}

# Each side once in every pair; each pair begins with another one.
in_turns() { # FUNCTION, of a side and a pair's number
    local pair i
    for ((pair = o[first]; pair < o[first] + o[pairs]; pair++)); do
        for ((i = 0; i < ${#sides[@]}; i++)); do
            "$1" "${sides[(pair + i) % ${#sides[@]}]}" "$pair"
        done
    done
}

# ---- llama-bench, llama-batched-bench, llama-completion -------------------------------------

rates() { # SIDE PAIR COUNT JQ-FILTER: [METRIC, TOKENS PER SECOND] for each of so many; all of them, or it fails
    local metric rate
    jq -rs --argjson count "$3" "[$4] | if length == \$count and all(.[]; .[1] > 0) then .[] | join(\" \") else error end" \
        "$work/out" >"$work/rates" 2>/dev/null || failed "$1" "its output has not the rates"
    while read -r metric rate; do
        sample "$1" "$metric" "$2" "$rate" t/s
    done <"$work/rates"
}

turn_default() { # SIDE PAIR
    (on "$1" llama-bench -m "${o[model]}" -p "${o[pp]}" -n "${o[tg]}" -r 3 -o json) >"$work/out" || failed "$1" "it did not end well"
    rates "$1" "$2" 2 '.[][] | [if .n_prompt > 0 then "pp\(.n_prompt)" else "tg\(.n_gen)" end, .avg_ts]'
}

# The program prints from a thread of its own and may end before that has: then it is run again.
turn_batched() { # SIDE PAIR
    local tries
    for ((tries = 0; tries < 10; tries++)); do
        (on "$1" llama-batched-bench -m "${o[model]}" -c $(((o[pp] + o[tg]) * o[slots])) -npp "${o[pp]}" -ntg "${o[tg]}" \
            -npl "1,${o[slots]}" --output-format jsonl) >"$work/printed" || failed "$1" "it did not end well"
        grep -a '^{.*}$' "$work/printed" >"$work/out" || :
        [[ $(wc -l <"$work/out") -eq 2 ]] || continue
        rates "$1" "$2" 4 '.[] | ["pp-\(.pl)", .speed_pp], ["tg-\(.pl)", .speed_tg]'
        return
    done
    failed "$1" "its output ends too early every time"
}

# So many tokens that the first one is out before the program ends; the others are not waited for.
start_once() { # SIDE: sets $took, in microseconds
    local began=${EPOCHREALTIME/./} rc=0 fd
    exec {fd}< <(on "$1" llama-completion -m "${o[model]}" -p 'Hello world' -n 256 --ignore-eos --no-display-prompt \
        -no-cnv --temp 0)
    pids[start]=$!
    read -r -N 1 -u "$fd" _ || rc=1
    took=$((${EPOCHREALTIME/./} - began))
    kill -KILL "${pids[start]}" 2>/dev/null || :
    wait "${pids[start]}" || :
    unset 'pids[start]'
    exec {fd}<&-
    [[ $rc -eq 0 ]] || failed "$1" "it has ended without a token"
}
turn_start() { # SIDE PAIR
    sleep "${o[seconds]}"
    start_once "$1"
    sample "$1" start "$2" "${took}e-6"
}

# ---- llama-server ----------------------------------------------------------------------------

ask() { # SIDE PATH [CURL-ARGUMENT]...
    curl -sS --fail --max-time 300 --unix-socket "$work/$1.sock" "http://bench/$2" "${@:3}" 2>>"$work/$1.log"
}

# Ready when this returns: a server listens before it has loaded the model, and answers 503 then.
servers_start() { # CONTEXT-OF-A-SLOT SLOTS ARGUMENT...
    local side
    for side in "${sides[@]}"; do
        on "$side" llama-server -m "${o[model]}" -np "$2" -c $(($1 * $2)) --host "$work/$side.sock" "${@:3}" >/dev/null &
        pids[$side]=$!
        { wait_until 300 answers_or_ended "$side" && ask "$side" health >/dev/null; } || failed "$side" "it does not get ready"
    done
}
answers_or_ended() { ! kill -0 "${pids[$1]}" 2>/dev/null || ask "$1" health >/dev/null 2>&1; }

# Made-up prompts of a pair, of tokens that every vocabulary has, each in a file: the same on all sides, and others than
# in every other pair, as users seldom repeat one. Prints their tokens' sum.
prompts() { # PAIR COUNT [LENGTH]: without one, of 128 lengths
    awk -v pair="$1" -v count="$2" -v length_="${3-0}" -v file="$work/body" -v embeddings="${o[answers]-}" '
        function next_() { state = (state * 1664525 + 1013904223) % 4294967296; return int(state / 256) }
        BEGIN {
            split("16 256 48 512 32 128 64 192", prompts); split("64 16 96 32 48 24 128 40", answers)
            for (i = 0; i < count; i++) {
                state = (pair + 1) * 1000 + i + 1
                n = length_ ? length_ : prompts[i % 8 + 1] - next_() % 16
                sum += n
                body = "{\"" (embeddings ? "content" : "prompt") "\":[1"
                for (k = 1; k < n; k++) body = body "," 3 + next_() % 997
                body = body "]"
                if (length_) body = body ",\"n_predict\":1,\"id_slot\":0,\"cache_prompt\":true"
                else if (!embeddings) body = body ",\"n_predict\":" answers[i % 8 + 1] ",\"stream\":true,\"ignore_eos\":true,\"temperature\":0"
                print body "}" >(file i)
            }
            print sum
        }'
}

# A process and all below it: nanoseconds of CPU so far, and what they hold in KiB, a page that several map shared
# among them. It wants the right to look at each of them.
usage() { # PID
    local all=("$1") i
    for ((i = 0; i < ${#all[@]}; i++)); do
        # shellcheck disable=SC2207 # numbers
        all+=($(cat "/proc/${all[i]}/task/"*/children 2>/dev/null || :))
    done
    for i in "${all[@]}"; do
        cat "/proc/$i/task/"*/schedstat 2>/dev/null || :
        cat "/proc/$i/smaps_rollup" 2>/dev/null || ! grep -qs '^State:.[^ZX]' "/proc/$i/status" || echo closed
    done | awk 'NF == 3 && /^[0-9 ]+$/ { ns += $1 } $1 == "Pss:" { kib += $2 } /^closed/ { closed = 1 }
        END { if (closed || !kib) { print "programs.sh: run this as the user of those processes, or root" >"/dev/stderr"; exit 1 }
              printf "%.0f %d\n", ns, kib }'
}
usage_sample() { # SIDE WHOSE PAIR TOKENS PID NS-BEFORE
    local ns kib
    usage "$5" >"$work/usage" || exit 1
    read -r ns kib <"$work/usage"
    sample "$1" "cpu-$2" "$3" "$(awk "BEGIN { print ($ns - $6) / 1e6 / $4 }")" ms/token
    sample "$1" "memory-$2" "$3" "$(awk "BEGIN { print $kib / 1024 }")" MiB
}

# As many requests at a time as there are slots.
server_ask() { # SIDE PAIR: sets $tokens; $work/firsts has the seconds to each one's first token, sorted
    local i path=completion
    tokens=$(prompts "$2" "${o[requests]}")
    [[ -z ${o[answers]-} ]] || path=embedding
    for ((i = 0; i < o[requests]; i++)); do
        printf '%s\n' "url = \"http://bench/$path\"" "unix-socket = \"$work/$1.sock\"" "json = \"@$work/body$i\"" \
            "output = \"$work/answer$i\"" 'max-time = 600' 'write-out = "%{http_code}\n"' next
    done | sed '$d' >"$work/requests"
    rm -f "$work"/answer*
    curl -sS -Z --parallel-immediate --parallel-max "${o[slots]}" -K "$work/requests" \
        --trace-ascii "$work/trace" --trace-time --trace-ids >"$work/codes" 2>>"$work/$1.log" || failed "$1" "it does not answer"
    [[ $(grep -c '^200$' "$work/codes") -eq ${o[requests]} ]] || failed "$1" "it refuses requests"
    # TIME [REQUEST-CONNECTION] WHAT: a server sends its header long before the first token.
    awk '$2 ~ /^\[[0-9]+-/ {
            split($1, t, ":"); now = t[1] * 3600 + t[2] * 60 + t[3]
            id = $2; sub(/-.*/, "", id)
            if (!(id in began)) began[id] = now
            if (/ <= Recv data, / && !(id in first)) { first[id] = now; print (now - began[id] + 86400) % 86400 }
        }' "$work/trace" | sort -g >"$work/firsts"
    [[ $(wc -l <"$work/firsts") -eq ${o[requests]} ]] || failed "$1" "its answers have no first token"
    if [[ -n ${o[answers]-} ]]; then
        [[ $(grep -l '"embedding":' "$work"/answer* | wc -l) -eq ${o[requests]} ]] || failed "$1" "no embedding in an answer"
    else
        # The last event of each answer says how many there were.
        [[ $(grep -l '"stop":true' "$work"/answer* | wc -l) -eq ${o[requests]} ]] ||
            failed "$1" "an answer ended before its last token"
        [[ $(grep -l '"tokens_predicted":[1-9]' "$work"/answer* | wc -l) -eq ${o[requests]} ]] ||
            failed "$1" "an answer does not say how many tokens it has"
        tokens=$(sed -n '/"stop":true/s/.*"tokens_predicted":\([0-9]*\).*/\1/p' "$work"/answer* | awk '{ n += $1 } END { print n }')
    fi
}
percentile() { awk -v p="$1" '{ v[NR] = $1 } END { i = NR * p / 100; print v[i == int(i) ? i : int(i) + 1] }' "$work/firsts"; }

turn_server() { # SIDE PAIR
    local client host='' began seconds
    client=$(usage "${pids[$1]}")
    [[ -z ${o[server]-} || ${device[$1]} != APIR* ]] || host=$(usage "${o[server]}")
    began=${EPOCHREALTIME/./}
    server_ask "$1" "$2"
    seconds=$(((${EPOCHREALTIME/./} - began) / 1000))e-3
    sample "$1" server "$2" "$seconds" '' "$tokens"
    sample "$1" first-p50 "$2" "$(percentile 50)"
    sample "$1" first-p99 "$2" "$(percentile 99)"
    usage_sample "$1" client "$2" "$tokens" "${pids[$1]}" "${client% *}"
    [[ -z $host ]] || usage_sample "$1" host "$2" "$tokens" "${o[server]}" "${host% *}"
}

# A prompt in the server's only slot, which is then saved to a file and restored from it.
turn_state() { # SIDE PAIR
    local what seconds
    prompts "$2" 1 "${o[pp]}" >/dev/null
    ask "$1" completion --json "@$work/body0" >/dev/null || failed "$1" "it takes no prompt"
    for what in save restore; do
        seconds=$(ask "$1" "slots/0?action=$what" --json '{"filename":"state"}' -o /dev/null -w '%{time_total}') ||
            failed "$1" "it does not $what"
        [[ $2 -lt 0 ]] || sample "$1" "$what" "$2" "$seconds"
    done
}

case $command in
default | batched) ;;
start) for side in "${sides[@]}"; do start_once "$side"; done ;; # files are read, and shaders compiled
server)
    if [[ -n ${o[answers]-} ]]; then
        servers_start 1024 "${o[slots]}" --embeddings --pooling mean
    else
        servers_start 1024 "${o[slots]}"
    fi
    for side in "${sides[@]}"; do server_ask "$side" -1; done # warm-up
    ;;
state)
    servers_start $((o[pp] + 1024)) 1 --slot-save-path "$work"
    for side in "${sides[@]}"; do turn_state "$side" -1; done
    ;;
*)
    sed -n '/^# programs.sh/,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
in_turns "turn_$command"
