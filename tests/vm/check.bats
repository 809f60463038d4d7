#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# In the VM, with our host side: check.sh boots it, check-guest.sh starts this.
# Two llama-servers with different models live through the whole file; each test
# may count on both, and leaves both as they were.

bats_require_minimum_version 1.5.0
. "${BATS_TEST_DIRNAME}/check-guest-lib.sh"

setup_file() {
    server first 8081 first
    server second 8082 second
}

teardown_file() {
    podman kill --all >/dev/null 2>&1 || true
}

# What must hold after whatever happened to one container.
others_go_on() {
    answers_as_native 8081 first
    answers_as_native 8082 second
    greedy /models/first.gguf container --rm "${DEVICE[@]}" localhost/llama
}

@test "apir doctor finds every link whole" {
    apir doctor >"$BATS_TEST_TMPDIR/doctor"
    cat "$BATS_TEST_TMPDIR/doctor"
    grep -q '^PASS .*a computed result .*APIR0' "$BATS_TEST_TMPDIR/doctor"
    run ! grep -Eq '^(FAIL|SKIP)' "$BATS_TEST_TMPDIR/doctor"
    apir cdi validate /etc/cdi/apir.json
    apir cdi list | grep -q 'virtgpu/apir=gpu0'
}

@test "a container computes on APIR0 what a native run computes" {
    greedy /models/first.gguf container --rm "${DEVICE[@]}" localhost/llama
    greedy /models/second.gguf container --rm "${DEVICE[@]}" localhost/llama
}

@test "two containers compute at once, with different models" {
    workers=$(host workers)
    echo "workers: $workers"
    [ "$(wc -w <<<"$workers")" -ge 2 ]
    for _ in 1 2 3; do
        complete 8081 >"$BATS_TEST_TMPDIR/first" &
        one=$!
        complete 8082 >"$BATS_TEST_TMPDIR/second"
        wait "$one"
        same "$(<"$BATS_TEST_TMPDIR/first")" "$(<"$SHARE/native.first")"
        same "$(<"$BATS_TEST_TMPDIR/second")" "$(<"$SHARE/native.second")"
    done
}

@test "a plain process without a container computes on APIR0" {
    greedy "$MODELS/second.gguf" timeout "$(patience 60)" env "GGML_BACKEND_PATH=$PLUGIN" GGML_VK_VISIBLE_DEVICES=
    greedy "$MODELS/second.gguf" timeout "$(patience 60)" apir run --device gpu0 --
    greedy "$MODELS/second.gguf" timeout "$(patience 60)" apir run
    # The node, wherever the program then runs.
    apir run --print | grep -qx "APIR_TRANSPORT=virtgpu:$RENDER_NODE"
}

@test "Venus works beside apir contexts" {
    # Through the stock server behind ours, while two contexts of ours are open.
    [ "$(host workers | wc -w)" -ge 2 ]
    VK_DRIVER_FILES=/usr/share/vulkan/icd.d/virtio_icd.json \
        timeout "$(patience 30)" vulkaninfo --summary >"$BATS_TEST_TMPDIR/vulkan" 2>&1 || { cat "$BATS_TEST_TMPDIR/vulkan"; false; }
    grep -Eq 'driverName *= *venus' "$BATS_TEST_TMPDIR/vulkan"
    grep -E 'deviceName' "$BATS_TEST_TMPDIR/vulkan"
    answers_as_native 8081 first
}

@test "a container without the device works as if we were not there" {
    out=$BATS_TEST_TMPDIR/out
    container --rm localhost/llama llama-bench -m /models/first.gguf -ngl 99 -p 4 -n 4 -r 1 -t 1 -o json \
        >"$out" 2>"$out.log"
    cat "$out.log"
    jq -e 'length == 2 and all(.[]; .backends == "CPU" and .avg_ts > 0)' "$out"
    run ! grep -qi apir "$out" "$out.log"
    container --rm localhost/llama sh -c \
        'ls /dev/dri /usr/lib/apir /usr/lib/*/ggml/*/libggml-virtgpu.so 2>/dev/null; env' >"$BATS_TEST_TMPDIR/seen"
    cat "$BATS_TEST_TMPDIR/seen"
    run ! grep -Eqi 'apir|GGML|renderD|virtgpu' "$BATS_TEST_TMPDIR/seen"
}

@test "a worker killed: llama-bench fails within 2 s, the others go on" {
    before=$(host workers)
    # A silence ends nothing here: it would come later than this may.
    id=$(container -d "${DEVICE[@]}" -e APIR_SILENCE_SECONDS=3600 localhost/llama \
        llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -p 0 -n 1024 -r 1000 -t 1)
    worker=$(new_worker "$before")
    pid=$(podman inspect -f '{{.State.Pid}}' "$id")
    host busy "$worker"
    began=$(now_ms)
    host kill KILL "$worker"
    timeout "$(patience 10)" tail --pid="$pid" -s 0.02 -f /dev/null || echo "llama-bench is still there"
    took=$(($(now_ms) - began))
    rc=$(podman wait "$id")
    podman logs "$id" 2>&1 | tail -n 12
    podman rm -f "$id" >/dev/null
    echo "ended after $took ms with $rc"
    in_time "$took" 2000
    [ "$rc" -ne 0 ]
    host gone "$worker"
    others_go_on
}

@test "a worker killed: llama-server answers with an error within 2 s, the others go on" {
    before=$(host workers)
    server victim 8083 first
    worker=$(new_worker "$before")
    curl -s --max-time "$(patience 30)" -o "$BATS_TEST_TMPDIR/answer" -w '%{http_code}' http://127.0.0.1:8083/completion \
        -d '{"prompt": "Hello", "n_predict": 4000, "temperature": 0, "ignore_eos": true}' \
        >"$BATS_TEST_TMPDIR/code" &
    asked=$!
    host busy "$worker"
    began=$(now_ms)
    host kill KILL "$worker"
    wait "$asked" || true
    took=$(($(now_ms) - began))
    code=$(<"$BATS_TEST_TMPDIR/code")
    # A second question, to a server that has lost its device.
    again=$(curl -s --max-time "$(patience 10)" -o "$BATS_TEST_TMPDIR/again" -w '%{http_code} %{time_total}' \
        http://127.0.0.1:8083/completion -d '{"prompt": "Hello", "n_predict": 4}') || true
    podman logs victim 2>&1 | grep -v '^/usr/lib' | tail -n 25
    podman rm -f victim >/dev/null
    echo "answered after $took ms with $code: $(head -c 300 "$BATS_TEST_TMPDIR/answer" 2>/dev/null)"
    echo "again: $again: $(head -c 300 "$BATS_TEST_TMPDIR/again" 2>/dev/null)"
    in_time "$took" 2000
    [ "$code" -eq 500 ]
    jq -e .error "$BATS_TEST_TMPDIR/answer" >/dev/null
    # It lives on and says no to whoever asks.
    [ "${again%% *}" -eq 500 ]
    host gone "$worker"
    others_go_on
}
