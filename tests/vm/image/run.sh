#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: tests of the image `remoting` of this machine's architecture (`make check-image`). First what
# can be told from the archive (archive.bats), then containers of it in the test VM (guest.bats), from
# the store of the stock podman that loaded it. The last line is "image: N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
sh tests/env/inside.sh || exec tests/env/enter.sh tests/vm/image/run.sh "$@"
# shellcheck source=tests/vm/image/prepare.sh
. tests/vm/image/prepare.sh

mkdir -p build/vm
work=$(mktemp -d build/vm/image-XXXXXX)
trap 'rm -rf "$work"' EXIT
arch=$(dpkg --print-architecture)
prepare_vm "$work" || exit 1
# What Debian's own whisper-cli hears on this machine's CPU.
whisper=$work/share/whisper
mkdir "$whisper"
"$OUT/tests/lib/models/whisper-write" model "$whisper/model.bin" || exit 1
"$OUT/tests/lib/models/whisper-write" sound "$whisper/sound.wav" || exit 1
WHISPER_GREEDY='-t 1 -bo 1 -bs 1 -nf -nt'
printf 'WHISPER_GREEDY=%q\n' "$WHISPER_GREEDY" >>"$work/share/agreed"
# shellcheck disable=SC2086 # words on purpose
whisper-cli -m "$whisper/model.bin" -f "$whisper/sound.wav" $WHISPER_GREEDY >"$whisper/native" 2>"$whisper/log" ||
    { tail -n 5 "$whisper/log" >&2; exit 1; }
tests/vm/image/store.sh build/image/store.erofs "build/image/remoting-$arch.tar" || exit 1

passed=0 failed=0
# count TAP RC: what the plan promises and nobody reports has failed, a skip too.
count() {
    local plan ok
    plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$1" | head -n 1)
    ok=$(grep '^ok ' "$1" | grep -vc ' # skip')
    passed=$((passed + ok))
    failed=$((failed + ${plan:-1} - ok))
    [[ $2 -eq 0 || ${plan:-0} -ne $ok ]] || failed=$((failed + 1))
}

rc=0
bats --timing --tap tests/vm/image/archive.bats > >(tee "$work/archive.tap") || rc=$?
wait
count "$work/archive.tap" "$rc"
rc=0
boot_vm "$work" build/image/store.erofs tests/vm/image/guest.sh guest.bats > >(tee "$work/guest.tap") || rc=$?
wait
count "$work/guest.tap" "$rc"
echo "image: $passed passed, $failed failed"
[[ $failed -eq 0 ]]
