#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh OUT ARCHIVE [vm|ggml PIECES]: packs what a run on a GPU machine takes: the C library
# and its loader, llama.cpp's tools, ggml with its CPU, Vulkan and RPC backends,
# our parts, the benchmarks and the runner; and a
# small build root, for the tests that have to find things where Debian has them. The
# machine needs a Linux kernel, a shell with the usual tools and a GPU driver, nothing
# else; for the tests, root. PIECES.1, .2 and so on are one archive in pieces, to be unpacked over the
# first: what a VM takes besides (vm.bash), or other versions of ggml (ggml.bash). Last lines: paths
# and sizes.
set -euo pipefail
. tests/bench/bundle/pack.bash
. tests/bench/bundle/root.bash
. tests/bench/bundle/vm.bash
. tests/bench/bundle/ggml.bash
out=$1 archive=$2 more=${3-} pieces=${4-}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/apir-bundle
lib=$top/lib
# A build's output directory in small: the scripts of the repository find in it
# what they look for.
small=$top/out
mkdir -p "$lib" "$top/bin" "$small"/{backend,frontend,tests/bench,tests/lib/models}

libdir=/usr/lib/x86_64-linux-gnu
programs=(
    /usr/bin/llama-batched-bench /usr/bin/llama-bench /usr/bin/llama-completion /usr/bin/llama-server
    /usr/bin/curl /usr/bin/jq
    /usr/libexec/x86_64-linux-gnu/llama/bin/ggml-rpc-server
    /usr/libexec/x86_64-linux-gnu/ggml/test-backend-ops
    /usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-llama-archs
    "$out/backend/apir-render-server" "$out/backend/apir-worker"
    "$out/tests/lib/models/gguf-write"
    "$out/tests/bench/apir-bench"
    "$out/tests/native/differ/ggml-differ" "$out/tests/native/differ/llama-differ"
)
plugins=("$libdir"/ggml/backends0/libggml-*.so)
# Loaded by name: the glvnd loaders and the library of X that NVIDIA's Vulkan
# driver asks for, and the stubs of glibc's former parts.
extra=("$libdir"/lib{EGL,GLdispatch,OpenGL,GLX,GL}.so.?
       "$libdir"/lib{dl,pthread,rt,util}.so.? "$libdir"/libnss_files.so.2
       "$libdir"/libXext.so.6 "$libdir"/libggml.so.0)
for f in "${programs[@]}" "${plugins[@]}"; do
    [[ -e $f ]] || { echo "bundle: no $f; run \`make all\`, and see tests/env/packages" >&2; exit 1; }
done

git -c safe.directory='*' describe --always --dirty >"$top/commit" 2>/dev/null || :
pack_libraries "${programs[@]}" "${plugins[@]}" "${extra[@]}"
for f in "${extra[@]}"; do
    [[ ! -e $f ]] || cp -L "$f" "$lib/$(basename "$f")"
done
# ggml looks for backends beside the running program, which is the loader.
cp -L "${plugins[@]}" "$lib/"

for p in "${programs[@]}"; do
    pack_program "$p"
done
strip --strip-unneeded "$lib"/*.bin "$lib"/*.so* 2>/dev/null || :

cp "$out/frontend/libggml-apir.so" "$small/frontend/"
cp "$out/tests/bench/libapir-count.so" "$out/tests/bench/apir-count.json" "$small/tests/bench/"
ln -s ../../bin/apir-render-server "$small/backend/apir-render-server"
ln -s ../../../../bin/gguf-write "$small/tests/lib/models/gguf-write"
for f in tests/lib/patience.bash tests/system/vtest.sh tests/bench/{dispatch,machine,programs,report}.sh \
    tests/bench/{report,table,targets}.jq; do
    mkdir -p "$top/$(dirname "$f")"
    cp "$f" "$top/$f"
done
cp tests/bench/bundle/run "$top/run"

# ---- tests of what is computed ------------------------------------------------------
# The repository in small: scripts, a build's output and the root in which these run.
root=$top/build/sysroot
built=$top/build/release-gcc
mkdir -p "$built"/{backend,frontend,tests}
root_base
root_programs "${plugins[@]}" "$libdir"/libggml.so.0 \
    /usr/bin/llama-{bench,cli,completion,gguf-split,imatrix,mtmd-cli,perplexity,results,server} \
    /usr/bin/virgl_test_server /usr/libexec/virgl_render_server "$libdir"/libvirglrenderer.so.1 \
    /usr/libexec/x86_64-linux-gnu/ggml/test-backend-ops \
    /usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-{llama-archs,opt,thread-safety,llama-context} \
    /usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-{backend-sampler,model-load-cancel,autorelease} \
    /usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-{mtmd-c-api,fusion}
for f in "${extra[@]}"; do
    [[ ! -e $f ]] || root_programs "$f"
done
for p in backend/apir-{render-server,worker} frontend/libggml-apir.so tests/native/archs/{slots,clear-buffers.so} \
    tests/native/options/{logits,options-compare} tests/lib/models/gguf-{write,extra}; do
    install -D "$out/$p" "$built/$p"
    # shellcheck disable=SC2046 # names without spaces
    root_files $(ldd "$out/$p" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }')
done
for f in tests/{native/archs,native/options,native/ops,env}/*.{sh,awk} tests/system/{vtest,unix}.sh tests/lib/patience.bash tests/native/archs/part \
    tests/bench/bundle/{checks,many.bash} LICENSE; do
    [[ ! -e $f ]] || cp --parents "$f" "$top"
done
find "$top/build" -type f -print0 | xargs -0 strip --strip-unneeded 2>/dev/null || :
# Files that are in there twice are packed once.
hardlink -q --ignore-mode --ignore-owner --ignore-time "$top"

pack_archive "$stage" apir-bundle "$archive"
[[ -n $more ]] || exit 0
(cd "$stage" && find apir-bundle ! -type d | sort) >"$stage/packed"
"${more}_root"
(cd "$stage" && find apir-bundle ! -type d | sort | comm -13 packed -) >"$stage/more"
pack_pieces "$stage" "$stage/more" "$pieces"
