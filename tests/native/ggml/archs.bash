# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Each architecture that test-llama-archs can write, in pairs; a part of run.sh, which sources it.
#
#   arches_write                   writes the models, with a vocabulary: older versions load none without one
#   arches_native NAME WHERE       what each of them gives natively with that version on the CPU, for those that it can run
#   arches_pair NAME WHERE HOST LEAST   the same on that host: sets `arches`, how many, and adds to `bad` what is
#                                  wrong, which is also that they are fewer than LEAST
#   arches_of FILE                 those of which guests_say has left something there
#
# Compared are logarithms of the probabilities of all tokens, after a prompt and after each of some more
# tokens: of one graph, the guest's, natively with the guest's kernels for the CPU, and with the host's. They may differ
# by `arch_tie` standard deviations of all tokens'. Weights are of f32, as that tool writes them.
#
# A GPU multiplies them as f16, so there the limit is wider (an NVIDIA H100's are up to 0.05 from the CPU's, and those
# of 3.6.0, whose kernels round more, up to 0.25 on lavapipe, natively), and there is no quantised cache (texts.bash
# says why).
#
# On lavapipe no batch has more than two tokens. With more than eight, ggml's kernels from 3.18.1 to Debian's are
# wrong there, natively, too, for products of 2 to 4 rows or that many beyond a multiple of 32; and the more tokens
# flash attention's kernel is for, the longer it is compiled.

# shellcheck disable=SC2154 # device, out, results and models are run.sh's
arch_settings=off:f16:f16,on:f16:f16,on:q8_0:q8_0
arch_tie=0.02
arch_models=()

arches_write() {
    local from file name
    case $device in
    gpu) arch_settings=off:f16:f16,on:f16:f16 arch_tie=0.1 ;;
    lavapipe) arch_settings=off:f16:f16:2,on:f16:f16:2 arch_tie=0.03 ;;
    esac
    from=$(archs_models)
    mkdir -p "$models/ggml-arch"
    for file in "$from"/*.gguf; do
        name=$(basename "$file" .gguf)
        [[ $models/ggml-arch/$name.gguf -nt $file ]] || rm -f "$models/ggml-arch/$name.gguf"
        write_file "$models/ggml-arch/$name.gguf" "$out/tests/lib/models/gguf-extra" words --model "$file"
        arch_models+=("arch/$name")
    done
}

arches_native() {
    local device=CPU
    printf '%s\n' "${arch_models[@]}" |
        guests_say "$results/native-$1-archs" --logs "$arch_settings" natively run_guest "$2"
}
arches_of() { jq -r 'select(.logs).model' "$1" | uniq; }

# A line for each model and setting in FILE: model, setting, and how far OTHER is from it, or what there is to say
# instead.
arch_distances() { # FILE OTHER
    jq -nc '[inputs | select(.logs) | . + {file: input_filename}]' "$@" | jq -r '
        def deviation: (add / length) as $mean | (map((. - $mean) * (. - $mean)) | add / length | sqrt);
        def distance($n; $p): [range($n | length) as $i | ($n[$i] | deviation) as $deviation |
            range($n[$i] | length) as $t | ($n[$i][$t] - $p[$i][$t] | fabs) / $deviation] | max;
        def whole: flatten | any(. == null) | not;
        (group_by(.file) | INDEX(.[0].file) | map_values(INDEX("\(.model) \(.setting)"))) as $of |
        $of[$ARGS.positional[0]] | to_entries[] | .value.logs as $n | .key as $key |
        $of[$ARGS.positional[1]][$key].logs as $p |
        $key + " " + (if $p == null then "not computed"
            elif ($p | map(length)) != ($n | map(length)) then "of another size"
            elif [$n, $p] | whole | not then "not a number"
            else distance($n; $p) | tostring end)' --args "$@"
}

arches_pair() {
    local native=$results/native-$1-archs file=$results/$1-on-$3-archs tie=$arch_tie wrong
    [[ $device == CPU || $3 != 3.6.0 ]] || tie=0.3
    arches=$(arches_of "$native" | wc -l)
    [[ $arches -ge $4 ]] || bad+=("only $arches architectures run natively, of $4")
    rm -f "$file"
    arches_of "$native" | guests_say "$file" --logs "$arch_settings" run_guest "$2"
    arch_distances "$native" "$file" >"$file-distances"
    wrong=$(awk -v tie="$tie" '!($3 ~ /^[0-9]/ && $3 <= tie)' "$file-distances")
    [[ -z $wrong ]] || mapfile -t -O ${#bad[@]} bad <<<"$wrong"
}
