#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# overhead.sh [OUT [ARG]...]: what a token costs through the plug-in, a transport and the worker,
# against a host backend that computes nothing. ARGs go to the program (apir-bench --help).
# The last line is `overhead: p50 X us, p99 Y us, Z bytes/token`: what is added to the native run.
#
# BENCH_AGAINST: the build folder of another commit, whose plug-in, server and worker are measured instead.
#
# BENCH_TRANSPORT: vtest (the default), unix, or several of them in turn, such as "vtest unix vtest
# unix": then a line says which one follows.
#
# BENCH_PIN="C H": the client on core C, server and worker on core H. Without it the kernel may put
# both on one core for a while, which gives other figures: less to copy between caches, but a switch
# of processes at every hand-over.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh

out=$(realpath "${1:-build/release-gcc}")
shift || :
unset GGML_BACKEND_PATH APIR_TRANSPORT APIR_LOG APIR_ON_LOSS

model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
echo "machine: ${model:-unknown CPU}, $(nproc) cores, $(uname -srm), load $(cut -d' ' -f1-3 /proc/loadavg)"

served=${BENCH_AGAINST:-$out}
# STAMP0 says that it is a GPU, so the server would fill a shader cache for it, beside what is measured. Older ones do
# not, and know no such keys.
quiet=
for key in spare_workers shader_seconds; do
    ! grep -qa "$key" "$served/backend/apir-render-server" || quiet+=", \"$key\": 0"
done
# shellcheck disable=SC2034 # read by vtest_start
VTEST_CONFIG="{\"ggml_backends_dir\": \"$out/tests/bench/backends\", \"devices\": [\"STAMP0\"], \"threads\": 1$quiet}"
read -ra transports <<<"${BENCH_TRANSPORT:-vtest}"
for transport in "${transports[@]}"; do
    [[ $transport == vtest || $transport == unix ]] ||
        { echo "overhead.sh: BENCH_TRANSPORT: $transport is neither vtest nor unix" >&2; exit 2; }
    [[ ${#transports[@]} -eq 1 ]] || echo "transport: $transport"
    "${transport}_start" "$served"
    mapfile -t vars < <(vtest_env "$served")
    client=
    if [[ -n ${BENCH_PIN-} ]]; then
        read -r client host <<<"$BENCH_PIN"
        taskset -acp "$host" "$VTEST_PID" >/dev/null # what it starts from now on follows
        echo "pinned: client to core $client, host to core $host"
    fi
    env "${vars[@]}" ${client:+taskset -c "$client"} "$out/tests/bench/apir-bench" overhead \
        --stamp "$out/tests/bench/libggml-stamp.so" "$@"
    vtest_stop
done
