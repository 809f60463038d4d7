#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the archive of the image says of itself, and that it is the same every time.

bats_require_minimum_version 1.5.0

setup_file() {
    ARCH=$(dpkg --print-architecture)
    ARCHIVE=$PWD/build/image/remoting-$ARCH.tar
    mkdir "$BATS_FILE_TMPDIR/oci"
    tar -xf "$ARCHIVE" -C "$BATS_FILE_TMPDIR/oci"
    local blobs=$BATS_FILE_TMPDIR/oci/blobs
    MANIFEST=$blobs/$(jq -r '.manifests[0].digest' "$BATS_FILE_TMPDIR/oci/index.json" | tr : /)
    CONFIG=$blobs/$(jq -r '.config.digest' "$MANIFEST" | tr : /)
    LAYER=$blobs/$(jq -r '.layers[0].digest' "$MANIFEST" | tr : /)
    tar -tzf "$LAYER" >"$BATS_FILE_TMPDIR/files"
    export ARCH ARCHIVE MANIFEST CONFIG LAYER
}

in_image() { grep -qx "\./$1" "$BATS_FILE_TMPDIR/files"; }

@test "one layer, one manifest, under the name that ramalama asks for" {
    jq -e '.manifests | length == 1 and .[0].annotations["org.opencontainers.image.ref.name"] ==
        "localhost/remoting:latest"' "$BATS_FILE_TMPDIR/oci/index.json"
    jq -e '.layers | length == 1' "$MANIFEST"
    [ "$(jq -r '.manifests[0].digest' "$BATS_FILE_TMPDIR/oci/index.json")" = "$(<"build/image/remoting-$ARCH.digest")" ]
}

@test "architecture, no ENTRYPOINT, the variables, labels and the same annotations" {
    jq . "$CONFIG"
    jq -e --arg arch "$ARCH" '.os == "linux" and .architecture == $arch' "$CONFIG"
    jq -e '.config | (has("Entrypoint") | not) and (has("User") | not) and .Cmd == ["/bin/bash"]' "$CONFIG"
    jq -e '.config.Env | length == 2 and any(startswith("PATH=/usr/local/sbin:")) and
        any(. == "RENDER_SERVER_EXEC_PATH=/usr/libexec/apir/apir-render-server")' "$CONFIG"
    jq -e '.config.Labels | .["org.opencontainers.image.title"] == "remoting" and
        (keys == (["created", "description", "title", "version"] | map("org.opencontainers.image." + .)))' "$CONFIG"
    [ "$(jq -S .config.Labels "$CONFIG")" = "$(jq -S .annotations "$MANIFEST")" ]
    [ "$(jq -r '.config.Labels["org.opencontainers.image.created"]' "$CONFIG")" = "$(jq -r .created "$CONFIG")" ]
}

@test "nothing of the machine that built it, no lists or packages, no logs" {
    run ! grep -E '^\./(dev|var/log|var/cache/apt|tmp)/.' "$BATS_FILE_TMPDIR/files"
    run ! grep -E '^\./var/lib/apt/lists/.*(Packages|InRelease)' "$BATS_FILE_TMPDIR/files"
    run ! grep -E '^\./etc/(hostname|resolv\.conf|passwd-|shadow-|apt/apt\.conf\.d/99mmdebstrap)$' "$BATS_FILE_TMPDIR/files"
    run ! grep -E '\.deb$' "$BATS_FILE_TMPDIR/files"
}

@test "it is configured: the linker's cache, users, certificates" {
    for file in etc/ld.so.cache etc/passwd etc/ssl/certs/ca-certificates.crt var/lib/dpkg/status; do in_image "$file"; done
    tar -xzOf "$LAYER" ./var/lib/dpkg/status >"$BATS_TEST_TMPDIR/status"
    run ! grep -E '^Status: .*(unpacked|half|triggers)' "$BATS_TEST_TMPDIR/status"
}

@test "the same to the last byte when it is made again, without a network" {
    cp "$ARCHIVE" "$BATS_FILE_TMPDIR/first.tar"
    version=$(jq -r '.config.Labels["org.opencontainers.image.version"]' "$CONFIG")
    rm "build/image/remoting-$ARCH.key" # or nothing would be made
    unshare --net image/build.sh "$ARCH" "build/image/files-$ARCH" "$version"
    [ "$ARCHIVE" -nt "$BATS_FILE_TMPDIR/files" ]
    cmp "$ARCHIVE" "$BATS_FILE_TMPDIR/first.tar"
}

@test "a build from the Containerfile is not given build/ or .git" {
    local context=$BATS_TEST_TMPDIR/context
    mkdir -p "$context"/{image,build,.git} "$BATS_TEST_TMPDIR/store"
    touch "$context"/{build,.git,image}/file "$context/Makefile"
    cp image/Containerfile.containerignore "$context/image/"
    # In the place of ours, whose base cannot be had here: what it is given of the context.
    printf 'FROM scratch\nCOPY . /src\n' >"$context/image/Containerfile"
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private bash -ec '
        mount -t tmpfs tmpfs "$1/store"
        podman() {
            command podman --root "$1/store" --runroot "$1/run" --storage-driver overlay --cgroup-manager cgroupfs "${@:2}"
        }
        cd "$1/context"
        podman "$1" build --quiet --isolation=chroot --network=host --file image/Containerfile --tag seen .
        podman "$1" image save --quiet --output "$1/seen.tar" localhost/seen
        umount "$1/store/overlay" || true' bash "$BATS_TEST_TMPDIR"
    tar -xf "$BATS_TEST_TMPDIR/seen.tar" -C "$BATS_TEST_TMPDIR" --wildcards '*.tar'
    tar -tf "$BATS_TEST_TMPDIR"/*[0-9a-f].tar >"$BATS_TEST_TMPDIR/list"
    cat "$BATS_TEST_TMPDIR/list"
    grep -x src/Makefile "$BATS_TEST_TMPDIR/list"
    grep -x src/image/file "$BATS_TEST_TMPDIR/list"
    run ! grep -E '^src/(build|\.git)/' "$BATS_TEST_TMPDIR/list"
}
