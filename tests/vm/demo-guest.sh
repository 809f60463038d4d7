#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# demo-guest.sh: what demo.sh runs in the VM. The name of the current step is in
# $SHARE/step, what it printed in $SHARE/STEP.log.
set -euo pipefail

SHARE=/mnt/share
# shellcheck source=/dev/null
. "$SHARE/agreed"
# shellcheck source=tests/vm/engines/lib.sh
. tests/vm/engines/lib.sh
# shellcheck source=tests/lib/patience.bash
. tests/lib/patience.bash
work=$(mktemp -d)

# An emulated CPU has no use for a second thread: threads of ggml spin while they wait.
threads=$(nproc)
if [[ -n ${VM_ARCH-} ]] || grep -q TCG /proc/cpuinfo; then
    threads=1
fi

step() { # NAME TEXT
    log=$SHARE/$1.log
    echo "$1" >"$SHARE/step"
    printf 'demo: [%3d s in the VM] %s\n' "$SECONDS" "$2"
}
quote() { sed 's/^/      /'; }
die() {
    echo "demo: $*" | tee -a "$log"
    exit 1
}

options=(--network=host -v /mnt/models:/models:ro)
device=(--device virtgpu/apir=gpu0)
image=localhost/llama

machine=$(uname -m)
pages=$(($(getconf PAGESIZE) / 1024))k
# Of an emulated page that is larger than 4 KiB, QEMU 11.1 may still run what was mapped at that address before.
# ggml loads its CPU backends one after the other, often to the same address, to choose one: let it have one.
if [[ $pages != 4k ]]; then
    backends=/usr/lib/$machine-linux-gnu/ggml/backends0
    mkdir "$work/backends"
    cp "$backends/libggml-cpu-armv8.0_1.so" "$work/backends/"
    options+=(-v "$work/backends:$backends:ro")
fi
run=(timeout "$(patience 90)" podman run --rm "${options[@]}")
step machine "the VM is $machine, its pages have $pages"
[[ $machine == "${VM_ARCH:-$machine}" ]] || die "it should be $VM_ARCH"
[[ $pages == "${VM_PAGES:-4k}" ]] || die "they should have ${VM_PAGES:-4k}"
# shellcheck source=/dev/null
(. /etc/os-release && echo "$PRETTY_NAME, Linux $(uname -r), $(podman --version), $(crun --version | head -n 1)" &&
    [[ -z ${VM_SUITE-} || $VERSION_CODENAME == "$VM_SUITE" ]]) >"$log" || die "it should be $VM_SUITE"
quote <"$log"

if [[ -n ${VM_SUITE-} ]]; then
    step install "installing the guest's packages"
    dpkg --install "$SHARE"/packages/*.deb >"$log" 2>&1 || die "dpkg: $(tail -n 5 "$log")"
    dpkg-query -W -f '${Package} ${Version}\n' '*apir*' | quote
else
    step install "installing the guest's four files, as a distribution would"
    cp -a "$SHARE/root/." /
    (cd "$SHARE/root" && find . -type f -printf '/%P\n') | sort | quote
fi

step cdi "apir cdi generate"
apir cdi generate >"$log" 2>&1
quote <"$log"

step image "the image holds Debian's llama.cpp and no file of ours"
# shellcheck disable=SC2016 # the inner shell's and dpkg-query's
"${run[@]}" "$image" sh -c 'dpkg-query -W -f "\${Package} \${Version}\n" "*llama*" "*ggml*" | grep " ."
    ls /usr/lib/apir /dev/dri; find / -xdev -name "*apir*" 2>/dev/null' >"$log" 2>"$log.err" || true
quote <"$log"
! grep -q apir "$log" || die "something of ours is in the image"

step devices "podman run --device virtgpu/apir=gpu0 $image llama-bench --list-devices"
"${run[@]}" "${device[@]}" "$image" llama-bench --list-devices >"$log" 2>&1
sed -n '/^Available devices/,$p' "$log" | quote
grep -Eq '^ *APIR0: ' "$log" || die "no APIR0 in the list"
description=$(sed -n 's/^ *APIR0: //p' "$log" | sed 's/ ([0-9]* MiB.*//')
# The demo's host side offers the host's CPU (demo.sh says why): its name is the
# host's, which the guest has no other way to know.
grep -Fqx "$(tr -s ' ' <"$SHARE/host-cpu" | sed 's/ *$//')" <<<"$(tr -s ' ' <<<"$description")" ||
    die "APIR0 is described as $description, the host as $(<"$SHARE/host-cpu")"

# bench OUT THREADS [PODMAN-OPTION]...: prompt and generation, tokens per second.
# The standard output holds JSON and nothing else, or jq fails.
bench() {
    local out=$1 t=$2
    shift 2
    "${run[@]}" "$@" "$image" llama-bench -m /models/first.gguf -ngl 99 -t "$t" -p 32 -n 32 -r 1 \
        -o json >"$out" 2>>"$log"
    jq -e 'length == 2 and all(.[]; .avg_ts > 0)' "$out" >/dev/null
}
rate() { jq -r ".[] | select(.$2 > 0) | .avg_ts" "$1"; }

