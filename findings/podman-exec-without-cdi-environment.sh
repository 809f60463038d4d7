#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# podman (Debian forky's 5.8.6) and the environment of a CDI device: the container's first process has it, and
# `podman inspect` shows it in Config.Env. What is started in that container later has not: neither `podman exec` nor a
# health check. If the image or -e set the same variable, the first process has CDI's value, and an exec the other one.
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
mmdebstrap --quiet --variant=minbase "${age[@]}" --aptopt='APT::Install-Recommends "false"' --include=podman,runc,conmon,busybox-static,jq forky "$work/root"
mkdir -p "$work/root/etc/cdi" "$work/root/srv/box/bin" "$work/root/var/lib/containers"
cp "$work/root/bin/busybox" "$work/root/srv/box/bin/"
cat >"$work/root/etc/cdi/example.json" <<'JSON'
{"cdiVersion": "0.6.0", "kind": "example.com/thing",
 "devices": [{"name": "one", "containerEdits": {"env": ["FROM_CDI=device", "BOTH=device"]}}]}
JSON
cat >"$work/root/srv/look" <<'LOOK'
set -euo pipefail
die() {
    echo "FAIL  $*"
    exit 1
}
export PODMAN_IGNORE_CGROUPSV1_WARNING=1
p() { podman --cgroup-manager=cgroupfs --events-backend=none --runtime=runc "$@"; }
[[ $(podman --version) == "podman version $1" ]] || die "this is $(podman --version), not $1"
p run -d --name box --network=none --device example.com/thing=one -e BOTH=user \
    --health-cmd '["/bin/busybox", "sh", "-c", "/bin/busybox env >/health"]' --health-interval=disable --rootfs /srv/box /bin/busybox sleep 600 >/dev/null
first=$(tr '\0' '\n' <"/proc/$(p inspect box | jq '.[0].State.Pid')/environ")
shown=$(p inspect box | jq -r '.[0].Config.Env[]')
later=$(p exec box /bin/busybox env)
p healthcheck run box >/dev/null || die 'the health check'
health=$(cat /srv/box/health)
p rm -f -t 0 box >/dev/null
has() { grep -qxF "$2" <<<"$1"; }
has "$first" FROM_CDI=device && has "$first" BOTH=device || die "the first process has: $first"
echo 'ok    the first process has the variables of the device, also where -e sets one'
has "$shown" FROM_CDI=device || die "podman inspect shows: $shown"
echo 'ok    podman inspect shows them in Config.Env'
! grep -q FROM_CDI <<<"$later" && has "$later" BOTH=user || die "podman exec has: $later"
echo 'ok    podman exec has none of them, and of the one that -e set that value'
! grep -q FROM_CDI <<<"$health" && has "$health" BOTH=user || die "the health check has: $health"
echo 'ok    the same in a health check'
LOOK
here bash /srv/look "$version"
