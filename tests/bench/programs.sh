#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# programs.sh COMMAND [OPTION]... [-- ARGUMENT...]: llama.cpp's own programs as a user starts them, processes of their
# own with their defaults, a side after the other in every pair. ARGUMENTs are for the program. A side whose device is
# APIR0 computes there, as the environment says; any other one does not hear of apir. CPU: llama.cpp chooses its device;
# rpc:HOST:PORT: that of a ggml-rpc-server.
#
#   default     llama-bench
#   batched     llama-batched-bench: one sequence, and as many as --slots says
#   start       llama-completion, from its start to its first token
#   load        what of that is model and context, as its log says
#   together    so many llama-bench that generate at the same time: their tokens per second in sum
#   server      llama-server with so many slots and as many clients at a time, whose prompts and answers have different
#               lengths, so that its graph changes often; both sides get the same requests
#   state       llama-server's saving and restoring of a slot
#   idle        CPU time of a llama-server that has answered, and rests; no pairs
#   memory      of llama-bench, and of the host's server and worker, after each tenth of many tokens; no pairs
#
#   --model FILE, --side NAME=DEVICE (several), --out FILE for samples (docs/bench-method.md), which are appended
#   --case NAME (COMMAND), --pairs N (20), the first of which has the number --first N (0); none begins after --limit S
#   --pp N, --tg N     tokens of prompt and generation (512, 64); 0: none
#   --repeat N         llama-bench's -r (3), whose middle one counts
#   --cold yes         a file that is loaded is not in the page cache
#   --backend FILE     ggml's, loaded by all sides but APIR0's
#   --slots N          of a server, and sequences (8)
#   --requests N       in each turn of a server (24)
#   --answers embeddings   are what a server is asked for; tokens are the prompts' then
#   --processes N      at the same time (4)
#   --tokens N         of `memory` (100000), a multiple of 5000
#   --server PID       the host's, of the side APIR0: its CPU time and memory, with all below it
#   --host-cpu CMD     prints its CPU time in nanoseconds, for `idle` on another machine
#   --seconds S        of rest before each start (3): the host has a spare worker by then; of each turn of `together`;
#                      of rest that `idle` measures
set -euo pipefail
# shellcheck source=tests/lib/patience.bash
. "$(dirname "${BASH_SOURCE[0]}")/../lib/patience.bash"
export LC_ALL=C

command=$1
shift
declare -A o=([case]=$command [pairs]=20 [first]=0 [limit]=1000000 [pp]=512 [tg]=64 [repeat]=3 [slots]=8 [requests]=24
    [processes]=4 [tokens]=100000 [seconds]=3)
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

any_ended() { # PID...
    local pid
    for pid; do kill -0 "$pid" 2>/dev/null || return 0; done
    return 1
}

# In the shell's place, which is one of its own.
on() { # SIDE PROGRAM ARGUMENT...
    local side=$1 to=()
    shift
    case ${device[$side]} in
    APIR*) to=(-dev "${device[$side]}") ;;
    rpc:*) to=(--rpc "${device[$side]#rpc:}" -dev RPC0) ;;
    CPU) ;;
    *) to=(-dev "${device[$side]}") ;;
    esac
    if [[ ${device[$side]} == APIR* ]]; then
        export GGML_VK_VISIBLE_DEVICES=
    else
        unset GGML_BACKEND_PATH APIR_TRANSPORT
        [[ -z ${o[backend]-} ]] || export GGML_BACKEND_PATH=${o[backend]}
    fi
    exec "$@" ${arguments[@]+"${arguments[@]}"} ${to[@]+"${to[@]}"} 2>>"$work/$side.log" </dev/null
}

sample() { # SIDE METRIC PAIR VALUE [UNIT [TOKENS]]: of seconds without a unit; PAIR may be empty
    local value="\"seconds\":$4"
    [[ -z ${5-} ]] || value="\"value\":$4,\"unit\":\"$5\""
    printf '{"case":"%s","side":"%s","metric":"%s"%s%s,%s,"time":"%s"%s}\n' "${o[case]}" "$1" "$2" "${3:+,\"pair\":$3}" \
        "${6:+,\"n\":$6}" "$value" "$(date -u +%FT%TZ)" "${APIR_BENCH_COMMIT:+,\"commit\":\"$APIR_BENCH_COMMIT\"}" >>"${o[out]}"
}

