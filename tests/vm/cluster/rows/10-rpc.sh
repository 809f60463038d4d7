# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# One model over two machines by llama.cpp's RPC, each machine's share on its own APIR0.

row rpc host+rpc 'one model over two machines: the text of one, and both have computed'
row_rpc() {
    local pid before=() after=() n=0
    mapfile -t pids < <(workers)
    [[ ${#pids[@]} -eq 2 ]] || die "${#pids[@]} workers before the program, not one for each machine"
    for pid in "${pids[@]}"; do before+=("$(ticks "$pid")"); done
    # Of a type that no CPU of x86 repacks: llama.cpp has none but the plain layout over RPC, and repacked
    # weights round otherwise.
    prepare_native /models/second.gguf 24 >"$work/native"
    [[ -s $work/native ]] || die 'the native run has no text'
    export PREPARE_GREEDY PREPARE_PROMPT
    for ((n = 0; n < 5; n++)); do
        observe on one <<'END'
llama-completion -m /models/second.gguf --rpc 10.7.0.1:50052,10.7.0.2:50052 -dev RPC0,RPC1 -ngl 99 \
    $PREPARE_GREEDY -lv 4 -n 24 -p "$PREPARE_PROMPT" </dev/null
END
        # See prepare_native: its end may be lost, and then its last words are too.
        ! grep -q 'common_perf_print: .*total time' "$last/err" || break
    done
    cmp "$last/out" "$work/native" || die 'not the text of one machine'
    grep -Eq 'offloaded ([0-9]+)/\1 layers' "$last/err" || die 'not all layers were on the two'
    for n in 1 2; do
        grep -Eq "\[10.7.0.$n:50052\] model buffer size = +[0-9.]*[1-9]" "$last/err" || die "no weights on 10.7.0.$n"
    done
    for pid in "${pids[@]}"; do after+=("$(ticks "$pid")"); done
    for n in 0 1; do
        [[ ${after[n]} -gt ${before[n]} ]] || die "worker ${pids[n]} has not computed"
    done
}

row rpc-refused host+rpc 'one of the two is not there: an error that names it, and no text'
row_rpc_refused() {
    local rc=0
    on one >"$work/out" 2>"$work/err" <<'END' || rc=$?
export GGML_NO_BACKTRACE=1
llama-completion -m /models/first.gguf --rpc 10.7.0.1:50052,10.7.0.2:50053 -dev RPC0,RPC1 -ngl 99 \
    -no-cnv --no-warmup --simple-io -n 4 -p 'Hello, world' --no-display-prompt </dev/null
END
    cat "$work/out" "$work/err"
    [[ $rc -ne 0 && ! -s $work/out ]] || die "it ended with $rc"
    grep -q '10.7.0.2:50053' "$work/err" || die 'the error does not name it'
}
