#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# models.sh [--part] [--models NAME,...] [--host CPU|lavapipe|gpu] [--jobs N] [--seconds N] [OUT]
#
# Runs a small model of each architecture (test-llama-archs -o writes them) under llama.cpp's
# programs, natively and in a guest on APIR0, and compares:
#
#   slots       logits and embeddings through libllama, as servers ask for them: to the last bit
#               on the CPU, with an error of at most 1e-4 on lavapipe and the machine's GPU, as
#               the suite allows; and graphs are cut no more often than the device asks for
#   server      llama-server with eight slots: eight requests at a time, the same tokens
#
# That tool cannot write a T5, which has an encoder and a decoder; one of our own is with them.
# --part takes the architectures in tests/native/archs/part; --seconds leaves out models
# that have not begun by then.
# The last line is `models: N of M as native`; a model counts once, with both.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/native/archs
# shellcheck source=tests/native/archs/lib.sh
. $here/lib.sh

limit=600 # seconds for one program

# ---- the programs -------------------------------------------------------------
# Each runs under `run`, a side's environment, and leaves what is to be compared in a file. What it
# prints is a reason.
run_slots() { # DEVICE FILE
    local step
    run_step "" "$1" "$2" && return
    [[ $? -eq 134 ]] || return 1
    # An assertion in libllama ends some steps for some models; then on both sides.
    for step in $("$out/tests/native/archs/slots" --steps); do
        run_step "$step" "$1" "$2.$step" && continue
        [[ $? -eq 134 ]] || return 1
        sed -n 's/.*\(GGML_ASSERT.*\)/\1/p' "$2.$step.log" >"$2.$step"
    done
}
run_step() { # STEP|"" DEVICE FILE -> the program's exit code
    local rc=0
    "${run[@]}" "$out/tests/native/archs/slots" ${1:+--step "$1"} --model "$model" \
        --device "${2/#none/CPU}" --out "$3" >"$3.splits" 2>"$3.log" || rc=$?
    [[ $rc -eq 0 || $rc -eq 134 ]] || tail -n 3 "$3.log"
    [[ $rc -eq 0 ]] || rm -f "$3"
    return $rc
}

# What a server says of a task comes with times and names; its tokens and its place are what counts.
run_server() { # DEVICE FILE
    local pid rc=1 socket
    socket=$(mktemp -u "${TMPDIR:-/tmp}/server.XXXXXX.sock")
    "${run[@]}" llama-server "${common[@]}" -dev "$1" -np 8 -c 512 -ub 32 --host "$socket" >"$2.log" 2>&1 &
    pid=$!
    wait_until 60 healthy_or_ended "$socket" "$pid" || :
    if curl -sSf --unix-socket "$socket" http://server/completion -d "$(requests)" >"$2.json" &&
        jq -r 'sort_by(.index)[] | "\(.index): \(.tokens | join(" "))"' "$2.json" >"$2"; then
        rc=0
    fi
    kill $pid 2>/dev/null || rc=1
    wait $pid || rc=1
    rm -f "$socket"
    [[ $rc -eq 0 && $(wc -l <"$2") -eq 8 ]] || { tail -n 3 "$2.log"; return 1; }
}
# Eight prompts of different lengths in one request; the most likely token is taken.
requests() {
    jq -nc '{prompt: [range(8) as $s | [range(3 + 2 * $s) | (. * 37 + $s * 11 + 5) % 100]],
             n_predict: 12, temperature: 0, ignore_eos: true, return_tokens: true}'
}

# ---- one model, called again by xargs -------------------------------------------
# A graph is cut where the device does not take an operation; what is cut off, the guest computes.
# The CPU computes all but the rows of the embedding, which llama.cpp keeps with the guest.
same_splits() { # NATIVE REMOTED
    local name most
    for name in "$2"*.splits; do
        most=2
        [[ $tolerance == 0 ]] || most=$(awk '{ print $2 }' "$1${name#"$2"}")
        awk -v most="$most" '$2 > most { print "graphs in " $2 " parts, not " most; bad = 1 }
                             END { exit bad }' "$name" || return 1
    done
}
same_slots() { # NATIVE REMOTED
    local step rc=0 said items=0 values=0 ended='' compare=("$out/tests/native/options/options-compare")
    [[ $tolerance == 0 ]] || compare+=(--nmse "$tolerance")
    if [[ -e $1 ]]; then
        "${compare[@]}" "$1" "$2"
        return
    fi
    for step in $("$out/tests/native/archs/slots" --steps); do
        if cmp -s "$1.$step" "$2.$step" && grep -qa '^GGML_ASSERT' "$1.$step"; then
            ended+=", $step ends by an assertion natively too"
        elif said=$("${compare[@]}" "$1.$step" "$2.$step" 2>&1) &&
            [[ $said =~ ([0-9]+)\ items,\ ([0-9]+)\ values ]]; then
            items=$((items + BASH_REMATCH[1])) values=$((values + BASH_REMATCH[2]))
        else
            echo "$step: $said"
            rc=1
        fi
    done
    [[ $rc -ne 0 ]] || echo "equal: $items items, $values values$ended"
    [[ $rc -eq 0 && $values -gt 0 ]]
}
same() { # PROGRAM NATIVE REMOTED
    if [[ $1 == slots ]]; then
        same_slots "$2" "$3" && same_splits "$2" "$3"
    else
        diff "$2" "$3" | head -n 4 | tr '\n' ' '
        cmp -s "$2" "$3"
    fi
}

