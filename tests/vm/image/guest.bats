#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Containers of the image in the test VM: run.sh boots it, guest.sh starts this.

bats_require_minimum_version 1.5.0
. "${BATS_TEST_DIRNAME}/../../vm/check-guest-lib.sh"

IMAGE=localhost/remoting
NODE=(--device /dev/dri)
# As ramalama 0.24 runs everything.
RAMALAMA=(--rm --security-opt=label=disable --cap-drop=all --security-opt=no-new-privileges --pull never
    --label ai.ramalama --env=HOME=/tmp --init)
ODD_USER=(--user 54321:12345)

# devices OPTION...: what a container with these options lists.
devices() {
    # What it says besides comes from another thread, at any time.
    container --rm "$@" "$IMAGE" llama-bench --list-devices >"$BATS_TEST_TMPDIR/devices" \
        2>"$BATS_TEST_TMPDIR/messages"
    cat "$BATS_TEST_TMPDIR/messages" "$BATS_TEST_TMPDIR/devices"
    sed -n '/^Available devices/,$p' "$BATS_TEST_TMPDIR/devices" | tail -n +2 >"$BATS_TEST_TMPDIR/list"
}

@test "podman knows it by its name, with its labels" {
    podman image inspect "$IMAGE" >"$BATS_TEST_TMPDIR/image"
    jq -e '.[0] | .Config.Entrypoint == null and .Labels["org.opencontainers.image.title"] == "remoting" and
        .RepoTags == ["localhost/remoting:latest"]' "$BATS_TEST_TMPDIR/image"
}

@test "the programs are on PATH and run, with no capability, another user and a read-only root" {
    for program in llama-server llama-cli llama-bench llama-perplexity whisper-cli; do
        container "${RAMALAMA[@]}" "${ODD_USER[@]}" --read-only "$IMAGE" "$program" --help \
            >"$BATS_TEST_TMPDIR/out" 2>&1 || { cat "$BATS_TEST_TMPDIR/out"; false; }
        grep -Eqi 'usage|options' "$BATS_TEST_TMPDIR/out"
    done
    container "${RAMALAMA[@]}" "${ODD_USER[@]}" --read-only "$IMAGE" \
        llama-quantize --allow-requantize /models/second.gguf /tmp/out.gguf q4_0 >"$BATS_TEST_TMPDIR/out" 2>&1 ||
        { cat "$BATS_TEST_TMPDIR/out"; false; }
    grep -q 'quant size' "$BATS_TEST_TMPDIR/out"
}

@test "with the CDI device it computes on APIR0 what a native run computes" {
    greedy /models/first.gguf container --rm "${DEVICE[@]}" "$IMAGE"
    greedy /models/second.gguf container --rm "${DEVICE[@]}" --runtime runc "$IMAGE"
}

@test "with /dev/dri and nothing else it computes on APIR0, too" {
    greedy /models/first.gguf container --rm "${NODE[@]}" "$IMAGE"
    named='' greedy /models/second.gguf container --rm "${NODE[@]}" "$IMAGE"
}

@test "one device is listed: by CDI, by the node, by both" {
    for options in "${DEVICE[*]}" "${NODE[*]}" "${DEVICE[*]} ${NODE[*]}"; do
        # shellcheck disable=SC2086 # words on purpose
        devices $options
        [ "$(wc -l <"$BATS_TEST_TMPDIR/list")" -eq 1 ]
        grep -Eq '^ *APIR0: ' "$BATS_TEST_TMPDIR/list"
    done
}

@test "as docs/image.md has it: by its short name" {
    podman run --rm --device virtgpu/apir=gpu0 remoting llama-bench --list-devices </dev/null | grep 'APIR0: '
    podman run --rm --device /dev/dri remoting llama-bench --list-devices </dev/null | grep 'APIR0: '
}

@test "as ramalama runs it: each option of its own, both devices" {
    greedy /models/first.gguf container "${RAMALAMA[@]}" "${DEVICE[@]}" "${NODE[@]}" "$IMAGE"
    greedy /models/first.gguf container "${RAMALAMA[@]}" "${NODE[@]}" "$IMAGE"
}

@test "the same with a read-only root, nothing writable at all, and an unknown user" {
    greedy /models/first.gguf container "${RAMALAMA[@]}" "${ODD_USER[@]}" --read-only "${DEVICE[@]}" "$IMAGE"
    greedy /models/first.gguf container "${RAMALAMA[@]}" "${ODD_USER[@]}" --read-only --read-only-tmpfs=false \
        "${NODE[@]}" "$IMAGE"
}

@test "with the CDI device the plug-in is the machine's, not the image's" {
    container --rm "${DEVICE[@]}" "$IMAGE" sh -c 'cat /usr/lib/*/ggml/backends0/libggml-virtgpu.so' |
        cmp - "$PLUGIN"
}

@test "without a device it is an image with llama.cpp: on its CPU, not a word" {
    container --rm "$IMAGE" llama-bench -m /models/first.gguf -p 4 -n 4 -r 1 -t 1 -o json \
        >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
    cat "$BATS_TEST_TMPDIR/err"
    jq -e 'length == 2 and all(.[]; .avg_ts > 0 and .backends == "CPU")' "$BATS_TEST_TMPDIR/out"
    run ! grep -q '^apir:' "$BATS_TEST_TMPDIR/err"
    devices
    run ! grep -q APIR "$BATS_TEST_TMPDIR/list"
}

@test "server and worker of the image compute with the image's ggml and no rights at all" {
    container "${RAMALAMA[@]}" "${ODD_USER[@]}" --read-only "$IMAGE" sh -ec '
        test -x "$RENDER_SERVER_EXEC_PATH"
        "$RENDER_SERVER_EXEC_PATH" --listen /tmp/apir.sock >/tmp/server.log 2>&1 &
        for i in $(seq 100); do [ ! -S /tmp/apir.sock ] || break; sleep 0.1; done
        APIR_TRANSPORT=unix:/tmp/apir.sock llama-bench --list-devices >&2
        APIR_TRANSPORT=unix:/tmp/apir.sock llama-bench -m /models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json ||
            { cat /tmp/server.log >&2; exit 1; }' >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" ||
        { cat "$BATS_TEST_TMPDIR/err"; false; }
    cat "$BATS_TEST_TMPDIR/err"
    jq -e 'length == 2 and all(.[]; .devices == "APIR0" and .avg_ts > 0)' "$BATS_TEST_TMPDIR/out"
}

@test "whisper-cli hears on APIR0 what it hears natively" {
    # shellcheck disable=SC2086 # words on purpose
    CONTAINER_SECONDS=180 container --rm -v "$SHARE/whisper:/whisper:ro" "${DEVICE[@]}" "$IMAGE" \
        whisper-cli -m /whisper/model.bin -f /whisper/sound.wav $WHISPER_GREEDY \
        >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || { cat "$BATS_TEST_TMPDIR/err"; false; }
    grep -q 'using APIR0 backend' "$BATS_TEST_TMPDIR/err"
    grep -q 'APIR0 total size' "$BATS_TEST_TMPDIR/err"
    [ "$(wc -w <"$SHARE/whisper/native")" -gt 100 ]
    cmp "$SHARE/whisper/native" "$BATS_TEST_TMPDIR/out"
}
