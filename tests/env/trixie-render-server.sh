#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Trixie's own render server, for trixie-vtest.sh.
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)/build/trixie
loader=$(echo "$tree"/usr/lib/*/ld-linux-*.so.*)
exec "$loader" --library-path "$(dirname "$loader")" "$tree/usr/libexec/virgl_render_server" "$@"
