# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# To be sourced by run.sh: llama.cpp's packaged programs with options that move work, once on the host's
# device itself and once on APIR0. What each leaves in a file must be the same byte for byte:
# greedy text, every logit that was kept, sums of activations.
#
# Batches of 16: these programs cannot be told to leave out ggml-blas, which takes over from 32 rows on
# and rounds otherwise.

# name, part or full, program, model, options; @NAME@ stands for the file of another model. With :two the program is on
# two devices of Vulkan, which are lavapipe twice, natively too; with :mixed the host's CPU and lavapipe are two devices,
# where natively there is the CPU alone.
programs=(
    "completion part completion llama-gqa-q4_0"
    "completion-nkvo full completion llama-gqa-q4_0 -nkvo"
    "completion-cache full completion llama-gqa-f16 -fa on -ctk q8_0 -ctv q4_0"
    "completion-fa-off full completion llama-gqa-f16 -fa off"
    "completion-half full completion llama-gqa-f32 -ngl 2"
    "completion-none full completion llama-gqa-f32 -ngl 0 --no-op-offload"
    "completion-sm-none full completion llama-gqa-q8_0 -sm none"
    "completion-ncmoe full completion qwen3moe-f16 -ncmoe 2"
    "completion-cmoe full completion qwen3moe-f16 -cmoe --no-host"
    "completion-ot full completion llama-gqa-f32 -ot ffn_down=CPU"
    "completion-lora part completion llama-gqa-q4_0 --lora-scaled @lora-llama-gqa-q4_0@:0.5"
    "completion-lora-half full completion llama-gqa-f32 --lora @lora-llama-gqa-f32@ -ngl 2"
    "completion-lora-moe full completion qwen3moe-f16 --lora @lora-qwen3moe-f16@"
    "completion-shift full completion llama-gqa-q4_0 -c 64 -n 150 --context-shift --keep 8"
    "completion-sampled full completion llama-gqa-q4_0 --temp 0.9 --seed 7"
    "completion-device-sampler full completion llama-gqa-q4_0 -bs --samplers top_k;temperature --temp 0.9"
    "completion-grammar full completion llama-gqa-q4_0 --grammar-file @grammar@"
    "cli full cli llama-gqa-q4_0"
    "vision part vision llama-gqa-q4_0 --mmproj @vision-llama-gqa-q4_0@ --image @image@"
    "vision-fa-off full vision llama-gqa-f16 --mmproj @vision-llama-gqa-f16@ --image @image@ -fa off"
    "vision-half full vision llama-gqa-f32 --mmproj @vision-llama-gqa-f32@ --image @image@ -ngl 2"
    "vision-on-cpu full vision llama-gqa-q4_0 --mmproj @vision-llama-gqa-q4_0@ --image @image@ --no-mmproj-offload"
    "perplexity part perplexity llama-gqa-q4_0"
    "perplexity-nkvo full perplexity llama-gqa-q4_0 -nkvo"
    "perplexity-cache full perplexity llama-gqa-f16 -fa on -ctk q8_0 -ctv q8_0"
    "perplexity-moe full perplexity qwen3moe-q4_0"
    "perplexity-ncmoe full perplexity qwen3moe-f16 -ncmoe 4"
    "perplexity-half full perplexity llama-gqa-f32 -ngl 2"
    "perplexity-several full perplexity llama-gqa-q4_0 -b 512 -np 4"
    "results full results llama-gqa-q4_0"
    "imatrix part imatrix llama-gqa-f16"
    "imatrix-moe full imatrix qwen3moe-f16"
    "imatrix-half full imatrix llama-gqa-f32 -ngl 2"
    "bench-nkvo part bench llama-gqa-q4_0 -nkvo 1 -fa off,on -ctk f16"
    "bench-cache full bench llama-gqa-f16 -fa on -ctk q8_0,q4_0 -ctv q8_0,iq4_nl"
    "bench-moe full bench qwen3moe-q4_0 -ncmoe 0,2,4 -nopo 0,1"
    "bench-depth full bench llama-gqa-q4_0 -d 0,200 -ngl 0,2,99 --no-host 1"
    "server part server llama-gqa-q4_0"
    "server-nkvo full server llama-gqa-q4_0 -nkvo"
    "server-cache full server llama-gqa-f16 -fa on -ctk q8_0 -ctv q8_0"
    "server-moe full server qwen3moe-q4_0"
    "server-ncmoe full server qwen3moe-f16 -ncmoe 2"
    "server-draft full server llama-gqa-q4_0 --spec-type draft-simple -md @llama-draft-q8_0@"
    "server-lora full server llama-gqa-q4_0 --lora @lora-llama-gqa-q4_0@"
    "completion-split part completion split-llama-gqa-q4_0"
    "server-split full server split-llama-gqa-q8_0"
    "simple full simple llama-gqa-q4_0"
    "embedding full embedding llama-gqa-q4_0"
    "lookup full lookup llama-gqa-q4_0"
    "lookahead full lookahead llama-gqa-q4_0"
    "speculative full speculative llama-gqa-q4_0 -md @llama-draft-q8_0@"
    "speculative-simple full speculative-simple llama-gqa-q4_0 --spec-type draft-simple -md @llama-draft-q8_0@"
    "parallel full parallel llama-gqa-q4_0"
    "finetune full finetune llama-gqa-f32"
    "finetune-sgd full finetune llama-gqa-f32 -opt sgd"
    "groonga full groonga llama-gqa-q4_0"
    "whisper full whisper whisper-model"
    "whisper-no-gpu full whisper whisper-model -ng"
    "whisper-second full whisper whisper-model -dev 1"
    "whisper-two full whisper-two whisper-model"
    "whisper-server full whisper-server whisper-model"
    "whisper-bench full whisper-bench whisper-model"
    "parakeet full parakeet whisper-parakeet"
    "parakeet-no-gpu full parakeet whisper-parakeet -ng"
    "parakeet-second full parakeet whisper-parakeet -dev 1"
    "slots full slots llama-gqa-f16 --step slots"
    "slots-one-cache part slots llama-gqa-q4_0 --step one-cache"
    "slots-moe full slots qwen3moe-q4_0 --step one-cache"
    "embeddings full slots llama-gqa-q4_0 --step tokens"
    "embeddings-mean part slots llama-gqa-f16 --step mean"
    "embeddings-first full slots llama-gqa-f16 --step first"
    "embeddings-last full slots llama-gqa-q4_0 --step last"
    "ranks full slots rank-qwen3-f16 --step ranks"
    "go-back part slots llama-gqa-q4_0 --step go-back"
    "go-back-f16 full slots llama-gqa-f16 --step go-back"
)

