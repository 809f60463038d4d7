#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh WHAT: as tests/vm/engines/setup.sh, which does what is not here: brings up, in the VM and once,
# what rows need.
set -euo pipefail
# shellcheck source=tests/vm/engines/lib.sh
. tests/vm/engines/lib.sh

setup_machine() {
    bash tests/vm/engines/setup.sh machine
    # The folder that documents name.
    cp -r /mnt/models /models
    # An unprivileged user, as clusters give to jobs: in the node's group and the socket's.
    groupadd --system --force apir
    useradd --create-home --uid 1000 --groups render,apir user
}

setup_versions() {
    jq -n --arg kernel "$(uname -r)" --arg slurm "$(dpkg-query -W -f '${Version}' slurmctld)" \
        --arg containerd "$(dpkg-query -W -f '${Version}' containerd)" \
        --arg llama "$(dpkg-query -W -f '${Version}' libllama0)" --arg ggml "$(dpkg-query -W -f '${Version}' libggml0)" \
        '{kernel: $kernel, slurm: $slurm, containerd: $containerd, llama: $llama, ggml: $ggml}'
}

# Two machines with a cable between them, a server on each.
setup_rpc() {
    ip netns add one
    ip netns add two
    ip link add eth0 netns one type veth peer name eth0 netns two
    ip -n one addr add 10.7.0.1/24 dev eth0
    ip -n two addr add 10.7.0.2/24 dev eth0
    ip -n one link set lo up
    ip -n one link set eth0 up
    ip -n two link set eth0 up
    start rpc-one ip netns exec one bash <<'END'
exec apir run --device host0 -- /usr/libexec/x86_64-linux-gnu/llama/bin/ggml-rpc-server --host 10.7.0.1 --device APIR0
END
    start rpc-two ip netns exec two bash <<'END'
exec apir run --device host0 -- /usr/libexec/x86_64-linux-gnu/llama/bin/ggml-rpc-server --host 10.7.0.2 --device APIR0
END
    wait_for ip netns exec one bash -c ': </dev/tcp/10.7.0.1/50052 && : </dev/tcp/10.7.0.2/50052'
}

# containerd as it comes, but for the image of its sandboxes: Kubernetes' own is not here.
setup_cri() {
    podman import --quiet --change 'ENTRYPOINT ["/pause", "-P"]' /mnt/archives/pause.tar localhost/pause:latest
    podman save --quiet --format docker-archive --output /tmp/pause.tar localhost/pause:latest
    mkdir -p /etc/containerd /var/lib/containerd
    cat >/etc/containerd/config.toml <<'CONF'
version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'localhost/pause:latest'
CONF
    mount -t tmpfs tmpfs /var/lib/containerd
    start containerd containerd </dev/null
    wait_for ctr version
    ctr --namespace k8s.io image import --local /tmp/pause.tar
    ctr --namespace k8s.io image import --local /mnt/archives/llama.tar
}

# One node that is also the controller. Slurm asks for names only where there is an address besides lo.
setup_slurm() {
    hostname node1
    ip link add eth0 type dummy
    ip addr add 10.7.1.1/24 dev eth0
    ip link set eth0 up
    printf '127.0.0.1 localhost\n10.7.1.1 node1\n' >/etc/hosts
    install -d -o munge -g munge /run/munge /var/lib/munge /var/log/munge
    setpriv --reuid munge --regid munge --clear-groups munged
    wait_for munge --no-input
    install -d -o slurm -g slurm /var/lib/slurm/slurmctld
    install -d /var/lib/slurm/slurmd
    cp docs/deploy/slurm/cgroup.conf /etc/slurm/
}

# slurm+host0, slurm+gpu0, slurm+classes: Slurm with that machine's gres.conf.
setup_host0() { with_gres host0 apir:1; }
setup_gpu0() { with_gres gpu0 apir:1; }
setup_classes() {
    start class env APIR_CONFIG=/mnt/share/host.json APIR_LOG=debug apir host serve --socket-dir /run/apir/host-batch </dev/null
    wait_for test -S /run/apir/host-batch/apir.sock
    apir cdi generate --host-socket /run/apir/host-batch --class apir-batch --output /etc/cdi/apir-batch.json
    with_gres classes apir:chat:1,apir:batch:2
}
with_gres() { # NAME GRES
    pkill -x 'slurmd|slurmctld' || true
    wait_for slurm_is_gone
    cp "docs/deploy/slurm/gres-$1.conf" /etc/slurm/gres.conf
    sed "s/Gres=apir:1 /Gres=$2 /" docs/deploy/slurm/slurm.conf >/etc/slurm/slurm.conf
    start "slurmctld-$1" slurmctld -D </dev/null
    start "slurmd-$1" slurmd -D </dev/null
    wait_for slurm_is_idle
}
slurm_is_gone() { ! pgrep -x 'slurmd|slurmctld'; }
slurm_is_idle() { [[ $(timeout 5 sinfo --noheader --format=%t) == idle ]]; }

case $1 in
machine | versions | rpc | cri | slurm | host0 | gpu0 | classes) "setup_$1" ;;
*) exec bash tests/vm/engines/setup.sh "$1" ;;
esac
