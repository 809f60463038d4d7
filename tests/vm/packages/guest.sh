#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# guest.sh VERSION OUT ROW: what run.sh runs in the VM, whose init is systemd: the life of Debian's packages on one
# machine, which is the guest of a VM (gpu0) and its own host (host0) at once. Each row goes on where the one
# before it has left the machine.
set -uo pipefail
version=$1 OUT=$2 ROW=$3
SHARE=/mnt/share
ROWS=$SHARE/rows
# shellcheck source=tests/vm/packages/lib.sh
. tests/vm/packages/lib.sh
export DEBIAN_FRONTEND=noninteractive
OURS=(apir apir-guest apir-host libggml-apir)
SPEC=/etc/cdi/apir.json
PROMPT='Hello, world'

# Polls: what is waited for is systemd's or an engine's own doing.
within() { # SECONDS COMMAND...
    local limit=$1 end=$((SECONDS + $1))
    shift
    until "$@"; do
        [[ $SECONDS -lt $end ]] || die "not within $limit s: $*"
        sleep 0.2
    done
}
property() { systemctl show --property "$2" --value "$1"; }
enabled() { [[ $(systemctl is-enabled "$1" 2>&1) == "$2" ]] || die "$1 is $(systemctl is-enabled "$1" 2>&1), not $2"; }
active() { [[ $(systemctl is-active "$1") == "$2" ]] || die "$1 is $(systemctl is-active "$1"), not $2"; }
offers() { jq -e --arg name "$1" 'any(.devices[]; .name == $name)' "$SPEC" >/dev/null 2>&1; }
from_files() { apt-get install -y "$@"; }

# What a package may leave or take, by name. Left out is what the machine itself goes on writing, and what is
# gone before find has seen it.
listing() {
    { find /etc /usr /opt /var /run/systemd/system /run/apir -xdev \
        \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/containers -o -path /var/log \
        -o -path /var/cache/apt -o -path /var/cache/debconf -o -path /var/cache/man -o -path /var/cache/ldconfig \
        -o -path /var/tmp -o -path /var/lib/systemd/timers -o -path /var/lib/systemd/random-seed \) -prune -o -print 2>/dev/null ||
        true; } | sort >"$1"
    grep -qx /usr/bin/podman "$1"
}

# llama-bench on a small model: the results are computed on APIR0.
BENCH=(llama-bench -m /mnt/models/first.gguf -dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1 -o json)
on_apir() {
    jq -c '.[]' "$1"
    jq -e 'length == 2 and all(.[]; .devices == "APIR0" and .n_gpu_layers == 99 and .avg_ts > 0)' "$1" >/dev/null ||
        die 'not computed on APIR0'
}
LIMIT=(timeout --kill-after=5 120)
container() { "${LIMIT[@]}" podman run --rm --network=none -v /mnt/models:/mnt/models:ro "$@"; }

# `apir engine` leaves that folder where it was not.
mkdir -p /etc/containers/containers.conf.d
listing /tmp/listing.before