# Logits. Where the guest's CPU has a part of the model (ngl, on-cpu), the weights are of a type that no CPU repacks (one
# with AMX does so with f16, but for experts): natively llama.cpp repacks all that it can, and beside a device it leaves
# the CPU's part plain, which rounds otherwise.
experts='\.ffn_(up|down|gate)_exps'
for row in "cache-bf16 full logits llama-gqa-f16 --ctk bf16 --ctv bf16" \
    "cache-q8_0 part logits llama-gqa-f16 --ctk q8_0 --ctv q8_0" \
    "cache-iq4_nl full logits llama-gqa-f16 --ctk iq4_nl --ctv iq4_nl" \
    "cache-half-blocks part logits llama-narrow-f16 --ctk iq4_nl --fa off" \
    "cache-q8_0-fa-off full logits llama-gqa-q4_0 --ctk q8_0 --fa off" \
    "cache-bf16-fa-off full logits llama-gqa-f16 --ctk bf16 --ctv bf16 --fa off" \
    "cache-q8_0-moe full logits qwen3moe-q4_0 --ctk q8_0 --ctv q8_0" \
    "nkvo part logits llama-gqa-q4_0 --nkvo" \
    "nkvo-fa-off full logits llama-gqa-f16 --nkvo --fa off" \
    "nkvo-q8_0 full logits llama-gqa-f16 --nkvo --ctk q8_0 --ctv q8_0" \
    "fa-auto full logits llama-gqa-f16 --fa auto" \
    "ngl-0 full logits llama-gqa-f32 --ngl 0" \
    "ngl-0-nopo full logits llama-gqa-f32 --ngl 0 --nopo" \
    "ngl-half part logits llama-gqa-f32 --ngl 2" \
    "ngl-half-fa-off full logits llama-gqa-f32 --ngl 2 --fa off" \
    "ngl-half-nkvo full logits llama-gqa-f32 --ngl 2 --nkvo" \
    "ngl-half-moe full logits qwen3moe-f32 --ngl 2" \
    "ncmoe-all part logits qwen3moe-f16 --on-cpu $experts" \
    "ncmoe-2 full logits qwen3moe-f16 --on-cpu blk\.[01]$experts" \
    "ncmoe-nopo full logits qwen3moe-f16 --on-cpu $experts --nopo" \
    "ncmoe-nkvo full logits qwen3moe-f16 --on-cpu $experts --nkvo" \
    "ncmoe-cache full logits qwen3moe-f16 --on-cpu $experts --moe-cache 1048576" \
    "on-cpu-ot full logits llama-gqa-f32 --on-cpu blk\.[02]\.ffn" \
    "attention-ot full logits llama-gqa-f32 --on-cpu blk\..*\.attn_(k|v|output)" \
    "norm-ot full logits llama-gqa-f32 --on-cpu _norm" \
    "no-host part logits llama-gqa-q4_0 --no-host" \
    "no-host-half full logits llama-gqa-f32 --no-host --ngl 2" \
    "load-without-map full logits llama-gqa-f16 --load none" \
    "load-mmap-half full logits llama-gqa-f32 --load mmap --ngl 2" \
    "load-direct full logits llama-gqa-q4_0 --load dio" \
    "batch-97-33 full logits llama-gqa-q4_0 --batch 97 --ubatch 33" \
    "batch-31-7 full logits llama-gqa-f16 --batch 31 --ubatch 7" \
    "batch-1 full logits llama-gqa-f16 --batch 1 --ubatch 1" \
    "batch-whole-fa-off full logits llama-gqa-f16 --fa off" \
    "batch-97-33-moe full logits qwen3moe-q4_0 --batch 97 --ubatch 33" \
    "two part logits:two llama-gqa-q4_0" \
    "two-fa-off full logits:two llama-gqa-f16 --fa off" \
    "two-moe full logits:two qwen3moe-q4_0" \
    "two-nkvo full logits:two llama-gqa-f16 --nkvo" \
    "two-half full logits:two llama-gqa-f32 --ngl 2" \
    "two-batch full logits:two llama-gqa-q4_0 --batch 97 --ubatch 33" \
    "two-none-split full logits:two llama-gqa-f16 --split none" \
    "two-tensor full logits:two llama-gqa-f16 --split tensor" \
    "mixed full logits:mixed llama-gqa-f16"; do
    read -r name in_part kind model rest <<<"$row"
    programs+=("$name $in_part $kind $model --prompt-tokens 150 --ubatch 64 --gen 130 $rest")
