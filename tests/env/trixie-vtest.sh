#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# trixie-vtest.sh ARG...: the virgl_test_server of Debian trixie (virglrenderer
# 1.1) out of build/trixie, run inside the build root with its own loader and
# its own libraries. Its RENDER_SERVER_EXEC_PATH, if set, is run with the
# libraries of the build root as usual; unset, it is trixie's own server.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
tree=$(cd "$here/../.." && pwd -P)/build/trixie
[[ -x $tree/usr/bin/virgl_test_server ]] || {
    echo "trixie-vtest.sh: no second tree yet; make it with: make sysroot-trixie" >&2
    exit 125
}
loader=$(echo "$tree"/usr/lib/*/ld-linux-*.so.*)
libs=$(dirname "$loader")
# The compiled-in path would start the build root's server: another version.
# It is found through a wrapper, because it needs the same loader.
if [[ -z ${RENDER_SERVER_EXEC_PATH-} ]]; then
    export RENDER_SERVER_EXEC_PATH=$here/trixie-render-server.sh
fi
# The loader keeps --library-path to itself: nothing leaks to children.
exec "$loader" --library-path "$libs" --argv0 virgl_test_server "$tree/usr/bin/virgl_test_server" "$@"