row_install() {
    from_files "$SHARE"/old/*.deb
    [[ $(dpkg-query -W -f '${db:Status-Status} ' "${OURS[@]}") == 'installed installed installed installed ' ]]
    enabled apir-cdi-refresh.service enabled
    enabled apir-cdi-refresh.path enabled
    active apir-cdi-refresh.path active
    enabled apir-host.socket disabled
    active apir-host.socket inactive
    enabled apir-host.service indirect
    getent group apir
    [[ $(stat -c '%a %G' /run/apir/limits) == '1770 render' ]]
    [[ $(stat -c %a /usr/libexec/apir/apir-hook) == 711 ]]
    # Of ours: what else the build root has may want what this machine has not.
    systemctl --failed --no-legend
    [[ $(systemctl --failed --no-legend 'apir*') == '' ]]
    man --path apir apir-hook apir-render-server apir-backend.json apir-cdi libggml-apir
}
row install 'apt installs them; what is enabled and what is not'
# All else rests on that.
dpkg --status "${OURS[@]}" >/dev/null 2>&1 || exit 1

row_spec() {
    [[ $(property apir-cdi-refresh.service Result) == success ]]
    offers gpu0
    refute offers host0
    apir cdi validate "$SPEC"
    # As who installs by hand is told to.
    systemctl disable --now apir-cdi-refresh.service apir-cdi-refresh.path
    rm "$SPEC"
    systemctl enable --now apir-cdi-refresh.service apir-cdi-refresh.path
    offers gpu0
}
row spec 'the unit of the guest has written the spec'

refresh=apir-cdi-refresh.service
runs_as() { # OPTION...: the unit does that instead, and fails; the spec stays
    mkdir -p "/run/systemd/system/$refresh.d"
    printf '[Service]\nExecStart=\nExecStart=/usr/bin/apir cdi generate %s\n' "$*" \
        >"/run/systemd/system/$refresh.d/broken.conf"
    systemctl daemon-reload
    refute systemctl start $refresh
    offers gpu0
}
row_refresh() {
    local engine
    # Engines wait for it.
    for engine in podman docker containerd crio kubelet; do
        [[ " $(property $refresh Before) " == *" $engine.service "* ]]
    done
    # A node that appears: the rule, and nothing else, starts the unit.
    rm "$SPEC"
    udevadm trigger --action=remove /dev/dri/renderD128
    udevadm settle
    udevadm trigger --action=add /dev/dri/renderD128
    within 100 offers gpu0
    runs_as --plugin /nonexistent
    # What its sandbox forbids.
    runs_as --output /usr/lib/apir/x.json
    refute ls /usr/lib/apir/x.json
    rm -r "/run/systemd/system/$refresh.d"
    systemctl daemon-reload
    systemctl reset-failed $refresh
}
row refresh 'the unit is there before the engines, and when a node appears; one that fails leaves the spec'

row_container() {
    container --device virtgpu/apir=gpu0 localhost/llama "${BENCH[@]}" >/tmp/bench
    on_apir /tmp/bench
    journalctl -t apir-hook | grep 'placed as'
}
row container "a container computes on the VM's host, and the hook's words are in the journal"

row_socket() {
    cp "$SHARE/backend.json" /etc/apir/backend.json
    apir config check
    systemd-sysusers
    systemctl enable --now apir-host.socket
    [[ $(stat -c '%a %U %G' /run/apir/host/apir.sock) == '660 root apir' ]]
    # The folder has appeared, so the path unit has the spec written, which asks for the devices.
    within 60 offers host0
    "${LIMIT[@]}" apir run --device host0 -- "${BENCH[@]}" >/tmp/bench
    on_apir /tmp/bench
    active apir-host.service active
    [[ $(stat -c %U "/proc/$(property apir-host.service MainPID)") != root ]]
}
row socket 'host0: the socket starts the server for the first client, which computes; the spec has the device'

row_host0_container() {
    container --device virtgpu/apir=host0 localhost/llama "${BENCH[@]}" >/tmp/bench
    on_apir /tmp/bench
}
row host0-container 'host0: a container computes'

seen_at_work() {
    local id
    id=$(podman container inspect --format '{{.Id}}' seen 2>/dev/null) || return 1
    apir top --once --json | jq -e --arg id "$id" 'any(.servers[] | select(.class == "host").contexts[];
        .who.engine == "podman" and .who.id == $id and .graphs > 0)' >/dev/null
}
row_top() {
    local job
    container --name seen --device virtgpu/apir=host0 localhost/llama "${BENCH[@]}" -r 1000 >/tmp/seen 2>&1 &
    job=$!
    within 600 seen_at_work
    apir top --once
    apir metrics | grep 'container="[0-9a-f]\{64\}"' | head -n 3
    { runuser -u nobody -- apir top --once --json || [[ $? -eq 3 ]]; } | jq -e '.servers == []'
    podman rm --force --time 0 seen
    wait "$job" || :
}
row top 'host0: root sees which container computes, another user nothing'

# ---- a program that takes all memory ----------------------------------------
exercise=$OUT/tests/system/apir-exercise walk=$OUT/tests/hostile/faults/faults-walk
on_host0=(env GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so APIR_TRANSPORT=unix:/run/apir/host/apir.sock)
# holders_start N: so many programs that stay; a line to one's fifo is a computation.
holders_start() {
    local i
    HOLD=$(mktemp -d) HOLDERS=()
    for ((i = 0; i < $1; i++)); do
        mkfifo "$HOLD/$i"
        "${on_host0[@]}" "$exercise" hold <>"$HOLD/$i" >"$HOLD/$i.log" 2>&1 &
        HOLDERS[i]=$!
    done
    within 900 holders_say ready "$1"
}
holders_say() { [[ $(grep -l "$1" "$HOLD"/*.log | wc -l) -eq $2 ]]; }
# All compute once more, right.
holders_right() {
    local i right
    right=$(cat "$HOLD"/*.log | grep -c right) || : # none yet
    for i in "${!HOLDERS[@]}"; do echo go >"$HOLD/$i"; done
    within 300 holders_have_right $((right + ${#HOLDERS[@]}))
}
holders_have_right() { [[ $(cat "$HOLD"/*.log | grep -c right) -eq $1 ]]; }
holders_stop() {
    kill "${HOLDERS[@]}"
    wait "${HOLDERS[@]}" || :
}
groups_of_workers() { find "/sys/fs/cgroup$(property apir-host.service ControlGroup)" -maxdepth 1 -name 'worker-*'; }
# None is left behind; a spare worker may be there.
groups_are_used() { [[ $(groups_of_workers | sed 's/.*-//' | sort) == "$(pgrep -f '^[^ ]*/apir-worker .*--spin-slot' | sort)" ]]; }
ended_for_memory() { # the program's log
    cat "$1"
    grep 'took more main memory than it may have' "$1"
    active apir-host.service active
    [[ $(property apir-host.service NRestarts) == 0 ]]
}
row_hungry() {
    local rc=0
    systemctl restart apir-host.service
    holders_start 20
    holders_right
    # Room for a few buffers more.
    systemctl set-property --runtime apir-host.service MemorySwapMax=0 \
        MemoryMax=$(($(property apir-host.service MemoryCurrent) + (256 << 20)))
    "${on_host0[@]}" "$walk" gorge >/tmp/gorge.log 2>&1 || rc=$?
    ended_for_memory /tmp/gorge.log
    [[ $rc -eq 3 ]]
    holders_right
    "${on_host0[@]}" "$exercise" compute
    holders_stop
    within 60 groups_are_used
    systemctl set-property --runtime apir-host.service MemoryMax=infinity
}
row hungry 'host0: a program that takes all memory of the service ends alone; 20 others compute on'

row_hungry_group() {
    local group rc=0
    jq '. + {"context_host_memory_mib": 64, "context_device_memory_mib": 64, "context_graph_mib": 1,
             "context_queue_mib": 1, "spare_workers": 0}' \
        "$SHARE/backend.json" >/etc/apir/backend.json
    systemctl restart apir-host.service
    holders_start 3
    [[ $(groups_of_workers | wc -l) -eq 3 ]]
    while read -r group; do
        [[ $(<"$group/memory.max") -eq $((1154 << 20)) && $(<"$group/pids.max") -lt 1000 ]]
        [[ $(<"$group/cgroup.procs") == "${group##*-}" ]]
    done < <(groups_of_workers)
    # What the worker would do that was taken over: more than its share, asked for or not.
    group=$(groups_of_workers | head -n 1)
    sh -c 'echo $$ >"$1/cgroup.procs" && exec tail /dev/zero' sh "$group" || rc=$?
    [[ $rc -eq 137 ]]
    grep '^oom_kill 1$' "$group/memory.events"
    active apir-host.service active
    [[ $(property apir-host.service NRestarts) == 0 ]]
    holders_stop
    within 60 groups_are_used
    cp "$SHARE/backend.json" /etc/apir/backend.json
    systemctl restart apir-host.service
}
row hungry-group 'host0: each worker has a control group, with the limits of its context'