done

# Those of --parity: every query head with a key head of its own, grouped, with biases, with norms on query and key,
# experts. More prompt than one batch holds, so that the cache grows within it too. Past 256 positions its views grow:
# the graph is patched on the host.
parity=(
    "135M-q4_0 part logits 135M-q4_0 --prompt-tokens 64 --gen 48"
    "llama-gqa-q8_0-growing part logits llama-gqa-q8_0 --prompt-tokens 200 --gen 140"
)
for model in {llama-mha,llama-gqa,qwen2,qwen3,qwen3moe}-{q4_0,q8_0,f16}; do
    for fa in on off; do
        parity+=("$model-fa-$fa part logits $model --fa $fa --prompt-tokens 96 --ubatch 64 --gen 48 --chunks")
    done
done

text='The lighthouse keeper wrote down three things each evening: the height of the water, the direction of
the wind, and the number of ships he had seen. The first two were asked of him by the harbour office. The
third was his own idea, and after thirty years it filled eleven books. When the office sent a young engineer
to measure the rock for a new lamp, she asked to see them. In winter there were few ships, in spring more, in
summer so many that he had drawn them as small strokes in groups of five.'

# One run of a program. `common` is what all of them take, but for bench; a draft model is alike.
program_side() { # KIND SIDE DEVICE MODEL ARGS...
    local common=(--device "$3" -m "$4" -ngl 99 -t 1 -tb 1 -b 64 -ub 16 -fit off -c 1024 --seed 1 --temp 0)
    "program_$1" "${@:2}"
}

