#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Programs of the arm64 image: arm64.sh has unpacked it and starts this.

bats_require_minimum_version 1.5.0

# image VARIABLE=VALUE... PROGRAM ARG...: in the image's root, with its environment and no other. A processor
# without SME: under qemu-user the CPU backend that ggml takes with it ends by SIGILL.
image() {
    timeout 300 chroot "$ARM64_WORK/root/image" env -i QEMU_CPU=max,sme=off PATH=/usr/bin:/bin HOME=/tmp "$@" </dev/null
}
HOST=(APIR_TRANSPORT=unix:/run/host/apir.sock)
bench() { image "$@" -m /models/first.gguf -p 16 -n 4 -r 1 -t 1 -o json; }

@test "it is arm64" {
    [ "$(image uname -m)" = aarch64 ]
    [ "$(uname -m)" != aarch64 ]
}

@test "the plug-in loads in the image's ggml, and there is no render node: no device, and it is said" {
    image APIR_LOG=info llama-bench --list-devices >"$BATS_TEST_TMPDIR/out" 2>&1
    cat "$BATS_TEST_TMPDIR/out"
    grep 'apir: .*no virtio-gpu render node' "$BATS_TEST_TMPDIR/out"
    run ! grep APIR0 "$BATS_TEST_TMPDIR/out"
}

@test "llama-bench on the CPU" {
    bench llama-bench >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || { cat "$BATS_TEST_TMPDIR/err"; false; }
    jq -c '.[] | {backends, n_prompt, n_gen, avg_ts}' "$BATS_TEST_TMPDIR/out" >&3
    jq -e 'length == 2 and all(.[]; .backends == "CPU" and .avg_ts > 0)' "$BATS_TEST_TMPDIR/out"
}

@test "llama-bench on APIR0, which is a worker of this machine" {
    image "${HOST[@]}" llama-bench --list-devices | tee "$BATS_TEST_TMPDIR/list"
    grep -E '^ *APIR0: ' "$BATS_TEST_TMPDIR/list"
    bench "${HOST[@]}" llama-bench -dev APIR0 -ngl 99 >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" ||
        { cat "$BATS_TEST_TMPDIR/err"; false; }
    jq -c '.[] | {backends, devices, n_prompt, n_gen, avg_ts}' "$BATS_TEST_TMPDIR/out" >&3
    jq -e 'length == 2 and all(.[]; .devices == "APIR0" and .avg_ts > 0)' "$BATS_TEST_TMPDIR/out"
}

@test "the other programs start" {
    for program in llama-server llama-cli llama-perplexity whisper-cli; do
        image "$program" --help >"$BATS_TEST_TMPDIR/out" 2>&1 || { cat "$BATS_TEST_TMPDIR/out"; false; }
        grep -Eqi 'usage|options' "$BATS_TEST_TMPDIR/out"
    done
    image sh -c '"$0" --help' /usr/libexec/apir/apir-render-server >"$BATS_TEST_TMPDIR/out" 2>&1
    grep -q -- --listen "$BATS_TEST_TMPDIR/out"
}