is_anew() { [[ $(property apir-host.service MainPID) -gt 0 && $(property apir-host.service MainPID) -ne $1 ]]; }
row_killed_server() {
    local pid
    for _ in 1 2; do
        pid=$(property apir-host.service MainPID)
        kill -KILL "$pid"
        within 60 is_anew "$pid"
    done
    active apir-host.socket active
    "${on_host0[@]}" "$exercise" compute
}
row killed-server 'host0: a server that is killed is started again, and computes'

# NVIDIA's own daemon, which runs without a GPU; two classes of a group, as docs/sharing.md makes them.
mps_daemons() { pgrep -x nvidia-cuda-mps || :; } # of a name, 15 characters are kept
mps_is() { [[ $(mps_daemons | wc -l) -eq $1 ]]; }
mps_is_another() { mps_is 1 && [[ $(mps_daemons) -ne $1 ]]; }
mps_below() { # UNIT
    grep -rqx --include=cgroup.procs "$(mps_daemons)" "/sys/fs/cgroup$(property "$1" ControlGroup)"
}
# The daemon's user is the unit's.
mps_is_theirs() { # UNIT
    local uid
    uid=$(stat -c %u "/proc/$(property "$1" MainPID)")
    [[ $uid -ne 0 && $(stat -c %u "/proc/$(mps_daemons)") == "$uid" ]]
}
row_mps() {
    local pid class
    jq '. + {"mps": "auto"}' "$SHARE/backend.json" >/etc/apir/backend.json
    systemctl restart apir-host.service
    "${on_host0[@]}" "$exercise" compute
    within 60 mps_is 1
    pid=$(mps_daemons)
    mps_is_theirs apir-host.service
    kill -KILL "$pid"
    within 60 mps_is_another "$pid"
    "${on_host0[@]}" "$exercise" compute
    systemctl stop apir-host.service
    mps_is 0
    for class in one two; do
        jq '. + {"mps": "auto", "mps_group": "lab"}' "$SHARE/backend.json" >"/etc/apir/backend-$class.json"
        mkdir -p "/etc/systemd/system/apir-host@$class.service.d"
        printf '[Service]\nUser=apir-lab\nRuntimeDirectory=apir-lab\nRuntimeDirectoryPreserve=yes\n' \
            >"/etc/systemd/system/apir-host@$class.service.d/group.conf"
    done
    systemctl daemon-reload
    for class in one two; do
        systemctl start "apir-host@$class.socket"
        "${on_host0[@]}" APIR_TRANSPORT="unix:/run/apir/host-$class/apir.sock" "$exercise" compute
    done
    within 60 mps_is 1
    mps_below apir-host@one.service
    mps_is_theirs apir-host@one.service
    mps_is_theirs apir-host@two.service
    # Whose it is differs out here: systemd maps the ids of such a folder.
    [[ $(stat -c %a /run/apir-lab/apir-group-lab) == 700 ]]
    systemctl stop apir-host@one.{socket,service}
    within 60 mps_below apir-host@two.service
    within 60 mps_is 1
    "${on_host0[@]}" APIR_TRANSPORT=unix:/run/apir/host-two/apir.sock "$exercise" compute
    systemctl stop apir-host@two.{socket,service}
    mps_is 0
    systemctl clean --what=cache --what=runtime apir-host@{one,two}.service
    rm -rf /etc/apir/backend-{one,two}.json /etc/systemd/system/apir-host@{one,two}.service.d /run/apir/host-{one,two}
    systemctl daemon-reload
    cp "$SHARE/backend.json" /etc/apir/backend.json
    systemctl start apir-host.service
}
row mps "host0: NVIDIA's MPS daemon under the service, and one for two classes of a group"

