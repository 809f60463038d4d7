# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Texts that are generated greedily, in pairs, with each model and setting; a part of run.sh, which sources it.
#
#   texts_write                   writes the models
#   texts_native LAYOUT NAME WHERE   what that version gives natively with each of them; false: one does not run
#   texts_pair LAYOUT NAME WHERE HOST HOST'S-WHERE   the same on that host: sets `texts`, how many were to be generated,
#                                 and `counts`, how many are host, guest and near; adds to `bad` what is wrong.
#                                 `declining` is not empty where the guest is to decline the host
#
# What a text must be. The graph is the guest's and the kernels are the host's: no native run has both. The
# text is `host` if it is the one that all of the host's version gives natively, on that device; else `guest` if
# it is the one that all of the guest's version gives natively there (where llama.cpp has come to make another
# graph of the same model). The last bit of a sum, which versions' kernels do not share, may decide between two
# tokens, more often where a cache is rounded by steps of 1/127 or products by those of f16. So a text is also right,
# `near`, if the guest's llama.cpp, natively and with that setting, finds each token of it as likely as the most likely
# one but for `tie` standard deviations of the logits (of 1024 tokens by chance most are 3 off), or on a GPU the host's
# llama.cpp does. Nothing else passes. Models of experts have no quantised cache on a GPU: natively, too, rounding
# decides there which expert a token has, and so between texts that have nothing in common.
# A guest that declines the host says so in one line and computes on its own CPU. That is right only where `declines`
# (run.sh) has it, and the text is its own native one.
#
# Weights of q4_0, q4_k and q6_k, and with AMX of q8_0 and f16, have a layout of the CPU's own, in which products are
# rounded otherwise. A guest before 3.18.1 asks no GPU for it: its weights are plain on the host, and natively they are
# not. That its native run leave them plain, too, only Debian's llama.cpp can be told. So that one, with plain weights,
# judges which of these models' texts are `near`, by `tie_plain`: natively Debian's backends for one CPU and another are
# 0.11 apart with plain q4_k. Models of the first three have no quantised cache: with that, too, texts of two versions
# are not near.

# name, then gguf-write's options
shapes=(
    "llama-f32 --arch llama --heads 4 --heads-kv 4 --type f32"
    "llama-gqa-f16 --arch llama --heads 4 --heads-kv 2 --type f16"
    "llama-gqa-q8_0 --arch llama --heads 4 --heads-kv 2 --type q8_0"
    "llama-moe-f16 --arch llama --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type f16"
    "qwen2-f16 --arch qwen2 --heads 8 --heads-kv 2 --type f16"
    "qwen3-f16 --arch qwen3 --heads 4 --heads-kv 2 --type f16"
    "qwen3moe-f16 --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type f16"
    "llama-gqa-q4_0 --arch llama --heads 4 --heads-kv 2 --type q4_0"
    "llama-gqa-q4_k --arch llama --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 --type q4_k"
    "llama-gqa-q6_k --arch llama --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 --type q6_k"
    "qwen3moe-q4_0 --arch qwen3moe --heads 4 --heads-kv 2 --experts 8 --experts-used 2 --type q4_0"
    "qwen3moe-q4_k --arch qwen3moe --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 --experts 8 --type q4_k"
)
text_settings=off:f16:f16,on:f16:f16,off:q8_0:f16,on:q8_0:q8_0
text_tokens=24 tie=0.03 tie_plain=0.1

# shellcheck disable=SC2154 # device, out, models, results and vars are run.sh's
texts_write() {
    local shape args
    [[ $device == CPU ]] || tie=0.1
    for shape in "${shapes[@]}"; do
        read -r -a args <<<"$shape"
        write_file "$models/ggml-${args[0]}.gguf" "$out/tests/lib/models/gguf-write" "${args[@]:1}"
    done
}

# The models that are not too new for a version.
text_models() { # LAYOUT
    printf '%s\n' "${shapes[@]%% *}" | if [[ $1 == L0 ]]; then grep -v '^qwen3'; else cat; fi
}

texts_native() {
    local file=$results/native-$2-texts model
    text_models "$1" | guests_say "$file" --texts "$text_settings" natively run_guest "$3"
    for model in $(text_models "$1"); do
        [[ -n $(able "$2" "$model") ]] || { cat "$file.err" >&2; echo "ggml: $2 does not run $model natively" >&2; return 1; }
    done
}

# Whether a CPU has a layout of its own for this model's weights.
repacked() { # MODEL
    [[ $1 == *-q[46]_* ]]
}

# Whether natively this CPU has plain weights only if told so.
natively_repacked() { # MODEL SETTING
    repacked "$1" || { [[ $1 =~ -(q8_0|f16)$ && $2 != *q8_0* ]] && grep -qw amx_int8 /proc/cpuinfo; }
}

# The settings that a version has and that tell something about this model.
able() { # NAME MODEL
    jq -r --arg model "$2" 'select(.made and .model == $model).setting' "$results/native-$1-texts" |
        if repacked "$2" || [[ $device != CPU && $2 == *moe* ]]; then grep -v q8_0; else cat; fi
}

made() { # FILE MODEL SETTING
    jq -r --arg model "$2" --arg setting "$3" 'select(.made and .model == $model and .setting == $setting) |
        .made | join(",")' "$1"
}

is_near() { # MODEL SETTING TEXT GUEST'S-WHERE HOST'S-WHERE
    local distance judge judges=("$4") how=--judge most=$tie
    if [[ $device != CPU ]]; then
        judges+=("$5")
    elif natively_repacked "$1" "$2"; then
        judges=(debian) how=--judge-plain most=$tie_plain
    fi
    for judge in "${judges[@]}"; do
        distance=$(natively run_guest "$judge" "$how" "$2" "$3" "$models/ggml-$1.gguf" 2>/dev/null) || continue
        echo "$distance $1 $2 $judge" >>"$results/distances"
        ! awk -v d="$distance" -v most="$most" 'BEGIN { exit !(d >= 0 && d <= most) }' || return 0
    done
    return 1
}

# What the text is, of those that it may be.
text_is() { # MODEL SETTING GUEST GUEST'S-WHERE HOST HOST'S-WHERE
    local text
    text=$(made "$results/$3-on-$5-texts" "$1" "$2")
    if [[ -z $text ]]; then
        echo none
    elif [[ $text == "$(made "$results/native-$5-texts" "$1" "$2")" ]]; then
        echo host
    elif [[ $text == "$(made "$results/native-$3-texts" "$1" "$2")" ]]; then
        echo guest
    elif is_near "$1" "$2" "$text" "$4" "$6"; then
        echo near
    else
        echo wrong
    fi
}

# Where the guest computes itself, that is no matter of a device's: no text is looked at there.
texts_pair() {
    local model setting is
    rm -f "$results/$2-on-$4-texts"
    text_models "$1" | guests_say "$results/$2-on-$4-texts" --texts "$text_settings" run_guest "$3"
    for model in $(text_models "$1"); do
        for setting in $(able "$2" "$model"); do
            texts=$((texts + 1))
            [[ $device == CPU || -z $declining ]] || continue
            is=$(text_is "$model" "$setting" "$2" "$3" "$4" "$5")
            if [[ -v counts[$is] ]]; then
                counts[$is]=$((counts[$is] + 1))
            else
                bad+=("$model $setting: $is")
            fi
        done
    done
}