# Each of the following runs one program; its result is what it leaves in "$work/SIDE.result": a file that it
# writes, answers to requests, or the whole of what it prints.

# program_prints SIDE err|result WORDS COMMAND...: what it prints becomes the result. Programs of llama.cpp print by
# a thread that they do not wait for at their end, so on a busy machine the last words may be missing, natively too.
# All is there if what they print last of all is: WORDS, in what they say ("err") or in the result itself. Else again.
program_prints() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        program_run "$1" "${@:4}" >"$work/$1.result" || return
        ! grep -q -- "$3" "$work/$1.$2" || return 0
    done
    echo "its last words never came: $3" >>"$work/$1.err"
    return 1
}

program_completion() { # SIDE DEVICE MODEL ARGS...
    program_prints "$1" err 'graph reallocs' llama-completion "${common[@]}" --no-warmup -no-cnv --simple-io \
        --no-display-prompt --ignore-eos -p "${text:0:200}" -n 64 "${@:4}"
}

# Every logit of a prompt, of what is generated after it, and of full chunks, as perplexity is made of.
program_logits() {
    program_run "$1" "$out/tests/native/options/logits" --model "$3" --device "${2/#none/CPU}" --out "$work/$1.result" "${@:4}" \
        >"$work/$1.txt"
}

# What a server asks of a model: sequences in common batches, embeddings.
program_slots() {
    program_run "$1" "$out/tests/native/archs/slots" --model "$3" --device "${2/#none/CPU}" --out "$work/$1.result" "${@:4}" \
        >"$work/$1.txt"
}

program_cli() {
    program_prints "$1" result '^Exiting' llama-cli "${common[@]}" --no-warmup -st --simple-io -p "${text:0:100}" \
        -n 64 "${@:4}" || return
    # It prints its speed too.
    sed -i '/ t\/s /d' "$work/$1.result"
}

# An image, encoded on the device as well, and what the model says about it.
program_vision() {
    program_prints "$1" err 'graph reallocs' llama-mtmd-cli "${common[@]}" -v --no-warmup --ignore-eos \
        --chat-template vicuna -p "What is in this image?" -n 48 "${@:4}" || return
    [[ $1 == native || " $* " == *" --no-mmproj-offload "* ]] ||
        grep -q 'CLIP using APIR0' "$work/$1.err" || { echo "the image was not encoded on APIR0" >>"$work/$1.err"; return 1; }
}

program_perplexity() {
    printf '%s %s %s' "$text" "$text" "$text" >"$work/text"
    program_run "$1" llama-perplexity "${common[@]}" --no-warmup -f "$work/text" -c 128 \
        --save-all-logits "$work/$1.result" "${@:4}" >"$work/$1.txt"
}

program_results() {
    program_run "$1" llama-results "${common[@]}" -b 512 -p "${text:0:300}" -o "$work/$1.result" "${@:4}" >"$work/$1.txt"
}

program_imatrix() {
    printf '%s %s' "$text" "$text" >"$work/text"
    program_run "$1" llama-imatrix "${common[@]}" -f "$work/text" -c 128 -o "$work/$1.result" "${@:4}" >"$work/$1.txt"
}