# As docs/packages.md has it, with less to compute; the table has a line for each result.
BRIEF=(-dev APIR0 -ngl 99 -t 1 -p 4 -n 4 -r 1)
in_table() {
    cat "$1"
    [[ $(grep -cE '\| *([A-Za-z]+,)*APIR *\|.*\| *(pp4|tg4) *\|' "$1") -eq 2 ]] || die 'not computed on APIR0'
}
row_systemd_run() {
    ln -s /mnt/models /models
    systemd-run --wait --pipe -- apir run --device host0 -- llama-bench -m /models/model.gguf "${BRIEF[@]}" >/tmp/bench
    in_table /tmp/bench
    systemd-run --wait --pipe -p DynamicUser=yes -p SupplementaryGroups=apir -p ProtectSystem=strict \
        -p PrivateDevices=yes -- apir run --device host0 -- llama-bench -m /models/model.gguf "${BRIEF[@]}" >/tmp/bench
    in_table /tmp/bench
    apir run --device host0 --print > /run/apir.env
    systemd-run --wait --pipe -p EnvironmentFile=/run/apir.env llama-bench -m /models/model.gguf "${BRIEF[@]}" >/tmp/bench
    in_table /tmp/bench
}
row systemd-run 'host0: systemd-run with apir run, as a user without rights, and with the variables in a file'

