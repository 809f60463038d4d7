#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: what docs/deploy/ says, with the real programs: llama.cpp over two hosts, which are network
# namespaces here, its router, Slurm with its daemons, containerd's CRI (`make check-cluster`; ROW=name
# runs that row alone). The configuration is docs/deploy/'s own; Kubernetes' manifests are compared with
# its API. Rows, logs and results are as tests/vm/engines/run.sh says; the last line is
# `cluster: N of M rows pass`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
SUITE=cluster exec tests/vm/engines/run.sh "$@"
