#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh WHAT: as tests/vm/engines/setup.sh, which does what is not here: brings up, in the VM and once,
# what rows need.
set -euo pipefail
# shellcheck source=tests/vm/engines/lib.sh
. tests/vm/engines/lib.sh

setup_versions() {
    local name
    for name in systemd-container lxc incus flatpak distrobox podman-toolbox podman docker-compose libggml0; do
        dpkg-query -W -f '{"${Package}": "${Version}"}\n' "$name"
    done | jq -s add
}

# A root for what has no images: the files of localhost/llama.
setup_root() {
    # What systemd would have made at the first boot.
    systemd-machine-id-setup
    mkdir -p /var/lib/machines/box
    mount -t tmpfs tmpfs /var/lib/machines/box
    podman create --name root localhost/llama >/dev/null
    podman export root | tar -x --directory /var/lib/machines/box
    podman rm root >/dev/null
    mkdir -p /var/lib/machines/box/models
}

# Incus as it comes, with images of its own in memory.
setup_incus() {
    printf 'root:1000000:1000000000\n' | tee -a /etc/subuid >>/etc/subgid
    mkdir -p /var/lib/incus /var/cache/incus /var/log/incus
    mount -t tmpfs tmpfs /var/lib/incus
    start incus "$(command -v incusd /usr/libexec/incus/incusd | head -n 1)" --group root </dev/null
    wait_for incus admin waitready --timeout=5
    incus admin init --preseed <<'YAML'
storage_pools: [{name: default, driver: dir}]
profiles: [{name: default, devices: {root: {path: /, pool: default, type: disk}}}]
YAML
    printf 'architecture: x86_64\ncreation_date: 1\nproperties: {description: llama}\n' >/tmp/metadata.yaml
    tar --create --file /tmp/metadata.tar --directory /tmp metadata.yaml
    tar --create --file /tmp/rootfs.tar --directory /var/lib/machines/box .
    incus image import /tmp/metadata.tar /tmp/rootfs.tar --alias llama
    rm /tmp/rootfs.tar
}

# A user who may use host0, too, whichever of both comes first.
setup_rootless() {
    bash tests/vm/engines/setup.sh rootless
    groupadd --system --force apir
    usermod -aG apir user
}

# Into the user's home, which is in memory.
setup_flatpak() {
    as_user mkdir -p .local/share/flatpak
    as_user tar --extract --file /mnt/archives/flatpak.tar --directory .local/share/flatpak
}

case $1 in
versions | root | incus | rootless | flatpak) "setup_$1" ;;
*) exec bash tests/vm/engines/setup.sh "$1" ;;
esac