step bench "llama-bench in a container, on the container's CPU"
bench "$SHARE/cpu.json" "$threads"
jq -e 'all(.[]; .backends == "CPU")' "$SHARE/cpu.json" >/dev/null || die "that was not the CPU"
step bench "llama-bench in a container, on APIR0"
bench "$SHARE/apir.json" 1 "${device[@]}"
jq -e 'all(.[]; .backends == "APIR")' "$SHARE/apir.json" >/dev/null || die "that was not APIR0"

# completes CMD...: CMD is an engine's `run` up to the image. The text must be native's.
completes() {
    local native remoted
    for _ in {1..30}; do
        # shellcheck disable=SC2086 # words on purpose
        "$@" llama-completion -m /models/first.gguf -ngl 99 $PREPARE_GREEDY \
            -lv 4 -n "$PREPARE_TOKENS" -p "$PREPARE_PROMPT" >"$SHARE/apir.text" 2>"$log" </dev/null
        # See prepare_native: the end of its output may be lost, and its last words with it.
        ! grep -q 'common_perf_print: .*total time' "$log" || break
    done
    native=$(<"$SHARE/native.text")
    remoted=$(<"$SHARE/apir.text")
    printf '%s\n' "native: $native" "APIR0:  $remoted" | tee -a "$log" | quote
    grep -Eq 'offloaded ([0-9]+)/\1 layers' "$log" || die "not all layers were on APIR0"
    [[ -n $native && $remoted == "$native" ]] || die "the texts differ"
}

step completion "a greedy completion on APIR0; native: $PREPARE_TOKENS tokens"
completes "${run[@]}" "${device[@]}" "$image"

step chat "llama-server in a container answers a chat request"
timeout "$(patience 60)" podman run -d --name chat "${options[@]}" "${device[@]}" "$image" \
    llama-server -m /models/first.gguf -ngl 99 -t 1 -np 1 -c 512 --host 127.0.0.1 --port 8080 >>"$log" 2>&1
wait_until 30 curl -sf -o /dev/null http://127.0.0.1:8080/health || :
curl -sS --max-time "$(patience 60)" http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 16, "temperature": 0}' \
    >"$SHARE/chat.json" 2>>"$log" || { podman logs chat >>"$log" 2>&1; die "no answer"; }
podman logs chat >>"$log" 2>&1
podman kill chat >/dev/null
answer=$(jq -er '.choices[0].message.content' "$SHARE/chat.json") || die "$(<"$SHARE/chat.json")"
n=$(jq -r .usage.completion_tokens "$SHARE/chat.json")
[[ -n $answer && $n -gt 0 ]] || die "an empty answer"
quote <<<"$answer"

# What the doctor says of docker.
docker_link() { apir doctor --json | jq -r '.checks[] | select(.name == "docker") | .status'; }

if [[ -n ${VM_SUITE-} ]]; then
    step configure "apir engine configure docker: $(docker --version)"
    [[ $(docker_link) == warn ]] || die "the doctor has no word on docker"
    rc=0
    apir engine configure docker >"$log" 2>&1 || rc=$?
    quote <"$log"
    if [[ $VM_SUITE == bookworm ]]; then
        # A docker without CDI: what the message leads to computes.
        grep -q 'has no CDI' "$log" || die "it ended with $rc"
        rows=(docker-by-hand)
        by_hand
        device=("${BY_HAND[@]}")
    else
        [[ $rc -eq 0 && $(docker_link) == pass ]] || die "it ended with $rc; the doctor says: $(docker_link)"
        rows=(docker docker-read-only docker-user docker-empty-env docker-by-hand)
    fi

    step dockerd "dockerd, and the image in its store"
    { bash tests/vm/engines/setup.sh log && bash tests/vm/engines/setup.sh docker; } >"$log" 2>&1
    for name in "${rows[@]}"; do
        step "$name" "the row $name of make check-engines"
        SUITE=engines bash tests/vm/engines/row.sh "$name" >"$log" 2>&1
    done
    step docker-completion "a greedy completion of docker on APIR0"
    completes run_docker "${device[@]}" "$image"
fi

row() { printf '  %-30s %14s %14s\n' "$@"; }
speed() { printf '%.0f t/s' "$1"; }
echo
row "" "container's CPU" "APIR0"
row "prompt, 32 tokens" "$(speed "$(rate "$SHARE/cpu.json" n_prompt)")" \
    "$(speed "$(rate "$SHARE/apir.json" n_prompt)")"
row "generation, 32 tokens" "$(speed "$(rate "$SHARE/cpu.json" n_gen)")" \
    "$(speed "$(rate "$SHARE/apir.json" n_gen)")"
row "greedy text as native" "" "yes"
row "chat answer over HTTP" "" "$n tokens"
echo "  APIR0 is $description$([[ $threads -gt 1 ]] || echo "; the VM's own CPU is emulated here")"
echo