row_systemd_run_gpu0() {
    systemd-run --wait --pipe -- apir run --device gpu0 -- llama-bench -m /models/model.gguf "${BRIEF[@]}" >/tmp/bench
    in_table /tmp/bench
    systemd-run --wait --pipe -p DynamicUser=yes -p SupplementaryGroups=render -p ProtectSystem=strict \
        -p DevicePolicy=closed -p 'DeviceAllow=char-drm rw' -- \
        apir run --device gpu0 -- llama-bench -m /models/model.gguf "${BRIEF[@]}" >/tmp/bench
    in_table /tmp/bench
    apir run --print > /run/apir.env
    systemd-run --wait --pipe -p EnvironmentFile=/run/apir.env llama-bench -m /models/model.gguf "${BRIEF[@]}" >/tmp/bench
    in_table /tmp/bench
    # A user who may not open the node computes nothing.
    refute systemd-run --wait --pipe -p DynamicUser=yes -- \
        apir run --device gpu0 -- llama-bench -m /models/model.gguf "${BRIEF[@]}"
}
row systemd-run-gpu0 "the VM's node: systemd-run with apir run, and as a user of the node's group alone"

answer() { # PORT
    curl -sf --max-time 60 "http://127.0.0.1:$1/completion" \
        -d "{\"prompt\": \"$PROMPT\", \"n_predict\": 8, \"temperature\": 0, \"cache_prompt\": false}" | jq -re .content
}

# Debian's own unit; its package is unpacked and not installed (tests/env/packages.d/check-packages).
row_llama_server() {
    local dropin=/etc/systemd/system/llama-server.service.d said
    cp /etc/default/llama-server /tmp/llama-server.default
    systemd-sysusers llama.cpp-services.conf
    systemd-tmpfiles --create llama.cpp-services.conf
    printf '%s\n' LLAMA_ARG_MODEL=/mnt/models/first.gguf LLAMA_ARG_THREADS=1 LLAMA_ARG_CTX_SIZE=512 \
        LLAMA_ARG_PORT=8083 LLAMA_ARG_DEVICE=APIR0 >>/etc/default/llama-server
    (cd /src
        mkdir -p /etc/systemd/system/llama-server.service.d
        cp docs/deploy/llama-server/apir.conf /etc/systemd/system/llama-server.service.d/)
    # A machine without a node is its own host, and has the group that goes with it.
    [[ -e /dev/dri ]] || sed -i s/=render/=apir/ "$dropin/apir.conf"
    systemctl daemon-reload
    systemctl restart llama-server.service
    within 60 curl -sf --max-time 5 -o /dev/null http://127.0.0.1:8083/health
    [[ -n $(answer 8083) ]]
    [[ $(property llama-server.service User) == _llama-server ]]
    said="_SYSTEMD_INVOCATION_ID=$(property llama-server.service InvocationID)"
    refute grep apir: <(journalctl -o cat "$said")
    # Who may not is told so, and does not compute somewhere else.
    sed -i '/^SupplementaryGroups/d' "$dropin/apir.conf"
    systemctl daemon-reload
    systemctl restart llama-server.service
    within 60 systemctl is-failed --quiet llama-server.service
    said="_SYSTEMD_INVOCATION_ID=$(property llama-server.service InvocationID)"
    journalctl -o cat "$said" | grep 'apir: no permission to use'
    systemctl reset-failed llama-server.service
    # As it was before, for what counts files later.
    mv /tmp/llama-server.default /etc/default/llama-server
    rm -rf "$dropin" /var/lib/llama-server /var/cache/llama-server
    systemctl daemon-reload
}
row llama-server "Debian's llama-server.service on APIR0, and without leave to use it"

