# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # prepare.sh and the rows share variables
#
# What the images run, the same on this machine's CPU (prepare.sh) and in a container (rows/). To be sourced.
#
#   server NAME IMAGE ENTRY ARGS    a server; the row asks it as prepare.sh has asked it. Without ENTRY it is the
#                                   image's own
#   program NAME IMAGE LINE         a line for sh whose standard output is the result
#
# Batches of 16 and one thread, as in tests/vm/check-prepare.sh. /models and /more are folders with models.

IMAGES=(app fedora ollama localai python whisper)
declare -A server_image server_entry server_args program_image program_line

server() { server_image[$1]=$2 server_entry[$1]=$3 server_args[$1]=$4; }
program() { program_image[$1]=$2 program_line[$1]=$3; }

ONE='-b 16 -ub 16 -t 1 -tb 1 --seed 1 --temp 0 -lv 4'
FIRST="-m /models/first.gguf -np 1 -c 512 --no-warmup $ONE"

server app app '' "$FIRST"
server fedora fedora llama-server "$FIRST"
server ollama-vulkan ollama '' "serve /usr/lib/ollama/vulkan $FIRST"
server ollama-cuda ollama '' "serve /usr/lib/ollama/cuda_v13 $FIRST"
server localai localai /var/lib/local-ai/backends/llama-cpp/run.sh "$FIRST"
server draft app '' "$FIRST --spec-type draft-simple -md /more/draft.gguf"
server router app '' "--models-dir /models --models-max 2 -np 1 -c 512 --no-warmup $ONE"

program python python 'python3 -m llama_cpp /models/first.gguf "Hello, world" 16'
program whisper whisper "whisper-cli -m /more/whisper.bin -f /more/sound.wav -t 1 -bo 1 -bs 1 -nf -nt"
program imatrix app "/app/llama-imatrix -m /models/first.gguf -f /more/text -c 128 $ONE -o /tmp/imatrix >&2 &&
    cat /tmp/imatrix"
program vision app "/app/llama-mtmd-cli -m /models/first.gguf --mmproj /more/vision.gguf --image /more/image.ppm -c 512 $ONE \
    --no-warmup --chat-template vicuna --ignore-eos -p 'What is in this image?' -n 24"
program tts app "/app/llama-tts -m /more/speaker.gguf --mmproj /more/voice.gguf --tts-speaker-file /more/sound.wav -c 512 $ONE \
    -p 'Hello, world' -n 12 -o /tmp/speech.wav >&2 && cat /tmp/speech.wav"

# A line "ENV NAME=VALUE", "ENTRYPOINT [...]" or "WORKDIR FOLDER" of an image: what comes after the word.
image_says() { # IMAGE WORD
    local -n changes_of=image_$1
    printf '%s\n' "${changes_of[@]}" | sed -n "s/^$2 //p"
}

# ask MODEL CURL-OPTION... URL: what the server there says to the prompt; MODEL is for routers. The whole
# answer is in $answer, a file.
ask() {
    jq -nc --arg model "$1" --arg prompt "$PREPARE_PROMPT" \
        '{model: $model, prompt: $prompt, n_predict: 24, temperature: 0, seed: 1, cache_prompt: false}' |
        curl -sS --fail-with-body --max-time 80 -d @- "${@:2:$#-2}" "${!#}/completion" >"$answer" || return
    jq -er .content "$answer"
}

# What each server is asked: models, for the router.
models_of() { # SERVER
    if [[ $1 == router ]]; then echo first second; else echo first; fi
}
