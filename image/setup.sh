#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh: run in the image's root, once its packages are installed and our files are in
# place (`make install-frontend install-backend`), by build.sh and by Containerfile.
set -eu

searched=/usr/lib/$(uname -m)-linux-gnu/ggml/backends0
worker=/usr/lib/apir/backends

# The plug-in goes where this image's ggml searches, under a name that ggml knows: it is found
# where the container was given a render node and nothing else. Where there is a CDI spec, apir-hook
# mounts the machine's own plug-in over it.
mv /usr/lib/apir/libggml-apir.so "$searched/libggml-virtgpu.so"

# ggml's Vulkan backend is the worker's alone: the programs would see the VM's GPU a second time,
# through Venus. And the plug-in is not the worker's.
mkdir -p "$worker"
dpkg-divert --quiet --local --rename --divert "$worker/libggml-vulkan.so" --add "$searched/libggml-vulkan.so"
for backend in "$searched"/libggml-*.so; do
    [ "${backend##*/}" = libggml-virtgpu.so ] || ln -s "$backend" "$worker/"
done

# No virglrenderer is in here, so other contexts than ours have no server to go to.
mkdir -p /etc/apir
printf '{"ggml_backends_dir": "%s", "stock_server": false}\n' "$worker" >/etc/apir/backend.json

# What only a machine of its own needs, and what differs from one installation to the next.
rm -rf /usr/lib/systemd/system/apir-* /usr/lib/sysusers.d/apir.conf /usr/lib/tmpfiles.d/apir.conf \
    /var/log/* /var/cache/apt/* /var/lib/apt/lists/* /var/cache/debconf/*-old /var/lib/dpkg/*-old \
    /var/cache/ldconfig/aux-cache /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- \
    /etc/resolv.conf /etc/hostname /etc/machine-id /var/lib/dbus/machine-id
