#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# podman build (Debian forky's 5.8.6, with buildah in it) and the mounts of a CDI device. A CDI mount need not have a type,
# and `podman run` binds it. With --isolation=chroot a mount without a type is passed over
# without a word: a step finds an empty file in its place. With "type": "bind" (cdiVersion 0.4.0 on) the step has it there,
# too. The variables of the device are there in both.
#
# Wants Debian on amd64, root, mmdebstrap and network. What was seen: the last lines, with "ok". Fails if that changes.
set -euo pipefail
version=5.8.6
work=$(mktemp -d)
here() { # COMMAND...: in the system that has podman, as its only root, with mounts that end with it
    unshare --mount --propagation private --pid --fork --kill-child bash -c '
        mount --bind "$0" "$0" && cd "$0" && mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev &&
            mount -t tmpfs tmpfs run && mount -t tmpfs tmpfs var/lib/containers && mkdir -p old && pivot_root . old &&
            exec chroot . bash -c "umount -l /old; exec \"\$@\"" bash "$@"' "$work/root" "$@"
}
trap 'rm -rf --one-file-system "$work"' EXIT

# As this machine's own apt is told about the age of indexes.
mapfile -t age < <(apt-config dump | sed -nE "s/^(Acquire::Check-(Valid-Until|Date) .*)/--aptopt=\1/p")
mmdebstrap --quiet --variant=minbase "${age[@]}" --aptopt='APT::Install-Recommends "false"' --include=podman,runc,conmon,busybox-static forky "$work/root"
mkdir -p "$work/root/etc/cdi" "$work/root/srv/build" "$work/root/var/lib/containers"
cp "$work/root/bin/busybox" "$work/root/srv/build/"
echo content >"$work/root/srv/file"
cat >"$work/root/etc/cdi/example.json" <<'JSON'
{"cdiVersion": "0.4.0", "kind": "example.com/thing", "devices": [
 {"name": "untyped", "containerEdits": {"env": ["SEEN=yes"],
   "mounts": [{"hostPath": "/srv/file", "containerPath": "/given", "options": ["ro", "bind"]}]}},
 {"name": "typed", "containerEdits": {"env": ["SEEN=yes"],
   "mounts": [{"hostPath": "/srv/file", "containerPath": "/given", "type": "bind", "options": ["ro", "bind"]}]}}]}
JSON
cat >"$work/root/srv/build/Containerfile" <<'BUILD'
FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "echo SEEN=$SEEN; echo GIVEN=$(/bin/busybox cat /given)"]
BUILD
cat >"$work/root/srv/look" <<'LOOK'
set -euo pipefail
die() {
    echo "FAIL  $*"
    exit 1
}
[[ $(podman --version) == "podman version $1" ]] || die "this is $(podman --version), not $1"
export PODMAN_IGNORE_CGROUPSV1_WARNING=1
step() { # ISOLATION DEVICE
    podman --cgroup-manager=cgroupfs --events-backend=none --runtime=runc build --no-cache --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --isolation="$1" \
        --device "example.com/thing=$2" /srv/build 2>&1
}
has() { grep -qx "$2" <<<"$1" || die "no line \"$2\" in: $1"; }
for device in untyped typed; do
    out=$(step chroot "$device") || die "the build ended with $?: $out"
    has "$out" SEEN=yes
    if [[ $device == typed ]]; then
        has "$out" GIVEN=content
        echo 'ok    chroot isolation: with "type": "bind" the file is there'
    else
        has "$out" GIVEN=
        echo 'ok    chroot isolation: without a type the variables are there, and an empty file, and no word'
    fi
done
LOOK
here bash /srv/look "$version"
