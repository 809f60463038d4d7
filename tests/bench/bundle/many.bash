# SPDX-License-Identifier: Apache-2.0
#
# `./run many`: several programs at once on this machine's first GPU, natively and as classes of apir.
# Sourced by run, whose functions and variables it uses.
# shellcheck shell=bash disable=SC2154
many_rounds=${ROUNDS:-2} many_programs=${PROGRAMS:-8} many_prompts=${PROMPTS:-2}
many_table=${OUT:-$here/results}/many.txt

# ---- sides -------------------------------------------------------------------------

many_pids=()
# One server for each class, whose configuration has KEYS; what ran before ends.
many_classes() { # [NAME KEYS]...
    local pid
    for pid in ${many_pids[@]+"${many_pids[@]}"}; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || :
    done
    many_pids=()
    while [[ $# -gt 0 ]]; do
        printf '{%s, "ggml_backends_dir": "%s", "devices": ["%s"], "shader_seconds": 0, "max_contexts_per_user": 64, "limits_dir": "%s"%s}\n' \
            "\"worker\": \"$here/bin/apir-worker\", \"ggml\": \"$here/lib/libggml.so.0\", \"stock_server\": false" \
            "$many_backends" "$many_device" "$work/limits" "$2" >"$work/$1.json"
        rm -f "$work/$1.sock"
        env XDG_RUNTIME_DIR="$work" APIR_CONFIG="$work/$1.json" nice -n "${SERVER_NICE:-0}" \
            apir-render-server --listen "$work/$1.sock" \
            >>"$log" 2>&1 </dev/null &
        many_pids+=($!)
        servers+=($!)
        wait_for apir-render-server test -S "$work/$1.sock"
        shift 2
    done
}

# Runs CMD on a side: native, or the class of that name, for ten minutes at most. With $many_exec in place of the
# shell, which is how it ends with a job that is killed.
many_at() { # SIDE CMD...
    local side=$1
    shift
    if [[ $side == native* ]]; then
        [[ $side == native ]] || set -- CUDA_MPS_PIPE_DIRECTORY="$work/mps" "$@"
        ${many_exec-} timeout 600 env "${many_native[@]}" "$@"
    else
        ${many_exec-} timeout 600 env GGML_BACKEND_PATH="$here/out/frontend/libggml-apir.so" GGML_VK_VISIBLE_DEVICES= \
            APIR_TRANSPORT="unix:$work/$side.sock" "$@"
    fi
}
many_dev() { # SIDE
    if [[ $1 == native* ]]; then echo "$many_device"; else echo APIR0; fi
}

# NVIDIA's daemon for the side native-mps; starts or ends it.
many_daemon() { # -d | quit
    mkdir -p "$work/mps"
    local daemon=(env CUDA_MPS_PIPE_DIRECTORY="$work/mps" CUDA_MPS_LOG_DIRECTORY="$work/mps" nvidia-cuda-mps-control)
    if [[ $1 == quit ]]; then
        "${daemon[@]}" <<<quit >>"$log" 2>&1
    else
        "${daemon[@]}" "$1" >>"$log" 2>&1
    fi
}

# ---- what they do --------------------------------------------------------------------

# The values of a metric in samples; none: an empty line.
many_values() { # METRIC FILE...
    sed -En 's/.*"metric":"'"$1"'".*"(value|seconds)":([0-9.e+-]*).*/\2/p' "${@:2}" | sort -g
}
many_middle() { awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }

# Until each of the files has TEXT: a driver may compile for minutes at first. All programs of this shell go on
# meanwhile: one that has ended will not write it.
many_wait() { # TEXT FILE...
    local tries running text=$1
    shift
    running=$(jobs -pr | wc -l)
    for ((tries = 0; tries < 3000; tries++)); do
        [[ $(grep -alF "$text" "$@" | wc -l) -lt $# ]] || return 0
        [[ $(jobs -pr | wc -l) -eq $running ]] || return 1
        read -rt 0.1 <> <(:) || :
    done
    return 1
}

# So many generate at once: the sum of their tokens a second.
many_together() { # SIDE PROGRAMS MODEL
    rm -f "$work/raw"
    many_at "$1" "$here/tests/bench/programs.sh" together --model "$models/$3.gguf" --side "$1=$(many_dev "$1")" --processes "$2" \
        --seconds 3 --pairs 2 --out "$work/raw" >>"$log" 2>&1 || return 1
    printf '%.0f' "$(many_values together "$work/raw" | many_middle)"
}

# A chat with 135M beside some that compute prompts of 8B until it has its tokens: its 50th, 90th and 99th
# percentile of the time of a token (with a cache to clear) in ms, and the tokens of the prompts in a second.
many_beside() { # CHAT PROMPTS
    local i pids=() sum chat=$work/tokens
    rm -rf "$work/beside"
    mkdir "$work/beside"
    for ((i = 1; i <= many_prompts; i++)); do
        : >"$work/beside/$i.err"
        many_at "$2" llama-bench -m "$models/8B.gguf" -dev "$(many_dev "$2")" -ngl 99 -fa 1 -p 2048 -n 0 -r 40 \
            --progress -o json >"$work/beside/$i.json" 2>"$work/beside/$i.err" </dev/null &
        pids+=($!)
    done
    if ! many_wait 'prompt run 2/' "$work"/beside/*.err; then
        echo "prompts that do not get on:" >>"$log"
        tail -n 2 "$work"/beside/*.err >>"$log"
        return 1
    fi
    : >"$chat"
    # Only what was measured while both were at it.
    while many_at "$1" llama-bench -m "$models/135M.gguf" -dev "$(many_dev "$1")" -ngl 99 -fa 1 -p 0 -n 1 -r 100 \
        -o json >"$work/tokens.part" 2>>"$log" </dev/null &&
        ! grep -aq 'prompt run 40/' "$work"/beside/*.err; do
        cat "$work/tokens.part" >>"$chat"
    done
    wait "${pids[@]}" || return 1
    sum=$(sed -n 's/.*"avg_ts": \([0-9.]*\).*/\1/p' "$work"/beside/*.json | awk '{ sum += $1 } END { print sum }')
    sed -n '/"samples_ns"/,/\]/p' "$chat" | grep -oE '[0-9]{4,}' | sort -n |
        awk -v prompts="$sum" '
            { v[NR] = $1 / 1e6 }
            END { if (NR < 50) { print "only " NR " tokens while there were prompts" >"/dev/stderr"; exit 1 }
                  printf "%.1f, %.1f, %.1f ms (%d), prompts %.0f", v[int(NR * 0.5)], v[int(NR * 0.9)], v[int(NR * 0.99)], NR, prompts }' 2>>"$log"
}

# So many llama-servers with 1B and two clients each: tokens a second in sum, and the middle of their 50th and
# 99th percentiles of the first token's time.
many_servers() { # SIDE
    local i pids=()
    rm -f "$work"/served*
    for ((i = 0; i < many_programs; i++)); do
        # shellcheck disable=SC2086 # words on purpose
        many_at "$1" "$here/tests/bench/programs.sh" server --model "$models/1B.gguf" --side "$1=$(many_dev "$1")" \
            --slots 2 --requests 16 --pairs 2 --out "$work/served$i" -- -ngl 99 ${SERVER_ARGS-} >>"$log" 2>&1 </dev/null &
        pids+=($!)
    done
    for i in "${pids[@]}"; do
        wait "$i" || return 1
    done
    # Tokens of a pair are n, its seconds the value; all servers do the same work at the same time.
    printf '%.0f, first token p50 %.0f, p99 %.0f ms' \
        "$(sed -En 's/.*"metric":"server".*"n":([0-9.]*).*"seconds":([0-9.e+-]*).*/\1 \2/p' "$work"/served* |
            awk '{ n += $1; s += $2 } END { print n / (s / '"$many_programs"') }')" \
        "$(awk "BEGIN { print 1000 * $(many_values first-p50 "$work"/served* | many_middle) }")" \
        "$(awk "BEGIN { print 1000 * $(many_values first-p99 "$work"/served* | many_middle) }")"
}

# What each of further programs takes of the device's memory beyond the first, in MiB, with 135M at rest.
many_memory() { # SIDE
    local i used=() pids=()
    for ((i = 0; i < 5; i++)); do
        : >"$work/rest$i"
        many_exec="exec" many_at "$1" llama-bench -m "$models/135M.gguf" -dev "$(many_dev "$1")" -ngl 99 -fa 1 -p 0 -n 32 -r 100000 \
            --progress >"$work/rest$i" 2>&1 </dev/null &
        pids+=($!)
        many_wait 'generation run 1/' "$work/rest$i" || return 1
        used+=("$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0)")
    done
    kill "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null || :
    echo $(((used[4] - used[0]) / 4))
}

# ---- the table -------------------------------------------------------------------------

many_left() { [[ $((BUDGET - (SECONDS - began))) -gt ${1:-30} ]]; }

many_row() { # NAME SIDE COMMAND...
    local value rc=0
    [[ "$1 $2" =~ ${ROWS-.} ]] || return 0
    many_left || { echo "$1: no time left (BUDGET)" | tee -a "$many_table"; return 0; }
    value=$("${@:3}") || rc=$?
    [[ $rc -eq 0 ]] || { value="failed; see $log" many_failed=yes; }
    printf '%-7s %-34s %-28s %s\n' "$many_kind" "$1" "$2" "$value" | tee -a "$many_table"
}

many_on() { # KIND DEVICE BACKENDS_DIR ENV...
    local round model half='"context_gpu_percent": 50' group='"mps": "required", "mps_group": "many"'
    many_kind=$1 many_device=$2 many_backends=$3
    many_native=("${@:4}")
    for ((round = 0; round < many_rounds; round++)); do
        local n="$many_programs x"
        many_classes
        for model in 135M 1B 8B; do
            many_row "1 x $model, tokens/s" native many_together native 1 "$model"
        done
        many_row "$n 135M, tokens/s" native many_together native "$many_programs" 135M
        many_row "$n 1B, tokens/s" native many_together native "$many_programs" 1B
        many_row "$n llama-server 1B, tokens/s" native many_servers native
        many_row "135M beside $many_prompts x 8B" native many_beside native native
        many_classes all ''
        many_row "1 x 135M, tokens/s" apir many_together all 1 135M
        many_row "$n 135M, tokens/s" apir many_together all "$many_programs" 135M
        many_row "$n llama-server 1B, tokens/s" apir many_servers all
        many_row "135M beside $many_prompts x 8B" apir many_beside all all
        many_classes chat ', "weight": 1, "latency": true' prompts ', "weight": 1'
        many_row "135M beside $many_prompts x 8B" "apir, latency, 1:1" many_beside chat prompts
        many_classes chat ', "weight": 1, "latency": true' prompts ', "weight": 4'
        many_row "135M beside $many_prompts x 8B" "apir, latency, 1:4" many_beside chat prompts
        [[ $1 == CUDA ]] || continue
        many_classes
        if many_daemon -d; then
            for model in 135M 1B 8B; do
                many_row "1 x $model, tokens/s" "native, MPS" many_together native-mps 1 "$model"
            done
            many_row "$n 135M, tokens/s" "native, MPS" many_together native-mps "$many_programs" 135M
            many_row "$n 1B, tokens/s" "native, MPS" many_together native-mps "$many_programs" 1B
            many_row "$n llama-server 1B, tokens/s" "native, MPS" many_servers native-mps
            many_row "135M beside $many_prompts x 8B" "native, MPS" many_beside native-mps native-mps
            many_daemon quit
        else
            echo "native, MPS: NVIDIA's daemon does not start here; see $log" | tee -a "$many_table"
        fi
        many_classes all ', "mps": "required"'
        for model in 135M 1B 8B; do
            many_row "1 x $model, tokens/s" "apir, MPS" many_together all 1 "$model"
        done
        many_row "$n 135M, tokens/s" "apir, MPS" many_together all "$many_programs" 135M
        many_row "$n 1B, tokens/s" "apir, MPS" many_together all "$many_programs" 1B
        many_row "$n llama-server 1B, tokens/s" "apir, MPS" many_servers all
        many_classes chat ", $group" prompts ", $group, $half"
        many_row "135M beside $many_prompts x 8B" "apir, MPS, theirs 50 %" many_beside chat prompts
    done
    command -v nvidia-smi >/dev/null || return 0
    many_classes
    many_row "memory, each further program, MiB" native many_memory native
    many_classes all ''
    many_row "memory, each further program, MiB" apir many_memory all
    [[ $1 == CUDA ]] || return 0
    many_classes all ', "mps": "required"'
    many_row "memory, each further program, MiB" "apir, MPS" many_memory all
}

many() {
    local gpu size type
    began=$SECONDS BUDGET=${BUDGET:-3600} many_failed=
    models=${MODELS:-$here/models}
    mkdir -p "$models" "$(dirname "$many_table")" "$work/limits" "$work/cuda"
    rm -f "$here/lib/libggml-cuda.so" # of a call that was killed
    log=$(dirname "$many_table")/log.txt
    echo "== $(date -u +%FT%TZ)" >>"$log"
    for size in 135M 1B 8B; do
        type=q4_0
        [[ $size != 135M ]] || type=q8_0
        [[ -e $models/$size.gguf ]] || gguf-write --preset "$size" --type "$type" --output "$models/$size.gguf"
    done
    if [[ -n ${CUDA-} ]]; then
        [[ -r $CUDA ]] || die "CUDA=$CUDA: no such file; it is ggml's CUDA backend, libggml-cuda.so"
        ln -s "$(realpath "$CUDA")" "$work/cuda/libggml-cuda.so"
        ln -s "$here"/lib/libggml-cpu-*.so "$work/cuda"
        # Beside the programs, where ggml finds it by itself.
        ln -sf "$(realpath "$CUDA")" "$here/lib/libggml-cuda.so"
        many_on CUDA CUDA0 "$work/cuda" -u GGML_BACKEND_PATH GGML_VK_VISIBLE_DEVICES=
        rm "$here/lib/libggml-cuda.so"
    fi
    gpu=$(env -u GGML_BACKEND_PATH llama-bench --list-devices 2>>"$log" | grep -oE '^ +Vulkan0: .*' || :)
    if [[ -n $gpu && ! ${KINDS-Vulkan} =~ ^CUDA$ ]]; then
        many_on Vulkan Vulkan0 "$here/lib" -u GGML_BACKEND_PATH
    elif [[ -z ${CUDA-} ]]; then
        die "ggml finds no GPU here; $log says why"
    fi
    many_classes
    echo "many: $((SECONDS - began)) s; the table is in $many_table"
    [[ -z $many_failed ]]
}