side() { # native|remoted PROGRAM FILE
    local device=APIR0 vars run
    [[ $1 == remoted ]] || device=$native_device
    mapfile -t vars <"$work/$1.env"
    # shellcheck disable=SC2034 # for what it calls
    run=(timeout --foreground -k 5 "$(archs_limit "$limit")" env GGML_NO_BACKTRACE=1 "${vars[@]}")
    "run_$2" "$device" "$3" 2>&1
}

run_one() { # FILE
    local model=$1 name program dir said native differs='' seen='' compared=''
    name=$(basename "$1" .gguf)
    if archs_late; then
        printf 'LEFT  models %s\n' "$name"
        return
    fi
    dir=$work/$name
    common=(-m "$model" -ngl 99 -t 1 -tb 1 -fit off)
    mkdir -p "$dir"
    for program in slots server; do
        if ! native=$(side native $program "$dir/native.$program"); then
            if ! said=$(side remoted $program "$dir/remoted.$program"); then
                seen+="; $program fails natively too"
            else
                differs+="; $program fails natively alone: $native"
            fi
        elif ! said=$(side remoted $program "$dir/remoted.$program"); then
            differs+="; $program fails: $said"
        elif ! said=$(same $program "$dir/native.$program" "$dir/remoted.$program"); then
            differs+="; $program differs: $said"
        elif [[ $program == slots ]]; then
            seen+="; slots: $said"
            compared=yes
        fi
    done
    # What was running when the time was up was ended, on either side, and has compared nothing.
    if archs_late && [[ $differs$seen == *fails* && $differs != *differs:* ]]; then
        printf 'LEFT  models %s\n' "$name"
        return
    fi
    # What fails everywhere is no comparison.
    [[ -n $compared || -n $differs ]] || differs="; nothing could be compared"
    said=${differs:-$seen}
    said=${said//$'\n'/ | }
    if [[ -z $differs ]]; then
        printf 'PASS  models %-20s %s\n' "$name" "${said#; }"
        rm -rf "$dir"
    else
        printf 'FAIL  models %-20s %s\n' "$name" "${said#; }"
    fi
}
# shellcheck disable=SC2154 # out, host, work, native_device and tolerance are exported below
if [[ ${1-} == --one ]]; then
    run_one "$2"
    exit
fi
archs_without_blas "$here/models.sh" "$@"

# ---- the whole ------------------------------------------------------------------
archs_options --models "$@"
native_device=Vulkan0 tolerance=1e-4
[[ $host != CPU ]] || native_device=none tolerance=0
models=$(archs_models)
work=build/archs/models-$host
rm -rf "$work"
mkdir -p "$work"
export out host work native_device tolerance

# Encoder and decoder in one is what that tool cannot write.
mkdir -p "$work/own"
"$out/tests/lib/models/gguf-write" --arch llama --heads 4 --heads-kv 2 --type f16 --output "$work/own/words.gguf"
"$out/tests/lib/models/gguf-extra" t5 --model "$work/own/words.gguf" --output "$work/own/t5-dense.gguf"

for file in "$models"/*.gguf "$work/own/t5-dense.gguf"; do
    name=$(basename "$file" .gguf)
    if [[ -n $only ]]; then
        grep -qxF -- "$name" < <(tr , '\n' <<<"$only") || continue
    elif [[ -n $part && $name != t5-dense ]]; then
        archs_part | grep -qxF -- "${name%-*}" || continue
    fi
    echo "$file"
done >"$work/files"

VTEST_KEEP_LOG=$work/server.log
archs_serve "$out" "$host" "$work"
xargs -P "$jobs" -n 1 $here/models.sh --one <"$work/files" | tee "$work/verdicts"
vtest_alive || echo "models: the server itself did not survive" >&2

good=$(grep -c '^PASS' "$work/verdicts" || :)
total=$(wc -l <"$work/files")
left=$(sed -n 's/^LEFT  models //p' "$work/verdicts" | paste -sd,)
[[ -z $left ]] || echo "models: no time was left for: --models $left"
echo "models: $good of $total as native"
[[ $total -gt 0 && $good -eq $total ]]
