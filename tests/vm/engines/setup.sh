#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh WHAT: brings up, in the VM and once, what rows need (guest.sh calls it):
# the machine, or one of the words in the rows' second column. `versions` prints
# what is installed, `clear` removes what a row has left behind.
set -euo pipefail
# shellcheck source=tests/vm/engines/lib.sh
. tests/vm/engines/lib.sh

IMAGE_ARCHIVE=/mnt/archives/llama.tar

# A system log, where the hook's lines are looked for.
setup_log() {
    : >/var/log/messages
    /run/vm/busybox syslogd -O /var/log/messages
    wait_for test -S /dev/log
}

# The guest's files, the spec, a system log and, as where systemd is, mounts that
# are shared.
setup_machine() {
    cp -a /mnt/share/root/. /
    mount --make-rshared /
    setup_log
    # The range that rootful --userns=auto takes ids from.
    useradd --system --no-create-home containers
    printf '%s\n' containers:1000000:1000000 | tee -a /etc/subuid >>/etc/subgid
    chgrp render "$NODE"
    apir cdi generate
    apir cdi validate /etc/cdi/apir.json
}

setup_versions() {
    jq -n --arg kernel "$(uname -r)" --arg podman "$(podman --version)" --arg crun "$(crun --version | head -n 1)" \
        --arg runc "$(runc --version | head -n 1)" --arg docker "$(docker --version)" \
        --arg containerd "$(containerd --version)" --arg llama "$(dpkg-query -W -f '${Version}' libggml0)" \
        'def last_word: [scan("[0-9]+\\.[0-9][^ ,]*")][0];
        {kernel: $kernel, podman: ($podman | last_word), crun: ($crun | last_word), runc: ($runc | last_word),
         docker: ($docker | last_word), containerd: ($containerd | last_word), ggml: $llama}'
}

# An unprivileged user in the node's group, with a range of ids, a cgroup and a
# runtime directory, as a login gives them.
setup_rootless() {
    useradd --create-home --uid 1000 --groups render user
    mount -t tmpfs -o mode=0700,uid=1000,gid=1000 tmpfs "$USER_HOME"
    install -d -o user -g user -m 0700 /run/user/1000
    install -d -o user -g user /sys/fs/cgroup/user
    chown user /sys/fs/cgroup/user/cgroup.{procs,subtree_control}
    as_user mkdir -p .config/containers
    as_user tee .config/containers/storage.conf >/dev/null <<CONF
[storage]
driver = "overlay"
graphroot = "$USER_HOME/.local/share/containers/storage"
runroot = "/run/user/1000/containers"
CONF
    as_user podman load --quiet --input "$IMAGE_ARCHIVE"
}

start_containerd() {
    [[ ! -S /run/containerd/containerd.sock ]] || return 0
    mkdir -p /var/lib/containerd
    mount -t tmpfs tmpfs /var/lib/containerd
    start containerd containerd </dev/null
    wait_for ctr version
}

setup_containerd() {
    start_containerd
    ctr image import "$IMAGE_ARCHIVE"
}

# No network: there is none in here. Everything else is as it comes.
setup_docker() {
    start_containerd
    mkdir -p /var/lib/docker
    mount -t tmpfs tmpfs /var/lib/docker
    start docker dockerd --bridge=none --iptables=false --ip6tables=false \
        --containerd /run/containerd/containerd.sock </dev/null
    wait_for docker version
    docker load --quiet --input "$IMAGE_ARCHIVE"
}

# The server that listens on this machine, and a spec that has it.
setup_host() {
    cp -a /mnt/share/host-root/. /
    groupadd --system --force apir
    ! id user 2>/dev/null || usermod -aG apir user
    start host env APIR_CONFIG=/mnt/share/host.json apir host serve </dev/null
    wait_for test -S /run/apir/host/apir.sock
    apir cdi generate
    grep -q host0 /etc/cdi/apir.json
}

setup_clear() {
    set +e # each as far as it goes
    podman pod rm --force --all --time 0
    podman rm --force --all --time 0
    ! id user || as_user podman rm --force --all --time 0
    [[ ! -S /run/docker.sock ]] || docker ps -aq | xargs -r docker rm -f
    [[ ! -S /run/containerd/containerd.sock ]] || {
        ctr task ls -q | xargs -r -n 1 ctr task kill -s KILL
        ctr container ls -q | xargs -r -n 1 ctr container rm
    }
    chmod 0666 "$NODE"
}

"setup_$1"
