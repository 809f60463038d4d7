#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# prepare.sh FOLDER: what the VM of this suite is given besides: disks/images.erofs, a store of podman's with
# the images; disks/more, models; and share/native/, what the programs of each tree say on this machine's CPU
# in that tree. Both sides take their command lines from lines.sh.
set -euo pipefail
# Mounts of our own, so that nothing is left behind.
if [[ ${IMAGES_STAGE-} != mounted ]]; then
    IMAGES_STAGE=mounted exec unshare --mount --propagation private "$0" "$@"
fi
work=$1
trees=$work/trees
more=$work/disks/more
native=$work/share/native
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh
# shellcheck source=tests/vm/images/trees.sh
. tests/vm/images/trees.sh
# shellcheck source=tests/vm/images/lines.sh
. tests/vm/images/lines.sh

die() {
    echo "prepare.sh: $*" >&2
    exit 1
}

# ---- models and what goes with them ----------------------------------------------------------------
make_models() {
    prepare_model "$more/draft.gguf" --preset 3M --layers 1 --type q8_0 --seed 1
    "$OUT/tests/lib/models/gguf-extra" vision --model build/models/vm/first.gguf --output "$more/vision.gguf"
    "$OUT/tests/lib/models/gguf-extra" speaker --model build/models/vm/first.gguf --output "$more/speaker.gguf"
    "$OUT/tests/lib/models/gguf-extra" voice --model "$more/speaker.gguf" --output "$more/voice.gguf"
    "$OUT/tests/lib/models/whisper-write" model "$more/whisper.bin"
    "$OUT/tests/lib/models/whisper-write" sound "$more/sound.wav"
    # Rings in colours; without the byte 0, which awk may not print.
    LC_ALL=C awk 'BEGIN { printf "P6 64 48 255\n"
        for (y = 0; y < 48; y++) for (x = 0; x < 64; x++) {
            d = int(sqrt((x - 32) ^ 2 + (y - 24) ^ 2)); printf "%c%c%c", 1 + d * 9 % 120, 1 + x * 3 % 120, 60 } }' \
        >"$more/image.ppm"
    for ((i = 0; i < 60; i++)); do
        echo "The $i words of this sample follow one another."
    done >"$more/text"
}

# ---- the store -----------------------------------------------------------------------------------
store() {
    PODMAN_IGNORE_CGROUPSV1_WARNING=1 podman --root "$work/store" --runroot "$work/run" \
        --storage-driver overlay --cgroup-manager cgroupfs "$@"
}
make_image() { # NAME
    local change changes=(--change 'ENV PATH=/usr/local/bin:/usr/bin')
    local -n says=image_$1
    "tree_$1"
    for change in "${says[@]}"; do
        changes+=(--change "$change")
    done
    tar -c -C "$trees/$1" . | store import --quiet "${changes[@]}" - "localhost/$1:latest" >/dev/null
}

# ---- what the trees' programs say here -----------------------------------------------------------
# alone IMAGE LINE: sh runs it in the tree, with what the image says of the environment.
alone() {
    local variables=() variable
    while read -r variable; do
        variables+=("$variable")
    done < <(image_says "$1" ENV)
    timeout 100 chroot "$trees/$1" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin "${variables[@]}" \
        sh -c "cd $(image_says "$1" WORKDIR | grep . || echo /); $2"
}
in_the_tree() { # IMAGE
    mount --rbind /proc "$trees/$1/proc"
    mkdir -p "$trees/$1/more"
    mount --bind build/models/vm "$trees/$1/models"
    mount --bind "$more" "$trees/$1/more"
}

# The text of a server, which listens at a socket in the tree.
serve_alone() { # NAME
    local image=${server_image[$1]} entry=${server_entry[$1]} pid socket model i answer=$work/answer
    [[ -n $entry ]] || entry=$(image_says "$image" ENTRYPOINT | jq -r '.[0]')
    socket=$trees/$image/tmp/server.sock
    alone "$image" "exec $entry ${server_args[$1]} --host /tmp/server.sock" >"$work/server.log" 2>&1 &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        curl -sf -o /dev/null --unix-socket "$socket" http://server/health && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    for model in $(models_of "$1"); do
        ask "$model" --unix-socket "$socket" http://server >"$native/$1.$model" ||
            { cat "$work/server.log" && die "$1 has not answered natively"; }
    done
    kill "$pid"
    wait "$pid" || :
    rm -f "$socket"
}

mkdir -p "$more" "$native" "$work/store"
make_models
# A tmpfs: podman wants a file system that can carry an overlay.
mount -t tmpfs -o mode=0755 tmpfs "$work/store"
for image in "${IMAGES[@]}"; do
    make_image "$image"
    in_the_tree "$image"
done
umount "$work/store/overlay" 2>/dev/null || true
bash tests/vm/pack.sh "$work/store" "$work/disks/images.erofs"
for name in "${!server_image[@]}"; do
    serve_alone "$name"
done
for name in "${!program_image[@]}"; do
    alone "${program_image[$name]}" "${program_line[$name]}" >"$native/$name" 2>"$work/program.log" </dev/null ||
        { cat "$work/program.log" && die "$name has failed natively"; }
done
for file in "$native"/*; do
    [[ -s $file ]] || die "nothing was said natively: $file"
done