# Each side once in every pair; each pair begins with another one.
in_turns() { # FUNCTION, of a side and a pair's number
    local pair i
    for ((pair = o[first]; pair < o[first] + o[pairs] && SECONDS < o[limit]; pair++)); do
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
    (on "$1" llama-bench -m "${o[model]}" -p "${o[pp]}" -n "${o[tg]}" -r "${o[repeat]}" -o json) >"$work/out" ||
        failed "$1" "it did not end well"
    rates "$1" "$2" $(((o[pp] > 0) + (o[tg] > 0))) '.[][] | [if .n_prompt > 0 then "pp\(.n_prompt)" else "tg\(.n_gen)" end,
        (.samples_ts | sort | .[(length - 1) / 2 | floor])]'
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

# From the line before the model is loaded to that after its context is there: minutes, seconds, milliseconds,
# microseconds since the start. What it prints last it may not print at all, so it is ended while it generates.
turn_load() { # SIDE PAIR
    local seconds
    # Pages that a process has mapped would stay.
    [[ -z ${o[cold]-} ]] || dd of="${o[model]}" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    : >"$work/$1.log"
    on "$1" llama-completion -m "${o[model]}" -p 'Hello world' -n 100000 --ignore-eos -no-cnv --no-warmup >/dev/null &
    pids[load]=$!
    wait_until 300 loaded_or_ended "$1" || failed "$1" "it does not load"
    seconds=$(awk 'function at(text, t) { split(text, t, "."); return t[1] * 60 + t[2] + t[3] / 1e3 + t[4] / 1e6 }
        /: load the model/ { began = $1 } /: llama threadpool init/ { ended = $1 }
        END { if (!began || !ended) exit 1; print at(ended) - at(began) }' "$work/$1.log") || failed "$1" "it does not load"
    kill -KILL "${pids[load]}"
    wait "${pids[load]}" 2>/dev/null || :
    unset 'pids[load]'
    [[ $2 -lt 0 ]] || sample "$1" "load${o[cold]:+-cold}" "$2" "$seconds"
}
loaded_or_ended() { grep -aqs ': llama threadpool init' "$work/$1.log" || any_ended "${pids[load]}"; }

# What counts begins when all have computed twice, and a run is so short that it does not matter where it is cut.
turn_together() { # SIDE PAIR
    local i before began rate tg=8 jobs=()
    : >"$work/$1.log"
    for ((i = 0; i < o[processes]; i++)); do
        on "$1" llama-bench -m "${o[model]}" -p 0 -n "$tg" -r 1000000 --progress >/dev/null &
        pids[together$i]=$!
        jobs+=("$!")
    done
    { wait_until 300 all_generate_or_ended "$1" && ! any_ended "${jobs[@]}"; } || failed "$1" "not all of them generate"
    before=$(runs "$1") began=${EPOCHREALTIME/./}
    sleep "${o[seconds]}"
    rate=$(awk "BEGIN { print ($(runs "$1") - $before) * $tg * 1e6 / (${EPOCHREALTIME/./} - $began) }")
    ! any_ended "${jobs[@]}" || failed "$1" "one of them has ended"
    sample "$1" together "$2" "$rate" t/s
    kill -KILL "${jobs[@]}"
    wait "${jobs[@]}" 2>/dev/null || :
    for ((i = 0; i < o[processes]; i++)); do unset "pids[together$i]"; done
}
runs() { grep -ac 'generation run' "$work/$1.log" || :; } # SIDE
all_generate_or_ended() {
    [[ $(grep -ac 'generation run 2/' "$work/$1.log") -eq ${o[processes]} ]] || any_ended "${jobs[@]}"
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
answers_or_ended() { any_ended "${pids[$1]}" || ask "$1" health >/dev/null 2>&1; }

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

# A process and all below it.
tree() { # PID: sets $all
    local i
    all=("$1")
    for ((i = 0; i < ${#all[@]}; i++)); do
        # shellcheck disable=SC2207 # numbers
        all+=($(cat "/proc/${all[i]}/task/"*/children 2>/dev/null || :))
    done
}
# Of these, nanoseconds of CPU so far, and what they hold in KiB, a page that several map shared among them. It wants
# the right to look at each of them.
usage() { # PID
    local all i
    tree "$1"
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

# That it answers afterwards says that nobody who slept so well is dead.
turn_idle() { # SIDE
    local before after began host=
    [[ ${device[$1]} != APIR* ]] || host=${o[server]-}
    prompts 0 1 32 >/dev/null
    ask "$1" completion --json "@$work/body0" >/dev/null || failed "$1" "it takes no prompt"
    sleep 2 # both sides look for work for a while before they sleep
    before=$(cpu_of "${pids[$1]}" ${host:+"$host"}) began=${EPOCHREALTIME/./}
    sleep "${o[seconds]}"
    after=$(cpu_of "${pids[$1]}" ${host:+"$host"})
    sample "$1" idle '' "$(awk "BEGIN { print ($after - $before) / 1e3 / (${EPOCHREALTIME/./} - $began) }")" core
    ask "$1" completion --json "@$work/body0" >/dev/null || failed "$1" "it does not answer any more"
}
cpu_of() { # PID...: nanoseconds
    local pid
    { for pid; do usage "$pid" || exit 1; done && ${o[host-cpu]-}; } | awk '{ ns += $1 } END { printf "%.0f", ns }'
}

# ---- memory ------------------------------------------------------------------------------------

# Resident, all of a page for each who maps it.
rss_sample() { # SIDE WHOSE STEP TOKENS PID...
    local kib
    kib=$(for pid in "${@:5}"; do cat "/proc/$pid/smaps_rollup"; done | awk '$1 == "Rss:" { n += $2 } END { print n }')
    [[ -n $kib ]] || failed "$1" "nobody to look at"
    sample "$1" "memory-$2" "$3" "$(awk "BEGIN { print $kib / 1024 }")" MiB "${4#0}"
}
gets_on_or_ended() { grep -aq "generation run $2/" "$work/$1.log" || any_ended "${pids[memory]}"; } # SIDE RUN
turn_memory() { # SIDE
    local step tokens runs=$((o[tokens] / 500)) all pid workers servers
    : >"$work/$1.log"
    on "$1" llama-bench -m "${o[model]}" -p 0 -n 500 -r 1000000 --progress >/dev/null &
    pids[memory]=$!
    for ((step = 0; step <= 10; step++)); do
        { wait_until 600 gets_on_or_ended "$1" "$((runs * step / 10 + 1))" && ! any_ended "${pids[memory]}"; } ||
            failed "$1" "it does not get on"
        tokens=$((step * o[tokens] / 10))
        rss_sample "$1" process "$step" "$tokens" "${pids[memory]}"
        [[ ${device[$1]} == APIR* ]] || continue
        workers=() servers=()
        tree "${o[server]}"
        for pid in "${all[@]}"; do
            if [[ $(<"/proc/$pid/comm") == apir-worker ]]; then workers+=("$pid"); else servers+=("$pid"); fi
        done
        [[ ${#workers[@]} -eq 1 ]] || failed "$1" "${#workers[@]} workers below ${o[server]}, where there should be one"
        rss_sample "$1" worker "$step" "$tokens" "${workers[@]}"
        rss_sample "$1" servers "$step" "$tokens" "${servers[@]}"
    done
    kill -KILL "${pids[memory]}"
    wait "${pids[memory]}" 2>/dev/null || :
    unset 'pids[memory]'
}

case $command in
default | batched | together) ;;
memory)
    for side in "${sides[@]}"; do turn_memory "$side"; done
    exit 0
    ;;
idle)
    servers_start 1024 1
    for side in "${sides[@]}"; do turn_idle "$side"; done
    exit 0
    ;;
start) for side in "${sides[@]}"; do start_once "$side"; done ;; # files are read, and shaders compiled
load) for side in "${sides[@]}"; do turn_load "$side" -1; done ;; # likewise
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
