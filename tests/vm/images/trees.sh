# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # prepare.sh sets trees and reads image_*
#
# To be sourced by prepare.sh: the file trees of the images, in $trees. What is in them is Debian's; where it
# is, and where programs look for their libraries, is as in the image that each is made after.
#
#   tree_NAME    makes $root, the tree of the image NAME
#   image_NAME   what the image says besides: `podman import --change`

DEBIANS=/usr/lib/$(gcc -print-multiarch)
CORE=("$DEBIANS"/lib{ggml,ggml-base,llama,llama-common,mtmd}.so.0 "$DEBIANS"/llama/lib*-impl.so)
MODULES=("$DEBIANS"/ggml/backends0/libggml-cpu-*.so)

# begin NAME: a shell, and who there is; nothing of llama.cpp.
begin() {
    local name
    root=$trees/$1
    mkdir -p "$root"/{dev,etc,models,proc,run,sys,tmp,usr/{bin,lib/x86_64-linux-gnu,lib64}}
    ln -s usr/bin usr/lib usr/lib64 "$root"
    cp /bin/busybox "$root/usr/bin/"
    for name in sh cat dirname env head kill mkfifo realpath rm sed; do
        ln -s busybox "$root/usr/bin/$name"
    done
    cp --dereference /etc/os-release /etc/passwd /etc/group "$root/etc/"
}