# ---- upgrade ----------------------------------------------------------------
before_upgrade() {
    podman run -d --name served --network=host --device virtgpu/apir=gpu0 -v /mnt/models:/mnt/models:ro \
        localhost/llama llama-server -m /mnt/models/first.gguf -c 256 -t 1 -ngl 99 -dev APIR0 --port 8080
    podman run -d --name waiting --network=none --device virtgpu/apir=host0 -v /mnt/models:/mnt/models:ro \
        localhost/llama sleep infinity
    within 90 answer 8080 >/tmp/answer.before
    apir engine configure podman
    cp /etc/apir/backend.json /tmp/backend.json
    systemctl disable apir-cdi-refresh.service
    stat -c %i /run/apir/host/apir.sock >/tmp/socket.before
    property apir-host.service MainPID >/tmp/server.before
    property apir-cdi-refresh.service InvocationID >/tmp/refresh.before
}
row_upgrade() {
    before_upgrade
    ls /usr/lib/{apir,apir-guest,apir-host,libggml-apir}-of-a-lower-version
    from_files "$SHARE"/new/*.deb
    [[ $(dpkg-query -W -f '${Version}\n' "${OURS[@]}" | sort -u) == "$version-0apir1" ]]
    refute ls /usr/lib/*-of-a-lower-version
    cmp /etc/apir/backend.json /tmp/backend.json
    enabled apir-host.socket enabled
    active apir-host.socket active
    enabled apir-cdi-refresh.service disabled
    active apir-cdi-refresh.path active
    [[ $(stat -c %i /run/apir/host/apir.sock) == "$(</tmp/socket.before)" ]]
    systemctl enable apir-cdi-refresh.service
}
row upgrade "from a lower version: the configuration, what is enabled and the socket stay"

refreshed() {
    [[ $(property apir-cdi-refresh.service InvocationID) != "$(</tmp/refresh.before)" &&
        $(property apir-cdi-refresh.service ActiveState) == inactive ]]
}
row_upgrade_spec() {
    within 60 refreshed
    [[ $(property apir-cdi-refresh.service Result) == success ]]
    offers gpu0 && offers host0
}
row upgrade-spec 'the path unit has the spec written anew'

row_upgrade_clients() {
    # A program that computes through the VM's host has what it needs in memory.
    answer 8080 >/tmp/answer.after
    same 'another answer after the upgrade' /tmp/answer.before /tmp/answer.after
    # The server of this machine is a new one, and containers from before reach it.
    [[ $(property apir-host.service MainPID) != "$(</tmp/server.before)" ]]
    "${LIMIT[@]}" podman exec waiting "${BENCH[@]}" >/tmp/bench
    on_apir /tmp/bench
    podman rm --force --time 0 served waiting
}
row upgrade-clients 'a program of a container goes on on gpu0; a container from before computes on the new host0'

row_multiarch_installed() {
    dpkg --add-architecture arm64
    dpkg -i "$SHARE"/libggml-apir_*_arm64.deb
    [[ $(dpkg-query -W -f '${db:Status-Status} ' libggml-apir:amd64 libggml-apir:arm64) == 'installed installed ' ]]
    ls /usr/lib/{x86_64,aarch64}-linux-gnu/apir/libggml-apir.so
    dpkg --purge libggml-apir:arm64
    ls /usr/lib/x86_64-linux-gnu/apir/libggml-apir.so
}
row multiarch-installed "another architecture's plug-in is installed beside"

# ---- remove and purge -------------------------------------------------------
row_remove() {
    ls /etc/containers/containers.conf.d/50-apir.conf
    apt-get remove -y "${OURS[@]}"
    systemctl list-units --no-legend 'apir*' | tee /tmp/units
    [[ ! -s /tmp/units ]] || die 'units go on'
    refute pgrep -x 'apir-(render-server|worker)'
    [[ ! -e /run/apir && ! -e $SPEC ]]
    listing /tmp/listing.removed
    comm -13 /tmp/listing.before /tmp/listing.removed | tee /dev/stderr >/tmp/left
    # The conffile; which units were enabled; the cache.
    refute grep -vE -e '^/etc/apir(/backend\.json)?$' -e '^/etc/systemd/system/[a-z.-]+\.wants/apir-' \
        -e '^/var/lib/systemd/deb-systemd-helper-' -e '^/var/cache/(private/)?apir(/|$)' /tmp/left
    cmp /etc/apir/backend.json /tmp/backend.json
    podman run --rm localhost/llama true
}
row remove 'takes all away but the conffile, what was enabled and the cache; podman is as it was'

row_purge() {
    apt-get purge -y "${OURS[@]}"
    listing /tmp/listing.purged
    same 'left behind, or taken too much' /tmp/listing.before /tmp/listing.purged
    systemctl list-units --all --no-legend 'apir*' | tee /tmp/units
    [[ ! -s /tmp/units ]] || die 'units are left'
}
row purge 'leaves nothing but the group'

# ---- a machine whose /usr is read-only --------------------------------------
row_installer() {
    # As in a podman machine (Fedora CoreOS): /usr/local leads to /var.
    mv /usr/local /var/usrlocal
    ln -s ../var/usrlocal /usr/local
    mount --bind /usr /usr
    mount -o remount,bind,ro /usr
    refute touch /usr/written
    podman load --quiet --input "$SHARE/installer.tar"
    listing /tmp/listing.plain
    podman run --rm --privileged --pid=host --network=none -v /:/host localhost/apir-installer install
    apir --version
    [[ $(stat -c '%a %u' /usr/local/libexec/apir/apir-hook) == '711 0' ]]
    enabled apir-cdi-refresh.service enabled
    active apir-cdi-refresh.path active
    apir cdi validate "$SPEC"
    container --device virtgpu/apir=gpu0 localhost/llama "${BENCH[@]}" >/tmp/bench
    on_apir /tmp/bench
}
row installer 'the installer image on a machine whose /usr is read-only; a container computes'

row_installer_again() {
    cp "$SPEC" /tmp/spec.before
    apir engine configure podman || true
    touch /usr/local/lib/apir/of-an-older-version
    echo 'f /usr/local/lib/apir/of-an-older-version' >>/var/lib/apir/installed
    podman run --rm --privileged --pid=host --network=none -v /:/host localhost/apir-installer install
    refute ls /usr/local/lib/apir/of-an-older-version
    same 'another spec' /tmp/spec.before "$SPEC"
}
row installer-again 'run again, as for an upgrade: what an older version had is gone, the spec is the same'

row_installer_remove() {
    podman run --rm --privileged --pid=host --network=none -v /:/host localhost/apir-installer remove
    listing /tmp/listing.removed
    same 'left behind, or taken too much' /tmp/listing.plain /tmp/listing.removed
    systemctl list-units --all --no-legend 'apir*' | tee /tmp/units
    [[ ! -s /tmp/units ]] || die 'units are left'
    podman run --rm localhost/llama true
}
row installer-remove 'takes out what it has put there, and nothing else'
