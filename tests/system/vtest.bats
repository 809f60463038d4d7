#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Unmodified llama.cpp programs on APIR0, over stock virglrenderer.

load system.bash

setup() {
    common_setup
    model_small
}

@test "llama.cpp lists APIR0 with the host's description and memory" {
    server_start
    run -0 --separate-stderr remote "$EXERCISE" list
    local name type memory description host
    # As the host's own ggml calls it.
    host=$("${NATIVE[@]}" "$EXERCISE" list 2>/dev/null | awk -F '\t' '$1 == "CPU" { print $4 }')
    IFS=$'\t' read -r name type memory description < <(grep '^APIR' <<<"$output")
    [[ $name == APIR0 && $type == 1 && $memory -gt 1000000000 ]]
    [[ -n $host && $description == "$host" ]]

    local program
    for program in llama-completion llama-bench llama-server; do
        run -0 --separate-stderr remote "$program" --list-devices
        # Some print to stdout, some to stderr.
        [[ $'\n'$output$'\n'$stderr =~ APIR0:\ ([^$'\n']*)\ \(([0-9]+)\ MiB,\ ([0-9]+)\ MiB\ free\) ]]
        [[ ${BASH_REMATCH[1]} == "$host" && ${BASH_REMATCH[2]} -gt 0 && ${BASH_REMATCH[3]} -gt 0 ]]
        [[ $stderr != *apir:* ]]
    done
}

@test "llama-bench runs on APIR0, its JSON is intact" {
    server_start
    run -0 --separate-stderr remote llama-bench -m "$MODEL" -dev APIR0 -t 2 -p 64 -n 16 -r 2 -o json
    jq -e 'length == 2 and all(.[]; .devices == "APIR0" and .avg_ts > 0 and (.backends | contains("APIR")))' \
        <<<"$output"
    [[ $stderr != *apir:* ]]
}

@test "llama-completion generates the same tokens as a native run" {
    server_start
    text_as_natively
    # A run that fell back to the CPU would be equal too.
    grep -Eq 'offloaded ([0-9]+)/\1 layers|using device APIR0' "$T/greedy.err" ||
        { remote llama-completion -v -m "$MODEL" --device APIR0 -ngl 99 "${GREEDY[@]}" 2>&1 |
            grep -E 'offloaded ([0-9]+)/\1 layers'; }
}

@test "two programs at once with different models" {
    server_start
    local small=$MODEL other want_small want_other one two
    model_other
    other=$MODEL
    want_small=$(greedy "${NATIVE[@]}" llama-completion -m "$small" --device none "${GREEDY[@]}")
    want_other=$(greedy "${NATIVE[@]}" llama-completion -m "$other" --device none "${GREEDY[@]}")
    [[ $want_small != "$want_other" ]]
    # Both alive while a third one looks on: the overlap is certain, not hoped for.
    remote_job bench-a llama-bench -m "$small" -dev APIR0 -t 1 -p 0 -n 16 -r 100000
    one=$JOB
    remote_job bench-b llama-bench -m "$other" -dev APIR0 -t 1 -p 16 -n 16 -r 100000
    two=$JOB
    wait_until 60 n_workers_is 2
    [[ $(greedy remote llama-completion -m "$small" --device APIR0 -ngl 99 "${GREEDY[@]}") == "$want_small" ]]
    [[ $(greedy remote llama-completion -m "$other" --device APIR0 -ngl 99 "${GREEDY[@]}") == "$want_other" ]]
    kill -0 "$one"
    kill -0 "$two"
    [[ $(render_server | wc -l) -eq 1 ]]
}

fds_are() { [[ $(n_fds "$1") -le $2 ]]; }

@test "many runs one after the other leave no process and no descriptor behind" {
    server_start
    # One client stays: the server lives as long as it has any.
    hold_start
    local hold=$JOB server fds vmm vmm_fds
    server=$(render_server)
    vmm=$(ps -o ppid= -p "$server" | tr -d ' ')
    fds=$(n_fds "$server")
    # The first run may leave caches in virglrenderer; what counts is that the tenth adds nothing.
    remote "$EXERCISE" compute 2>/dev/null
    wait_until 10 n_workers_is 1
    vmm_fds=$(n_fds "$vmm")
    many_runs 1
    wait_until 10 fds_are "$server" "$fds"
    wait_until 10 fds_are "$vmm" "$vmm_fds"
    [[ $(render_server) == "$server" ]]
    echo go >&"$TALK"
    wait_until 10 grep -q "right 1" "$T/hold.out"
    exec {TALK}>&-
    wait "$hold"
    # The last client is gone: nothing is left below the test server.
    wait_until 10 n_workers_is 0
}

@test "virglrenderer of this release and of the one before it" {
    local server version
    # The second tree is made outside the build root: make sysroot-trixie.
    [[ -x build/trixie/usr/bin/virgl_test_server ]] ||
        { [[ -z ${CI-} ]]; skip "no second tree; make it with: make sysroot-trixie"; }
    for server in virgl_test_server tests/env/trixie-vtest.sh; do
        echo "server: $server"
        VTEST_SERVER=$server server_start
        run -0 --separate-stderr remote llama-bench -m "$MODEL" -dev APIR0 -t 2 -p 32 -n 8 -r 1 -o json
        jq -e 'length == 2 and all(.[]; .devices == "APIR0" and .avg_ts > 0)' <<<"$output"
        run -0 --separate-stderr remote "$EXERCISE" transfers
        vtest_stop
    done
}
