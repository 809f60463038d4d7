#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# NVIDIA's MPS control daemon (Debian's nvidia-cuda-mps 550.163.01-5.1, of non-free) runs on a machine without a GPU or a
# driver, and says so only where it is asked to start a server:
#
#   - In the foreground (-f) it listens on two sockets, and writes nvidia-cuda-mps-control.pid after both: the file is a
#     sign that it can be asked. Nothing else of it is.
#   - start_server ends with 0 and prints nothing, though the server it has started has ended with status 1. That is in
#     the daemon's output alone.
#   - A second daemon in the same folder ends with 1 and leaves the first one as it is.
#   - After quit, and that failed start, the daemon ends with 1; quit itself ends now with 0, now with 1. The sockets are
#     still there, and the .pid file is gone.
#
# Wants Debian on amd64, apt, curl and network. What was seen: the last lines, with "ok". Fails if that changes.
set -euo pipefail
version=550.163.01-5.1
sum=1ccfe0d531ba35df61c25c327a544e7c820139edbd363805c8ce54a8e58e23b7
work=$(mktemp -d)
daemon=
trap '[[ -z $daemon ]] || kill "$daemon" 2>/dev/null || :; rm -rf "$work"' EXIT

say() { echo "ok    $*"; }
die() {
    echo "FAIL  $*"
    exit 1
}
within() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [[ $SECONDS -lt $end ]] || die "not in time: $*"
        sleep 0.05
    done
}

curl -fsSL -o "$work/mps.deb" \
    "http://deb.debian.org/debian/pool/non-free/n/nvidia-graphics-drivers/nvidia-cuda-mps_${version}_amd64.deb"
echo "$sum  $work/mps.deb" | sha256sum --check --quiet
dpkg-deb --extract "$work/mps.deb" "$work/root"
control=$work/root/usr/bin/nvidia-cuda-mps-control
export PATH=$work/root/usr/sbin:$PATH
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
mkdir "$work/pipe" "$work/log"
[[ ! -e /dev/nvidiactl ]] || die 'this machine has an NVIDIA GPU: what is shown here is for one without'

"$control" -f >"$work/out" 2>&1 &
daemon=$!
within 10 test -s "$work/pipe/nvidia-cuda-mps-control.pid"
[[ -S $work/pipe/control && -S $work/pipe/control_privileged ]] || die 'the .pid file came before the sockets'
[[ $(echo get_default_active_thread_percentage | "$control") == 100.0 ]] || die 'it does not answer'
say 'it runs and answers without a GPU; the .pid file comes after its sockets'

status=0
printed=$(echo "start_server -uid $(id -u)" | "$control" 2>&1) || status=$?
within 10 grep -q 'Server [0-9]* exited with status 1' "$work/out"
[[ $status -eq 0 && -z $printed ]] || die "start_server: status $status, \"$printed\""
say 'start_server: status 0 and no word, though the server has ended with status 1'

status=0
"$control" -f >"$work/second" 2>&1 || status=$?
grep -q 'already running' "$work/second" && [[ $status -eq 1 ]] || die "a second daemon: status $status"
kill -0 "$daemon" || die 'the first has ended'
say 'a second daemon in its folder ends with 1'

echo quit | "$control" || [[ $? -eq 1 ]]
status=0
wait "$daemon" || status=$?
daemon=
[[ $status -eq 1 ]] || die "the daemon ended with $status"
[[ -S $work/pipe/control && -S $work/pipe/control_privileged ]] || die 'its sockets are gone'
[[ ! -e $work/pipe/nvidia-cuda-mps-control.pid ]] || die 'the .pid file is still there'
say 'after quit: it ends with 1, the sockets are still there, the .pid file is gone'
