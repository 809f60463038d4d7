# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Each architecture that test-llama-archs can write, in pairs; a part of run.sh, which sources it.
#
#   arches_write                   writes the models, with a vocabulary: older versions load none without one
#   arches_native NAME WHERE       what each of them gives natively with that version, for those that it can run
#   arches_pair NAME WHERE HOST LEAST   the same on that host: sets `arches`, how many, and adds to `bad` what is
#                                  wrong, which is also that they are fewer than LEAST
#
# Compared are logarithms of the probabilities of all tokens, after a prompt and after each of some more
# tokens: of one graph, the guest's, natively with the guest's kernels, and with the host's. They may differ by
# `arch_tie` standard deviations of all tokens'. Weights are of f32, as that tool writes them. A GPU multiplies them
# as f16, so there the limit is wider, and there is no quantised cache (run.sh says why).

# shellcheck disable=SC2154 # out, results, models and vars are run.sh's
arch_settings=(off:f16:f16 on:f16:f16 on:q8_0:q8_0)
arch_tie=0.02
arch_models=()

arches_write() {
    local from file name
    [[ $device == CPU ]] || arch_settings=(off:f16:f16 on:f16:f16) arch_tie=0.1
    from=$(archs_models)
    mkdir -p "$models/ggml-arch"
    for file in "$from"/*.gguf; do
        name=$(basename "$file" .gguf)
        [[ $models/ggml-arch/$name.gguf -nt $file ]] || rm -f "$models/ggml-arch/$name.gguf"
        write_file "$models/ggml-arch/$name.gguf" "$out/tests/models/gguf-extra" words --model "$file"
        arch_models+=("$name")
    done
}

# Runs COMMAND ARGS... MODEL for each model, as many at a time as there are processors.
arches_each() { # COMMAND ARGS...
    local model pids=()
    for model in "${arch_models[@]}"; do
        "$@" "$model" &
        pids+=($!)
        if [[ ${#pids[@]} -ge $archs_jobs ]]; then
            wait "${pids[0]}" || :
            pids=("${pids[@]:1}")
        fi
    done
    wait "${pids[@]}" || :
}

# A version that lacks an architecture or a setting ends there; what it has said before counts.
arch_native() { # NAME WHERE MODEL
    native "$2" "arch/$3" --logs "${arch_settings[@]}" 2>/dev/null | grep '"logs"' >"$results/native-$1-arch-$3" || :
    [[ -s $results/native-$1-arch-$3 ]] || rm "$results/native-$1-arch-$3"
}
arches_native() { # NAME WHERE
    arches_each arch_native "$1" "$2"
}

# The largest difference of a token's logarithm, in standard deviations, of all settings of two files.
arch_distance() { # NATIVE PAIR
    jq -n --slurpfile native "$1" --slurpfile pair "$2" '
        def deviation: (add / length) as $mean | (map((. - $mean) * (. - $mean)) | add / length | sqrt);
        [$native[] | . as $n | ($pair[] | select(.setting == $n.setting and .devices != [])) as $p |
         if ($p.logs | map(length)) == ($n.logs | map(length)) then . else error("of other sizes") end |
         range($n.logs | length) as $i | ($n.logs[$i] | deviation) as $deviation |
         range($n.logs[$i] | length) as $t | ($n.logs[$i][$t] - $p.logs[$i][$t] | fabs) / $deviation |
         if isnan or isinfinite then error("not a number") else . end] | max // error("nothing to compare")'
}
arch_pair() { # NAME WHERE HOST MODEL
    local file=$results/$1-on-$3-arch-$4 kept=() distance
    [[ -e $results/native-$1-arch-$4 ]] || return 0
    mapfile -t kept < <(jq -r .setting "$results/native-$1-arch-$4")
    guest "$2" "arch/$4" --logs "${kept[@]}" >"$file" 2>"$file.err" || { echo "$4: ended with $?"; return; }
    distance=$(arch_distance "$results/native-$1-arch-$4" "$file" 2>&1) || { echo "$4: $distance"; return; }
    [[ $(wc -l <"$file") -eq ${#kept[@]} ]] || { echo "$4: too few settings"; return; }
    echo "$distance $4 $1 $3" >>"$results/arch-distances"
    awk -v d="$distance" -v tie="$arch_tie" 'BEGIN { exit !(d >= 0 && d <= tie) }' || echo "$4: $distance"
}
arches_pair() { # NAME WHERE HOST LEAST
    local computed wrong
    : >"$VTEST_LOG"
    arches=$(find "$results" -name "native-$1-arch-*" | wc -l)
    [[ $arches -ge $4 ]] || bad+=("only $arches architectures run natively, of $4")
    wrong=$(arches_each arch_pair "$1" "$2" "$3")
    [[ -z $wrong ]] || mapfile -t -O ${#bad[@]} bad <<<"$wrong"
    computed=$(awk '$2 == "GRAPH_EXEC" && $3 > 0 { n++ } END { print n + 0 }' "$VTEST_LOG")
    [[ $computed -ge $arches ]] || bad+=("graphs of only $computed of $arches architectures came to the host")
}