# Programs of packages that only `make check-options` takes (tests/env/packages.d/check-options).
program_is_extra() { # PROGRAM
    case $1 in
    simple | embedding | look* | speculative* | parallel | finetune | groonga | whisper* | parakeet) return 0 ;;
    *) return 1 ;;
    esac
}

# It takes the devices that there are. As few words as ggml-blas leaves to the CPU.
program_simple() {
    program_run "$1" llama-simple -m "$3" -ngl 99 -n 48 "${@:4}" "${text:0:24}" >"$work/$1.result"
}

program_embedding() {
    program_prints "$1" result '^}' llama-embedding "${common[@]}" --pooling mean --embd-output-format json \
        -p "${text:0:200}" "${@:4}"
}

# Those of llama.cpp's examples that say last how the time went.
program_example() { # NAME SIDE DEVICE MODEL ARGS...
    program_prints "$2" err 'graph reallocs' "llama-$1" "${common[@]}" -b 512 --ignore-eos -p "${text:0:60}" -n 48 \
        "${@:5}"
}
program_lookup() { program_example lookup "$@"; }
program_lookahead() { program_example lookahead "$@"; }
program_speculative() { program_example speculative "$@"; }
program_speculative-simple() { program_example speculative-simple "$@"; }

# What it says is for people, with times in it: each answer is a line.
program_parallel() {
    program_prints "$1" err 'Cache misses' llama-parallel "${common[@]}" -c 8192 -np 4 -ns 8 --ignore-eos \
        -p "${text:0:60}" -n 24 "${@:4}" || return
    grep -o 'Response: .*' "$work/$1.err" >"$work/$1.result"
}

# The model that it has trained. Natively ggml-blas would make the products of the way back, in any batch.
# All layers: with some of them on a device, natively on Vulkan too, llama.cpp learns something else.
program_finetune() {
    printf '%s %s' "$text" "$text" >"$work/text"
    program_run "$1" tests/native/archs/without-blas.sh llama-finetune "${common[@]}" -c 64 -b 64 -ub 64 -epochs 1 -f "$work/text" \
        -o "$work/$1.result" "${@:4}" >"$work/$1.txt"
}

# The vectors of language_model_vectorize(); groonga.c says what is preloaded.
program_groonga() {
    local at=$work/$1-groonga
    rm -rf "$at" && mkdir -p "$at/models" && ln -s "$(realpath "$3")" "$at/models/model.gguf" || return
    printf '%s\n' 'plugin_register functions/language_model' 'table_create Texts TABLE_NO_KEY' \
        'column_create Texts text COLUMN_SCALAR ShortText' 'load --table Texts' \
        "[{\"text\": \"${text:0:24}\"}, {\"text\": \"${text:60:26}\"}]" \
        'select Texts --output_columns "text, language_model_vectorize(\"model\", text)"' >"$at/commands"
    program_run "$1" env LD_PRELOAD="$out/tests/native/options/groonga.so" GRN_LANGUAGE_MODELS_DIR="$at/models" \
        groonga --log-path "$at/log" --log-level info --file "$at/commands" -n "$at/db" >"$at/out" || return
    [[ $1 == native ]] || grep -q 'using device APIR0 ' "$at/log" ||
        { echo 'it was not on APIR0' >>"$work/$1.err" && return 1; }
    # Without the times; a vector has as many numbers as the model is wide.
    tail -n 1 "$at/out" | jq -e '.[1][0][2:] | if length == 2 and all(.[]; .[1] | length == 256) then . else empty end' \
        >"$work/$1.result"
}

