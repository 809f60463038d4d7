#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# guest.sh: what run.sh runs in the VM: each document's blocks in their order, each document in a folder
# of its own. /mnt/share/ran gets a line "BLOCK COMMANDS" for each block that has done what it says.
set -uo pipefail
SHARE=/mnt/share
setup() { timeout --kill-after=5 400 bash tests/vm/engines/setup.sh "$1" >"$SHARE/log/setup-$1.log" 2>&1; }

setup machine || { tail -n 20 "$SHARE/log/setup-machine.log" && exit 1; }
cp -a "$SHARE/host-root/." /
mkdir -p /etc/apir
cp "$SHARE/host.json" /etc/apir/backend.json
groupadd --system --force apir
# Engines that are not always there, for the documents that use them.
! grep -q '^docker ' "$SHARE"/blocks/*.sh || setup docker || exit 1

# A program that serves has said so before its clients come.
settle() { # LOG
    local i before=-1
    for ((i = 0; i < 100; i++)); do
        [[ $(stat -c %s "$1") -ne $before || $before -eq 0 ]] || return 0
        before=$(stat -c %s "$1")
        sleep 0.3
    done
}

document='' servers=() failed=0
leave() {
    local pid
    for pid in "${servers[@]}"; do kill -TERM -- "-$pid" 2>/dev/null; done
    servers=()
    podman rm --force --all --time 0 >/dev/null 2>&1
    ! docker version >/dev/null 2>&1 || docker ps -aq | xargs -r docker rm -f >/dev/null
}
enter() { # DOCUMENT
    [[ $1 != "$document" ]] || return 0
    leave
    document=$1
    rm -rf /root/docs
    mkdir -p /root/docs/models
    cp /mnt/models/first.gguf /root/docs/models/model.gguf
    cd /root/docs || exit 1
}

while read -r block where commands who <&9; do
    [[ $who == run || $who == background || $who == shows:* ]] || continue
    enter "${where%:*}"
    log=$SHARE/log/$block.log
    sed 's/\bIMAGE\b/localhost\/llama/g' "$SHARE/blocks/$block.sh" >"/tmp/$block.sh"
    rc=0
    if [[ $who == background ]]; then
        setsid bash -e "/tmp/$block.sh" >"$log" 2>&1 </dev/null &
        servers+=($!)
        settle "$log"
        kill -0 "${servers[-1]}" 2>/dev/null || rc=1
    else
        timeout --kill-after=5 180 bash -e -o pipefail "/tmp/$block.sh" >"$log" 2>&1 </dev/null || rc=$?
    fi
    why="ended with $rc"
    if [[ $rc -eq 0 && $who == shows:* ]] && ! grep -qF -- "${who#shows: }" "$log"; then
        rc=1 why="does not show: ${who#shows: }"
    fi
    if [[ $rc -eq 0 ]]; then
        echo "$block $commands" >>"$SHARE/ran"
        echo "ok    $where"
    else
        failed=1
        echo "FAIL  $where: $why"
        tail -n 15 "$log" | sed 's/^/    | /'
    fi
done 9< <(grep '^[0-9]' "$SHARE/list")
leave
exit "$failed"
