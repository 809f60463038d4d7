#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh OUT CORPUS ARCHIVE TARGET...: packs the fuzzers of the build's output directory OUT with
# the libraries that they need and their corpora, the folders of CORPUS. On the other machine, ./fuzz SECONDS JOBS in it;
# what is found is then below out/. Last line: path and size.
set -euo pipefail
. tests/bench/bundle/pack.bash
out=$1 corpus=$2 archive=$3
shift 3
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/apir-fuzz
mkdir -p "$top"/{lib,bin,tests/hostile/fuzz}

libdir=/usr/lib/x86_64-linux-gnu
extra=("$libdir"/ggml/backends0/libggml-cpu*.so "$libdir"/libggml.so.0)
programs=()
for t in "$@"; do
    programs+=("$out/tests/hostile/fuzz/${t}_fuzz")
    pack_program "$out/tests/hostile/fuzz/${t}_fuzz"
done
pack_libraries "${programs[@]}" "${extra[@]}"
# ggml looks for backends beside the running program, which is the loader.
cp -L "${extra[@]}" "$top/lib/"
strip --strip-debug "$top"/lib/*

cp tests/hostile/fuzz/run.sh "$top/tests/hostile/fuzz/"
cp -r "$corpus" "$top/tests/hostile/fuzz/corpus"
cat >"$top/fuzz" <<W
#!/bin/bash
# fuzz [SECONDS [JOBS]]: every fuzzer for SECONDS, JOBS at a time.
cd "\$(dirname "\$(readlink -f "\$0")")" || exit 2
exec tests/hostile/fuzz/run.sh bin tests/hostile/fuzz/corpus out "\${1:-60}" "\${2:-\$(nproc)}" $*
W
chmod +x "$top/fuzz"
pack_archive "$stage" apir-fuzz "$archive"