# whisper_run SIDE MODEL RESULT ARGS...: the words that it hears are in RESULT.txt; ggml-blas, which rounds
# otherwise, has a part in what a CPU hears.
whisper_run() {
    program_run "$1" whisper-cli -m "$2" -f "$(model_file whisper-sound)" -t 1 -bo 1 -bs 1 -nf -nt -otxt -of "$3" \
        "${@:4}" >"$work/$1.txt"
}
# APIR0 is the only device that there is for it; -ng and -dev 1 leave it the CPU.
whisper_on() { # SIDE ARGS...
    local want='using APIR0 backend'
    [[ " $* " != *" -ng "* && " $* " != *" -dev 1 "* ]] || want='no GPU found'
    [[ $1 == native ]] || grep -q -- "$want" "$work/$1.err" ||
        { echo "it did not say: $want" >>"$work/$1.err" && return 1; }
}
program_whisper() {
    whisper_run "$1" "$3" "$work/$1" "${@:4}" || return
    whisper_on "$1" "${@:4}" && mv "$work/$1.txt" "$work/$1.result"
}

program_parakeet() {
    program_run "$1" tests/native/archs/without-blas.sh parakeet-cli -m "$3" -f "$(model_file whisper-sound)" -t 1 -otxt \
        -of "$work/$1-parakeet" "${@:4}" >"$work/$1.txt" || return
    whisper_on "$1" "${@:4}" && mv "$work/$1-parakeet.txt" "$work/$1.result"
}

# Both at once, each with words of its own.
program_whisper-two() {
    local first rc=0
    whisper_run "$1" "$3" "$work/$1-first" "${@:4}" &
    first=$!
    whisper_run "$1" "$3" "$work/$1-second" "${@:4}" || rc=1
    wait "$first" || rc=1
    cat "$work/$1-first.txt" "$work/$1-second.txt" >"$work/$1.result" || rc=1
    return "$rc"
}

program_whisper-server() {
    local port=$((20000 + RANDOM % 20000)) server rc=0
    program_run "$1" whisper-server -m "$3" -t 1 -bo 1 -bs 1 -nf -nt --port "$port" "${@:4}" >"$work/$1.txt" &
    server=$!
    wait_until 60 whisper_ready "$port" "$server" || :
    curl -sf --max-time "$limit" -F "file=@$(model_file whisper-sound)" -F response_format=text -F temperature=0 -F temperature_inc=0 \
        "http://127.0.0.1:$port/inference" -o "$work/$1.result" || rc=1
    kill "$(pgrep -P "$server")" 2>/dev/null || :
    wait "$server" || :
    [[ $rc -ne 0 ]] || whisper_on "$1" "${@:4}"
}
whisper_ready() { # PORT PID
    curl -sf "http://127.0.0.1:$1/" >/dev/null || ! kill -0 "$2" 2>/dev/null
}

# Its speeds cannot be equal: only that it has measured each part.
program_whisper-bench() {
    program_run "$1" whisper-bench -m "$3" -t 1 "${@:4}" >"$work/$1.txt" || return
    whisper_on "$1" "${@:4}" && grep -oE '(encode|decode|batchd|prompt) time' "$work/$1.err" >"$work/$1.result"
}

# Its speeds cannot be equal: only that each of its tests ran.
program_bench() {
    program_run "$1" llama-bench --device "$2" -m "$3" -t 1 -b 64 -ub 16 -p 40 -n 6 -r 1 -o jsonl "${@:4}" |
        jq -c 'select(.avg_ts > 0) | [.n_prompt, .n_gen, .n_depth, .type_k, .type_v, .no_kv_offload, .n_cpu_moe]' \
            >"$work/$1.result"
}

