# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2329 # guest.sh sets and calls what stands here
#
# What the rows of guest.sh do. Each runs with -e in a subshell and says in its last line why it fails. It
# finds $typed and $runs, which are those of the table; $alias, the model's name; $work, a folder of its own;
# and tests/vm/engines/lib.sh.

MODEL=/srv/models/model.gguf
URL=http://127.0.0.1:8080
RAMALAMA=/mnt/ramalama # there where run.sh was given a checkout

# ---- ramalama itself -----------------------------------------------------------------------------
# Its engine is guest.sh's, which notes what it was told.
ramalama() {
    PATH=/run/ramalama/bin:$PATH PYTHONPATH=$RAMALAMA PYTHONDONTWRITEBYTECODE=1 \
        "${LIMIT[@]}" python3 "$RAMALAMA/bin/ramalama" "$@"
}

# same WHOSE LINE EXPECTED
same() {
    [[ $2 == "$3" ]] || {
        printf 'the table: %s\n%s: %s\n' "$3" "$1" "$2"
        die "$1 is not the line of the table"
    }
}

# What ramalama has run is the line of the table; so is what its --dryrun prints, which knows neither the
# model's files nor the tag of an image.
as_in_the_table() {
    local name='s/ --name ramalama-[A-Za-z0-9]{10} / --name NAME /' ran dry
    ran=$(sed -E "$name
        s|src=[^ ,]*(,destination=/mnt/models/model.gguf,ro)|src=BLOB\1|
        s|src=[^ ,]*(,destination=/mnt/models/chat_template_extracted,ro)|src=TEMPLATE\1|" /run/ramalama/ran)
    same 'ramalama has run' "$ran" "$runs"
    dry=$(eval "${typed/#ramalama/ramalama --dryrun}" </dev/null | sed -nE "$name; s/ *$//; /^podman /p")
    same 'ramalama --dryrun' "$dry" "$(sed -E 's/ --mount=type=bind,src=(BLOB|TEMPLATE)[^ ]*//g
        s| --model [^ ]*| --model /path/to/model|; s/ --chat-template-file [^ ]*//
        s/((localhost\/[a-z-]+|remoting)):latest /\1 /' <<<"$runs")"
}

# ---- what rows are made of -----------------------------------------------------------------------
# go: the row's line, to its end; what it prints is in $work/out and $work/err.
go() {
    local words=$runs
    if [[ -d $RAMALAMA ]]; then
        eval "$typed"
        return
    fi
    words=${words//BLOB/$MODEL} words=${words//TEMPLATE//run/template} words=${words//NAME/ramalama-row}
    # shellcheck disable=SC2086 # words on purpose
    "${LIMIT[@]}" $words
}
ends_well() {
    local rc=0
    go >"$work/out" 2>"$work/err" </dev/null || rc=$?
    cat "$work/err" "$work/out"
    [[ $rc -eq 0 ]] || die "it ended with $rc"
}

bench_on() { # BACKEND
    jq -c '.[] | {backends, devices, gpu_info, n_gpu_layers, n_prompt, n_gen, avg_ts}' "$work/out"
    jq -e --arg on "$1" 'length == 2 and all(.[]; .backends == $on and .avg_ts > 0)' "$work/out" >/dev/null ||
        die "llama-bench has not computed on $1"
}
bench_on_apir() { ends_well && bench_on APIR && on_the_host; }
bench_on_cpu() {
    ends_well
    bench_on CPU
    # What the other rows ask for is not there.
    ! (bench_on APIR) || die 'a result of the CPU passes for one of APIR0'
    ! computed || die 'a worker on the host has computed'
}

perplexity_on_apir() {
    ends_well
    grep -Eq 'Final estimate: PPL = [0-9]' "$work/out" "$work/err" || die 'no perplexity'
    on_the_host
}
# What --init runs says so, without the program's name.
perplexity_lacks() {
    local rc=0
    go >"$work/out" 2>"$work/err" </dev/null || rc=$?
    cat "$work/err" "$work/out"
    echo "ended with $rc"
    [[ $rc -ne 0 ]] && grep -q 'failed to exec pid1: No such file or directory' "$work/err"
}

# As ramalama asks: healthy, and it names the model, by $alias.
get() { curl -sf --max-time 5 "$URL/$1"; }
is_ready() { get health >/dev/null && get models | grep -qF "\"$alias\""; }
ready() {
    local end=$((SECONDS + 900)) # it hangs then
    until wait_for is_ready; do [[ $SECONDS -lt $end ]] || die 'it does not get ready'; done
}
asks() { # the request of ramalama's chat, streamed
    jq -n --arg model "$alias" '{messages: [{role: "user", content: "Hello"}], stream: true, temperature: 0.8,
        max_tokens: 24, model: $model}' |
        curl -sS -N --max-time 600 -H 'Content-Type: application/json' -d @- "$URL/v1/chat/completions" \
            >"$work/answer"
    tail -n 3 "$work/answer"
    grep -q '^data: \[DONE\]' "$work/answer" || die 'no answer to the end'
    # Tokens of a model like ours need not be text, but they are there.
    grep '^data: {' "$work/answer" | sed 's/^data: //' |
        jq -es '[.[].choices[0].delta // {}] | length > 2' >/dev/null ||
        die 'no tokens in the answer'
}
serves() {
    at_end 'podman stop -t=0 --ignore llama >/dev/null'
    go >"$work/out" 2>"$work/err" </dev/null &
    local pid=$!
    (ready) || { cat "$work/err" "$work/out" && die 'it does not get ready'; }
    asks
    if [[ -d $RAMALAMA ]]; then
        ramalama chat --url "$URL/v1" --model "$MODEL" --max-tokens 24 Hello </dev/null
        ramalama stop llama
    else
        podman stop -t=0 llama
    fi
    wait "$pid" || true # a server that is stopped ends with what the signal makes of it
    cat "$work/err" "$work/out"
    on_the_host
}
runs_chat() {
    at_end 'podman rm --force --all --time 0 >/dev/null'
    ends_well
    if [[ ! -d $RAMALAMA ]]; then
        (ready) || { podman logs ramalama-row && die 'it does not get ready'; }
        asks
        podman logs ramalama-row
        podman stop -t=0 ramalama-row
        podman rm ramalama-row
    fi
    [[ -z $(podman ps --all --quiet) ]] || die 'its container is still there'
    on_the_host
}

# ---- rows of their own: the files of docs/ramalama/, and what ramalama generates --------------------
# unit FOLDER: what systemd would start for the quadlet llama.container in FOLDER, in a cgroup of its own;
# there is no systemd in this VM.
unit() {
    local start cgroup
    cgroup=$(mktemp -d /sys/fs/cgroup/llama-XXXXXX)
    QUADLET_UNIT_DIRS=$1 /usr/libexec/podman/quadlet -dryrun | tee "$work/units"
    start=$(sed -n 's/^ExecStart=//p' "$work/units")
    at_end 'podman rm -v -f -i llama >/dev/null'
    (
        echo "$BASHPID" >"$cgroup/cgroup.procs"
        eval "exec $start"
    )
}
answers() { ready && asks; }

quadlet() {
    alias=model
    unit "$PWD/docs/ramalama"
    answers
    on_the_host
}
kube() {
    alias=model
    at_end 'podman kube down --force docs/ramalama/llama.yaml >/dev/null'
    "${LIMIT[@]}" podman kube play docs/ramalama/llama.yaml
    answers
    on_the_host
}
kube_other_limit() {
    alias=model
    at_end "podman kube down --force $work/llama.yaml >/dev/null"
    sed 's|virtgpu/apir=gpu0|podman.io/device=/dev/dri|; s|localhost/remoting|localhost/llama|' \
        docs/ramalama/llama.yaml >"$work/llama.yaml"
    "${LIMIT[@]}" podman kube play "$work/llama.yaml"
    answers
    ! computed || die 'a worker on the host has computed'
}

generated_kube() {
    cd "$work" || return
    at_end "podman kube down --force $work/llama.yaml >/dev/null"
    ramalama serve --image localhost/llama --name llama --generate kube file:///srv/models/model.gguf
    sed -i 's|podman.io/device=/dev/dri|virtgpu/apir=gpu0|' llama.yaml
    cat llama.yaml
    "${LIMIT[@]}" podman kube play --publish 8080:8080 llama.yaml
    answers
    on_the_host
}
generated_quadlet() {
    cd "$work" || return
    ramalama serve --image localhost/llama --name llama --host 0.0.0.0 --generate quadlet \
        --add-to-unit Container:AddDevice:virtgpu/apir=gpu0 file:///srv/models/model.gguf
    unit "$work"
    answers
    on_the_host
}
