#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# prepare.sh FOLDER: what the VM of this suite is given: the CRI's messages for cri.py, compiled from
# Kubernetes' own file, an image for containerd's sandboxes, and Kubernetes' examples for manifests.py.
set -euo pipefail
work=$1
k8s=/usr/share/gocode/src/k8s.io
mkdir -p "$work/share/cri" "$work/share/schemas" "$work/pause"

# An option of newer compilers, which says only what logs leave out.
sed 's/ \[debug_redact = true\]//' "$k8s/cri-api/pkg/apis/runtime/v1/api.proto" >"$work/api.proto"
protoc -I "$work" --python_out="$work/share/cri" --grpc_python_out="$work/share/cri" \
    --plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin api.proto

cp "$k8s"/api/testdata/HEAD/*.json "$work/share/schemas/"

# A sandbox is a program that waits: podman has one, which is a file that needs no other.
cp /usr/bin/catatonit "$work/pause/pause"
tar --create --directory "$work/pause" --file "$work/archives/pause.tar" pause