# More requests than slots, at once and of different lengths, so that batches hold several sequences. (Not
# with one cache for all: where a sequence lies in it depends on who came first, and so does the rounding. On
# lavapipe, where the kernel hangs on how many tokens a batch has, one request after the other.)
program_server() {
    local socket=$work/$1.sock server rc=0 ended=0 i
    program_run "$1" llama-server "${common[@]}" --no-warmup --host "$socket" -np 8 -cb --no-webui -c 4096 "${@:4}" \
        >"$work/$1.txt" &
    server=$!
    wait_until 60 healthy_or_ended "$socket" "$server" || :
    for ((i = 0; i < 16; i++)); do
        jq -nc --arg prompt "${text:0:$((30 + 23 * i))}" --argjson n "$((8 + 5 * (i % 4)))" \
            '{prompt: $prompt, n_predict: $n, temperature: 0, ignore_eos: true, cache_prompt: false}' >"$work/request.$i"
    done
    seq 0 15 | xargs -P "$requests" -I '{}' curl -sf --max-time "$limit" --unix-socket "$socket" -H 'Content-Type: application/json' \
        --data-binary "@$work/request.{}" -o "$work/answer.{}" http://server/completion || rc=1
    kill "$(pgrep -P "$server")" 2>/dev/null || :
    wait "$server" || ended=$?
    for ((i = 0; rc == 0 && i < 16; i++)); do
        jq -r .content "$work/answer.$i" || rc=1
    done >"$work/$1.result"
    echo "it ended with $ended" >>"$work/$1.result"
    rm -f "$work"/answer.* "$work"/request.*
    return "$rc"
}

# program_run SIDE COMMAND...: with the side's environment and a limit of time. (--foreground: a signal that
# is sent on comes once; the server takes a second one for impatience.)
program_run() {
    local side=$1 env=("${native_env[@]}") command
    command_of "$1" "$2"
    shift 2
    [[ $side == native || -n $twice ]] || env=("${remoted_env[@]}")
    timeout --foreground -k 5 "$limit" env "${env[@]}" "${command[@]}" "$@" 2>"$work/$side.err" </dev/null
}

program_row() { # NAME PROGRAM MODEL ARGS...
    local name=$1 kind=${2%:*} model args=() arg detail ok=no native_device=$native remoted_device=APIR0
    local native_env=("${native_env[@]}") allowed=(${tolerance[@]+"${tolerance[@]}"}) served=$members
    model=$(model_file "$3")
    for arg in "${@:4}"; do
        if [[ $arg == *@*@* ]]; then
            arg=${arg%%@*}$(model_file "$(cut -d @ -f 2 <<<"$arg")")${arg##*@}
        fi
        args+=("$arg")
    done
    [[ $native != CPU ]] || native_device=none
    case $2 in
    *:two) # the same device twice, which ggml-vulkan takes for two
        native_device=Vulkan0,Vulkan1 remoted_device=APIR0,APIR1 served=', "devices": ["Vulkan0", "Vulkan1"]'
        native_env=("${vulkan[@]}" "GGML_VK_VISIBLE_DEVICES=0,0") allowed=("${some_tolerance[@]}")
        ;;
    *:mixed)
        native_device=CPU remoted_device=APIR0,APIR1 served=', "devices": ["CPU", "Vulkan0"]'
        native_env=("${vulkan[@]}") allowed=("${some_tolerance[@]}")
        ;;
    esac
    [[ -z $twice ]] || remoted_device=$native_device
    rm -rf "$work"/native* "$work"/remoted*
    [[ -n $twice ]] || serve "$served"
    if ! program_side "$kind" native "$native_device" "$model" ${args[@]+"${args[@]}"}; then
        detail="the native run failed: $(why native)"
    elif [[ ! -s $work/native.result ]]; then
        detail="the native run gave nothing: $(why native)"
    elif ! program_side "$kind" remoted "$remoted_device" "$model" ${args[@]+"${args[@]}"}; then
        detail="the remoted run failed: $(why remoted)"
    elif [[ $kind == logits || $kind == slots ]]; then
        ! detail=$("$out/tests/native/options/options-compare" ${allowed[@]+"${allowed[@]}"} "$work/native.result" \
            "$work/remoted.result" 2>&1) || ok=yes
    elif ! cmp -s "$work/native.result" "$work/remoted.result"; then
        detail="other results: $(cmp "$work/native.result" "$work/remoted.result" 2>&1 || :)"
        cp "$work/native.result" "$logs/$name.native"
        cp "$work/remoted.result" "$logs/$name.remoted"
    else
        ok=yes detail="$(wc -c <"$work/native.result") bytes the same"
    fi
    [[ $ok == yes ]] || keep_log "$name"
    verdict "$ok" "$name" "$detail"
}