# put FOLDER RUNPATH FILE[=NAME]...: these files go into that folder of the tree, by the names that programs
# ask for. RUNPATH is where they look for their libraries first; -: nowhere of their own.
put() {
    local folder=$root$1 runpath=$2 file name
    shift 2
    mkdir -p "$folder"
    for file; do
        name=${file#*=} file=${file%%=*}
        cp --dereference "$file" "$folder/${name##*/}"
        if [[ $runpath == - ]]; then
            patchelf --remove-rpath "$folder/${name##*/}"
        else
            patchelf --set-rpath "$runpath" "$folder/${name##*/}"
        fi
    done
}

# needs FOLDER: the system's libraries that the tree's files want, and Mesa's driver for this GPU's node.
needs() {
    mkdir -p "$root$1"
    # Some are no programs, which ldd minds.
    { find "$root" -type f ! -name busybox -exec ldd {} + 2>/dev/null || :; } |
        awk '$3 ~ /^\// { print $3 }' | grep -Ev "^$trees|/lib(ggml|llama|mtmd|whisper)" | sort -u |
        xargs cp --dereference -t "$root$1"
    cp --dereference /lib64/ld-linux-x86-64.so.2 "$root/usr/lib64/"
}
mesa() { # FOLDER
    put "$1" - "$DEBIANS/libvulkan.so.1" "$DEBIANS/libvulkan_virtio.so"
    mkdir -p "$root/usr/share/vulkan/icd.d"
    sed 's|"library_path": .*"|"library_path": "libvulkan_virtio.so"|' /usr/share/vulkan/icd.d/virtio_icd.json \
        >"$root/usr/share/vulkan/icd.d/virtio_icd.json"
}

# llama.cpp's own image: everything in /app, programs and libraries side by side.
# shellcheck disable=SC2016 # the loader's word
tree_app() {
    begin app
    put /app '$ORIGIN' "${CORE[@]}" "${MODULES[@]}" \
        /usr/bin/llama-{server,cli,completion,bench,imatrix,mtmd-cli,perplexity,tts}
    needs "$DEBIANS"
}
image_app=('WORKDIR /app' 'ENV LLAMA_ARG_HOST=0.0.0.0' 'ENTRYPOINT ["/app/llama-server"]')

# ramalama's image, on Fedora: libraries in /usr/lib64, and the modules beside the programs, where CMake
# installs them; ggml-vulkan and Mesa.
tree_fedora() {
    begin fedora
    put /usr/lib64 - "${CORE[@]}"
    put /usr/bin - "${MODULES[@]}" "$DEBIANS/ggml/backends0/libggml-vulkan.so" \
        /usr/bin/llama-{server,completion,bench,perplexity}
    mesa /usr/lib64
    needs /usr/lib64
    echo /usr/lib64 >"$root/etc/ld.so.conf"
    ldconfig -r "$root"
}
image_fedora=('CMD ["/bin/sh"]')

# Ollama's: its own program elsewhere, llama-server with its libraries in lib/ollama, a folder below for
# each kind of GPU. Its program is stood in for by launcher.sh; that of CUDA, by a module that cannot be
# loaded for want of the driver's library, as there. With Mesa, which that image lacks.
# shellcheck disable=SC2016
tree_ollama() {
    begin ollama
    put /usr/lib/ollama '$ORIGIN' "${CORE[@]}" "${MODULES[@]}" /usr/bin/llama-{server,quantize}
    put /usr/lib/ollama/vulkan '$ORIGIN' "$DEBIANS/ggml/backends0/libggml-vulkan.so"
    put /usr/lib/ollama/cuda_v13 '$ORIGIN' "$DEBIANS/ggml/backends0/libggml-rpc.so=libggml-cuda.so"
    mesa "$DEBIANS"
    needs "$DEBIANS"
    patchelf --add-needed libcuda.so.1 "$root/usr/lib/ollama/cuda_v13/libggml-cuda.so"
    cp tests/vm/images/launcher.sh "$root/usr/bin/ollama"
}
image_ollama=('ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64' 'ENV OLLAMA_HOST=0.0.0.0:11434'
    'ENTRYPOINT ["/bin/ollama"]')

# LocalAI's: a folder for each backend, with every library of the system in it, and the loader as the
# program: what runs is lib/ld.so, which is given the real one.
tree_localai() {
    local backend=/var/lib/local-ai/backends/llama-cpp
    begin localai
    put "$backend/lib" - "${CORE[@]}" "${MODULES[@]}"
    put "$backend" - /usr/bin/llama-server=llama-cpp-cpu-all
    needs "$backend/lib"
    mv "$root/usr/lib64/ld-linux-x86-64.so.2" "$root$backend/lib/ld.so"
    cat >"$root$backend/run.sh" <<'END'
#!/bin/sh
here=$(dirname "$(realpath "$0")")
cd /
export LD_LIBRARY_PATH="$here/lib:$LD_LIBRARY_PATH"
exec "$here/lib/ld.so" "$here/llama-cpp-cpu-all" "$@"
END
    chmod +x "$root$backend/run.sh"
}
image_localai=('CMD ["/bin/sh"]')

# A wheel such as llama-cpp-python's in a venv: the libraries in the package's lib folder, loaded by the
# interpreter.
# shellcheck disable=SC2016
tree_python() {
    local python site
    begin python
    python=$(basename "$(realpath /usr/bin/python3)")
    site=/opt/venv/lib/$python/site-packages/llama_cpp
    put "$site/lib" '$ORIGIN' "$DEBIANS"/lib{ggml,ggml-base,llama}.so.0 "${MODULES[@]}"
    cp tests/vm/images/llama.py "$root$site/__main__.py"
    mkdir -p "$root/usr/lib/$python"
    tar -c -C "/usr/lib/$python" --exclude=__pycache__ --exclude=config-* --exclude=test . |
        tar -x -C "$root/usr/lib/$python"
    cp "/usr/bin/$python" "$root/usr/bin/"
    ln -s "$python" "$root/usr/bin/python3"
    mkdir -p "$root/opt/venv/bin"
    ln -s /usr/bin/python3 "$root/opt/venv/bin/python3"
    printf 'home = /usr/bin\n' >"$root/opt/venv/pyvenv.cfg"
    needs "$DEBIANS"
}
image_python=('ENV PATH=/opt/venv/bin:/usr/bin')

# Another program of ggml's, in Debian's own places.
tree_whisper() {
    begin whisper
    put "$DEBIANS" - "$DEBIANS"/lib{ggml,ggml-base,llama}.so.0 "$DEBIANS/libwhisper.so.1"
    put "$DEBIANS/ggml/backends0" - "${MODULES[@]}"
    put /usr/bin - /usr/bin/whisper-cli
    needs "$DEBIANS"
}
image_whisper=('CMD ["/bin/sh"]')
