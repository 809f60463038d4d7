#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh OUT ARCHIVE: packs what a run on a GPU machine takes: the C library
# and its loader, llama.cpp's tools, virglrenderer, ggml with its CPU, Vulkan and
# (where packaged) RPC backends, our parts, and the runner. The machine needs a
# Linux kernel and a GPU driver, nothing else. Last line: path and size.
set -euo pipefail
out=$1 archive=$2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
lib=$stage/apir-bundle/lib
mkdir -p "$lib" "$stage/apir-bundle/bin"

libdir=/usr/lib/x86_64-linux-gnu
programs=(
    /usr/bin/llama-bench /usr/bin/llama-completion /usr/bin/llama-server
    /usr/bin/virgl_test_server /usr/libexec/virgl_render_server
    /usr/libexec/x86_64-linux-gnu/ggml/test-backend-ops
    "$out/backend/apir-render-server" "$out/backend/apir-worker"
    "$out/tests/models/gguf-write" "$out/tests/parity/logits" "$out/tests/parity/compare"
)
[[ ! -x /usr/bin/ggml-rpc-server ]] || programs+=(/usr/bin/ggml-rpc-server)
plugins=("$libdir"/ggml/backends0/libggml-*.so)
# Loaded by name: the glvnd loaders that NVIDIA's Vulkan driver asks for, and the
# stubs of glibc's former parts.
extra=("$libdir"/lib{EGL,GLdispatch,OpenGL,GLX,GL}.so.* "$libdir"/lib{dl,pthread,rt,util}.so.?
       "$libdir"/libnss_files.so.2 "$libdir"/libggml.so.0)

needed() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u
}
for f in $(needed "${programs[@]}" "${plugins[@]}" "${extra[@]}"); do
    cp -L "$f" "$lib/$(basename "$f")"
done
for f in "${extra[@]}"; do
    [[ -e $f ]] && cp -L "$f" "$lib/$(basename "$f")"
done
# ggml looks for backends beside the running program, which is the loader.
cp -L "${plugins[@]}" "$lib/"
cp -L /lib64/ld-linux-x86-64.so.2 "$lib/"
cp "$out/frontend/libggml-apir.so" "$stage/apir-bundle/"

for p in "${programs[@]}"; do
    name=$(basename "$p")
    cp -L "$p" "$lib/$name.bin"
    # Through our own loader: the machine's C library may be older than the tools.
    cat >"$stage/apir-bundle/bin/$name" <<'W'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")/../lib
exec "$here/ld-linux-x86-64.so.2" --library-path "$here${APIR_DRIVER_PATH:+:$APIR_DRIVER_PATH}" \
    --argv0 "$0" "$here/$(basename "$0").bin" "$@"
W
    chmod +x "$stage/apir-bundle/bin/$name"
done
cp tests/bundle/run "$stage/apir-bundle/run"
strip --strip-unneeded "$lib"/*.bin "$lib"/*.so* 2>/dev/null || :

mkdir -p "$(dirname "$archive")"
tar -C "$stage" -cf - apir-bundle | gzip -9 >"$archive"
echo "bundle: $archive $(stat -c %s "$archive") bytes"
