#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# without-blas.sh CMD...: runs CMD in a mount namespace in which ggml has no BLAS backend.
#
# An accelerator takes large products away from the CPU in every context, natively more than
# remoted, and sums in another order. libllama has no option against it, so the file is hidden:
# ggml passes over what is no library. Nobody outside the namespace sees that.
set -euo pipefail
as=()
[[ $(id -u) -eq 0 ]] || as=(--user --map-root-user)
# shellcheck disable=SC2016 # expanded by the inner shell
exec unshare ${as[@]+"${as[@]}"} --mount --propagation private bash -c '
    for file in $(find /usr/lib -name "libggml-blas*.so"); do
        mount --bind /dev/null "$file" || exit 2
    done
    exec "$@"' bash "$@"
