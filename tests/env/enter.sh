#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# enter.sh [--bind OUTSIDE INSIDE]... CMD [ARG]...
#
# Runs CMD in the build root (build/sysroot), in the repository's top folder,
# which is /src there. Everything is mounted in a mount namespace of our own:
# nothing shows outside, nothing is left behind, and removing the build root
# never reaches through a mount. CMD's exit code is ours. Inside the build root
# (or on a machine that needs none) CMD is simply run.
set -euo pipefail

die() {
    echo "enter.sh: $*" >&2
    exit 125
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(cd "$here/../.." && pwd -P)
root=$repo/build/sysroot

binds=()
while [[ ${1-} == --bind ]]; do
    [[ $# -ge 3 ]] || die "--bind wants two paths"
    binds+=("$2" "$3")
    shift 3
done
[[ $# -gt 0 ]] || die "usage: enter.sh [--bind OUTSIDE INSIDE]... CMD [ARG]..."

if sh "$here/inside.sh"; then
    cd "$repo"
    exec "$@"
fi

[[ -e $root/etc/apir-build-root ]] || die "no build root yet; make it with: make sysroot"

# Second stage, already in the new namespace: do the mounts, step in.
if [[ ${APIR_ENTER_STAGE-} == mounts ]]; then
    # The repository first, while nothing of ours is mounted below it: a
    # recursive bind taken later would loop through build/sysroot.
    mkdir -p "$root/src"
    mount --rbind "$repo" "$root/src"
    for m in proc sys dev; do
        mount --rbind "/$m" "$root/$m"
        mount --make-rslave "$root/$m"
    done
    # Shared memory of our own: names in there (podman's locks, for one) belong
    # to whoever made them first on the machine.
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
    mount --rbind /tmp "$root/tmp"
    mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs "$root/run"
    mkdir -p "$root/run/lock" "$root/run/build-root"
    # The bare tree, without what is mounted over it: the VM's root.
    mount --bind "$root" "$root/run/build-root"
    for ((i = 0; i < ${#binds[@]}; i += 2)); do
        from=${binds[i]} to=$root${binds[i + 1]}
        if [[ -d $from ]]; then
            mkdir -p "$to"
        else
            mkdir -p "${to%/*}"
            : >>"$to"
        fi
        mount --rbind "$from" "$to"
    done
    # apt-get in `make shell` wants names resolved.
    if [[ -r /etc/resolv.conf ]]; then
        [[ -e $root/etc/resolv.conf ]] || : >"$root/etc/resolv.conf"
        [[ -L $root/etc/resolv.conf ]] || mount --bind "$(readlink -f /etc/resolv.conf)" "$root/etc/resolv.conf"
    fi

    # On top of itself, so that / is a mount point in there as it is everywhere
    # else; some tools insist.
    mount --rbind "$root" "$root"

    # A clean environment: what tunes a build or a test passes, the rest of the
    # caller's world (locale, library paths, credentials) does not.
    keep=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        HOME=/root LANG=C.UTF-8 "TERM=${TERM:-dumb}")
    while IFS= read -r name; do
        case $name in
        APIR_ENTER_STAGE) ;;
        APIR_* | VM_* | DEMO_* | BATS_* | CI | MAKE* | MFLAGS | GNUMAKEFLAGS | MODE | CC | \
            CFLAGS | LDFLAGS | JOBS | RUN | DESTDIR | prefix | V | SOURCE_DATE_EPOCH | \
            http_proxy | https_proxy | no_proxy | HTTP_PROXY | HTTPS_PROXY | NO_PROXY)
            keep+=("$name=${!name}")
            ;;
        esac
    done < <(compgen -e)
    # The namespace's own root, not only ours: no user namespace can be made below a chroot,
    # and workers make one.
    cd "$root"
    mount --move . /
    # The directory can only be entered by its name in there.
    # shellcheck disable=SC2016 # expanded by the inner shell
    exec chroot . /usr/bin/env -i "${keep[@]}" /bin/sh -c 'cd /src && exec "$@"' sh "$@"
fi

args=()
for ((i = 0; i < ${#binds[@]}; i += 2)); do
    args+=(--bind "${binds[i]}" "${binds[i + 1]}")
done
# Relative names of the caller's end with the directory change otherwise.
ns=(unshare --mount --propagation private)
if [[ $(id -u) -ne 0 ]]; then
    ns=(unshare --user --map-root-user --map-auto --mount --propagation private)
    "${ns[@]}" true 2>/dev/null ||
        die "needs root, or user namespaces with a range in /etc/subuid and /etc/subgid"
fi
APIR_ENTER_STAGE=mounts exec "${ns[@]}" "$here/enter.sh" "${args[@]}" "$@"
