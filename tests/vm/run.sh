#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh --prepare: makes what the first boot would wait for.
# run.sh SCRIPT [ARG]...: boots the test VM, runs SCRIPT in it as root, passes
# on its output and its exit code. 124: the time was up. 125: the VM failed.
#
# The VM is stock: Debian's QEMU and kernel, virtio-gpu-gl with Venus. Its root
# is the build root, with a tmpfs on top; the repository is where it is in the
# build root, read-only.
#
#   VM_SHARE=DIR          at /mnt/share, writable (default: a fresh directory)
#   VM_TIMEOUT=SECONDS    600
#   VM_MEM=SIZE           4G      VM_CPUS=N 2
#   VM_HOSTMEM=SIZE       2G, the host-visible window
#   VM_RENDER_SERVER=FILE what virglrenderer starts (default: apir-render-server
#                         of this MODE and CC if it is built, else the stock one)
#   VM_LAUNCH=FILE        started in QEMU's place, with the server's path and QEMU's command line
#   VM_ARCH=aarch64       a VM of that architecture, emulated; aarch64.sh makes what it boots
#   VM_PAGES=16k          with VM_ARCH=aarch64: Debian's kernel whose pages have 16 KiB, or another size that the
#                         end of a kernel's name says, of one that was put into build/sysroot-aarch64 by hand
#   VM_SUITE=bookworm     a VM of that release of Debian; suite.sh makes what it boots
#   VM_ACCEL=kvm|tcg      (default: kvm where a stock kernel boots with it)
#   VM_ACCEL=nested       KVM in an emulated machine: this VM is emulated, and in it nested.sh boots the one that is
#                         asked for, with kvm. QEMU, our server and VM_HOST_SCRIPT are in this one then.
#   VM_HOST_SCRIPT=FILE   run beside the VM, on the host's side, with VM_DIR,
#                         VM_SHARE and VM_QEMU_PID in its environment; if it
#                         fails, we fail. It ends when the VM ends.
#   VM_INIT=systemd       booted by systemd to multi-user.target, and then SCRIPT runs as a service
#   VM_IMAGES=0           without the container images (tests/vm/image.sh makes them)
#   VM_DISKS="NAME=PATH ..."  directories (packed now) or images made by pack.sh,
#                         read-only at /mnt/NAME, much faster than the share
#   VM_QEMU_ARGS="..."    more arguments for QEMU
# Variables named VM_*, APIR_*, GGML_* and DEMO_* are also set for SCRIPT.
# build/vm/run-*/ holds qemu.pid, console.log and qemu.log; it is kept when
# the run fails.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(cd "$here/../.." && pwd -P)
# shellcheck source=tests/lib/patience.bash
. "$here/../lib/patience.bash"

say() { printf 'vm: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 125
}

[[ $# -gt 0 ]] || die "usage: run.sh SCRIPT [ARG]..."
[[ -f $1 || $1 == --prepare ]] || die "no such script: $1"

# From outside of the build root: step in, with the caller's files at hand.
if ! sh "$here/../env/inside.sh"; then
    [[ $1 != --prepare ]] || exec "$here/../env/enter.sh" tests/vm/run.sh --prepare
    binds=(--bind "$(realpath "$1")" /run/caller/script)
    shift
    if [[ -n ${VM_SHARE-} ]]; then
        mkdir -p "$VM_SHARE"
        binds+=(--bind "$(realpath "$VM_SHARE")" /run/caller/share)
        export VM_SHARE=/run/caller/share
    fi
    if [[ -n ${VM_HOST_SCRIPT-} ]]; then
        binds+=(--bind "$(realpath "$VM_HOST_SCRIPT")" /run/caller/host-script)
        export VM_HOST_SCRIPT=/run/caller/host-script
    fi
    exec "$here/../env/enter.sh" "${binds[@]}" tests/vm/run.sh /run/caller/script "$@"
fi

root=/run/build-root
if [[ ! -d $root/usr ]]; then
    # A machine that needs no build root: its own root, without what is mounted on it.
    if [[ ${VM_STAGE-} != mounted ]]; then
        ns=(unshare --mount --propagation private)
        [[ $(id -u) -eq 0 ]] || ns=(unshare --user --map-root-user --map-auto --mount --propagation private)
        VM_STAGE=mounted exec "${ns[@]}" "$here/run.sh" "$@"
    fi
    root=$repo/build/vm/root
    mkdir -p "$root"
    mount --bind / "$root"
fi
arch=${VM_ARCH:-$(uname -m)}
images=$repo/build/images
if [[ $arch != "$(uname -m)" ]]; then
    root=$repo/build/sysroot-$arch images=$images-$arch
    VM_ACCEL=tcg
fi
[[ -z ${VM_SUITE-} ]] || root=$repo/build/sysroot-$VM_SUITE
system=${VM_SUITE:-$arch} # what its root and its initramfs are named after

script=$1
shift
timeout=${VM_TIMEOUT:-600}
mem=${VM_MEM:-4G}
cpus=${VM_CPUS:-2}
state=$repo/build/vm
mkdir -p "$state"

pages=${VM_PAGES:-4k} kernel='' # is the newest of several
find_kernel() {
    local k
    for k in "$1"/boot/vmlinuz-*; do
        case $k in
        *-[0-9]*k) [[ $k == *-"$pages" ]] || continue ;;
        *) [[ $pages == 4k ]] || continue ;;
        esac
        kernel=$k
    done
    [[ -r $kernel ]] || die "no kernel of $pages pages in $1/boot"
    version=${kernel##*/vmlinuz-}
}
find_kernel "$root"

# The root, packed, again whenever a package in it changes; of what dpkg does not know, the stamps of
# tests/env/sysroot.sh tell. A machine without a build root shares its own root over 9p instead.
root_image=
if [[ -e $root/etc/apir-build-root ]]; then
    key=$({ cat "$root/var/lib/dpkg/status" "$here/pack.sh"; cat "$root"/etc/apir-build-root.d/* 2>/dev/null || :; } |
        sha256sum | cut -c1-16)
    root_image=$state/root-$system-$key.erofs
    if [[ ! -e $root_image ]]; then
        (
            flock 9
            [[ ! -e $root_image ]] || exit 0
            say "packing the VM's root (once per change of packages, about 15 s)"
            rm -f "$state/root-$system"-*.erofs
            # What compiles is of no use in there.
            bash "$here/pack.sh" "$root" "$root_image" \
                '^(boot|usr/(include|src|lib/(gcc|llvm-[0-9]+)|libexec/gcc|share/(doc|locale|man|icons))|var/(cache|lib/apt))(/|$)|\.a$'
        ) 9>"$state/.lock"
    fi
fi

# A nested VM's outer one has Debian 13's kernel (6.12): with forky's (7.2) KVM ended two of four guests
# ("KVM internal error. Suberror: 3") where QEMU 11.1 emulates the CPU; with 6.12 none.
inner=$kernel modules=$root
if [[ ${VM_ACCEL-} == nested ]]; then
    [[ -n $root_image && $root == /run/build-root ]] || die "VM_ACCEL=nested wants the build root"
    "$here/suite.sh" trixie
    modules=$repo/build/sysroot-trixie system=trixie
    find_kernel "$modules"
fi

# The initramfs, again whenever one of its sources changes.
key=$(cat "$here/init" "$here/initramfs.sh" | sha256sum | cut -c1-16)
initramfs=$state/initramfs-$system-$version-$key
if [[ ! -e $initramfs ]]; then
    (
        flock 9
        [[ ! -e $initramfs ]] || exit 0
        rm -f "$state/initramfs-$system"-*
        bash "$here/initramfs.sh" "$modules" "$version" "$initramfs"
    ) 9>"$state/.lock"
fi

# Directories of failed runs are of use until the next few.
while IFS= read -r old; do
    pid=$(cat "$old/qemu.pid" 2>/dev/null || true)
    [[ -n $pid && -d /proc/$pid ]] || rm -rf "$old"
done < <(find "$state" -maxdepth 1 -name 'run-*' -mmin +5 -printf '%T@ %p\n' | sort -rn | tail -n +6 | cut -d' ' -f2-)
dir=$(mktemp -d "$state/run-XXXXXX")
share=${VM_SHARE:-$dir/share}
mkdir -p "$share"
share=$(realpath "$share")

if [[ -n ${VM_RENDER_SERVER-} ]]; then
    server=$(realpath "$VM_RENDER_SERVER")
    [[ -x $server ]] || die "VM_RENDER_SERVER=$VM_RENDER_SERVER cannot be run"
else
    server=$repo/build/${MODE:-release}-$(basename "${CC:-gcc}")/backend/apir-render-server
    [[ -x $server ]] || server=/usr/libexec/virgl_render_server
fi

# KVM exists as a device node on machines where a stock kernel does not boot
# with it (a host that is itself a guest, for one): only booting tells.
accel=${VM_ACCEL-}
if [[ -z $accel ]]; then
    probe=$state/accel-$(printf '%s\n' "$(uname -r)" "$version" "$(grep -m1 'model name' /proc/cpuinfo || true)" "$(stat -c %t:%T /dev/kvm 2>/dev/null || true)" | sha256sum | cut -c1-16)
    if [[ ! -e $probe ]]; then
        accel=tcg
        if [[ -r /dev/kvm && -w /dev/kvm ]]; then
            say "trying whether a stock kernel boots with KVM here (once)"
            printf '#!/bin/sh\nexit 42\n' >"$dir/probe" # what the guest answers
            chmod +x "$dir/probe"
            rc=0
            env -u VM_HOST_SCRIPT -u VM_SHARE VM_ACCEL=kvm VM_TIMEOUT=60 "$here/run.sh" "$dir/probe" >/dev/null 2>&1 || rc=$?
            [[ $rc -ne 42 ]] || accel=kvm
        fi
        echo "$accel" >"$probe"
    fi
    accel=$(<"$probe")
fi
if [[ $script == --prepare ]]; then
    rm -rf "$dir"
    exit 0
fi
case $accel in
kvm) accel_args=(-accel kvm) ;;
tcg | nested) accel_args=(-accel "tcg,thread=multi") ;;
*) die "VM_ACCEL=$accel is none of kvm, tcg, nested" ;;
esac

qemu_pid='' host_pid=''
# shellcheck disable=SC2317,SC2329 # called by trap
cleanup() {
    local rc=$?
    [[ -z $host_pid ]] || kill "$host_pid" 2>/dev/null || true
    [[ -z $qemu_pid ]] || kill -KILL "$qemu_pid" 2>/dev/null || true
    if [[ $rc -eq 0 ]]; then
        rm -rf "$dir"
    else
        rm -rf "$dir/job" "$dir/initrd" "$dir"/*.erofs
    fi
    return "$rc"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Read-only disks, in the order of /dev/pmem0, 1... (/dev/vda, b... where QEMU has no virtio-pmem, or in a nested
# VM); the first is the root.
disks=() disk_names=()
add_disk() {
    local n=${#disk_names[@]} size
    size=$(stat -c %s "$2")
    if [[ $arch == aarch64 || -b $2 ]]; then
        disks+=(-drive "file=$2,if=none,id=disk$n,format=raw,readonly=on"
            -device "virtio-blk-pci,drive=disk$n")
    else
        disks+=(-object "memory-backend-file,id=disk$n,share=on,mem-path=$2,size=$size"
            -device "virtio-pmem-pci,memdev=disk$n")
    fi
    disk_names+=("$1")
}
if [[ -n $root_image ]]; then
    add_disk / "$root_image"
fi
# Read by init: mounted at /mnt/store, podman looks there for images.
if [[ ${VM_IMAGES:-1} != 0 && -e $images/store.erofs ]]; then
    add_disk store "$images/store.erofs"
fi
for disk in ${VM_DISKS-}; do
    image=$(realpath "${disk#*=}")
    if [[ -d $image ]]; then
        bash "$here/pack.sh" "$image" "$dir/${disk%%=*}.erofs"
        image=$dir/${disk%%=*}.erofs
    fi
    add_disk "${disk%%=*}" "$image"
done
if [[ -z $root_image ]]; then
    # shellcheck disable=SC2054 # the commas are QEMU's
    disks+=(-fsdev "local,id=root,path=$root,security_model=none,readonly=on,multidevs=remap"
        -device virtio-9p-pci,fsdev=root,mount_tag=root)
fi

# The job travels in a second archive behind the initramfs.
mkdir -p "$dir/job/job"
cp "$script" "$dir/job/job/script"
chmod 755 "$dir/job/job/script"
if [[ $accel == nested ]]; then
    # What the caller says is of the inner VM. All takes longer there.
    timeout=$((timeout * 4)) mem=7G cpus=2
    export VM_ACCEL=kvm VM_MEM="${VM_MEM:-2500M}" VM_CPUS="${VM_CPUS:-1}" VM_HOSTMEM="${VM_HOSTMEM:-1G}"
    export VM_TIMEOUT=$timeout APIR_PATIENCE=$((APIR_PATIENCE * 4))
    mv "$dir/job/job/script" "$dir/job/job/inner"
    cp "$here/nested.sh" "$dir/job/job/script"
    cp "$inner" "$dir/job/job/"
    [[ -z ${VM_HOST_SCRIPT-} ]] || cp "$VM_HOST_SCRIPT" "$dir/job/job/inner-host"
fi
{
    printf 'export PATH=%q HOME=/root LANG=C.UTF-8 TERM=dumb\n' "$PATH"
    while IFS= read -r name; do
        case $name in
        VM_STAGE | VM_SHARE | VM_HOST_SCRIPT) ;;
        VM_RENDER_SERVER) [[ $accel != nested ]] || printf 'export %s=%q\n' "$name" "$server" ;;
        APIR_* | VM_* | GGML_* | DEMO_* | MODE | CC | CI) printf 'export %s=%q\n' "$name" "${!name}" ;;
        esac
    done < <(compgen -e)
    printf 'exec /run/vm/job/script'
    [[ $# -eq 0 ]] || printf ' %q' "$@"
    printf '\n'
} >"$dir/job/job/run"
gpu=(-display "sdl,gl=on" -device "virtio-gpu-gl-pci,blob=on,venus=on,hostmem=${VM_HOSTMEM:-2G}")
if [[ $accel == nested ]]; then
    unset VM_INIT VM_HOST_SCRIPT VM_LAUNCH VM_QEMU_ARGS VM_APPEND
    gpu=(-display none)
fi
printf 'VM_REPO=%q\nVM_DISK_NAMES="%s"\nVM_INIT=%q\n' "$repo" "${disk_names[*]}" "${VM_INIT-}" >"$dir/job/job/vars"
(cd "$dir/job" && find . | cpio --quiet -o -H newc -R 0:0) | cat "$initramfs" - >"$dir/initrd"

: >"$dir/rc"
: >"$dir/qemu.log" # the host's script may look for it before the shell below has opened it
case $arch in
aarch64)
    # A processor that the CPU backend of ggml has code for, and none of the extensions that QEMU emulates slowly.
    machine=(-machine "virt,memory-backend=mem" -cpu cortex-a76)
    append='console=ttyAMA0'
    ;;
*)
    machine=(-machine "q35,memory-backend=mem,vmport=off,smm=off,hpet=off" -cpu max)
    append='console=ttyS0 tsc=reliable no_timer_check'
    ;;
esac
# shellcheck disable=SC2206 # words on purpose
extra=(${VM_QEMU_ARGS-})
# As a user would start it; a build without the command does by hand what that one does.
apir=$repo/build/${MODE:-release}-$(basename "${CC:-gcc}")/cdi/apir
launch=(env "RENDER_SERVER_EXEC_PATH=$server")
[[ ! -x $apir ]] || launch=("$apir" host run --server "$server" --)
[[ -z ${VM_LAUNCH-} ]] || launch=("$VM_LAUNCH" "$server")
# The display without a screen: SDL's offscreen driver gives an EGL context
# where egl-headless would ask for a DRM node of the host.
# pdeathsig: QEMU goes when we go, even if we are killed outright.
SDL_VIDEODRIVER=offscreen setpriv --pdeathsig KILL \
    "${launch[@]}" "qemu-system-$arch" \
    -nodefaults -no-user-config -no-reboot "${accel_args[@]}" \
    "${machine[@]}" -smp "$cpus" -m "$mem,maxmem=32G" \
    -object "memory-backend-memfd,id=mem,size=$mem,share=on" \
    -kernel "$kernel" -initrd "$dir/initrd" \
    -append "$append quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=on nokaslr audit=0 ${VM_APPEND-}" \
    -serial "file:$dir/console.log" -monitor none \
    "${gpu[@]}" \
    -device virtio-rng-pci \
    -device virtio-serial-pci \
    -add-fd fd=7,set=1 -chardev file,id=out,path=/dev/fdset/1,append=on \
    -device virtserialport,chardev=out,name=apir.out \
    -chardev "file,id=rc,path=$dir/rc" -device virtserialport,chardev=rc,name=apir.rc \
    -fsdev "local,id=repo,path=$repo,security_model=none,readonly=on,multidevs=remap" \
    -device virtio-9p-pci,fsdev=repo,mount_tag=repo \
    -fsdev "local,id=share,path=$share,security_model=none,multidevs=remap" \
    -device virtio-9p-pci,fsdev=share,mount_tag=share \
    "${disks[@]}" "${extra[@]}" \
    </dev/null 7>&1 >"$dir/qemu.log" 2>&1 &
qemu_pid=$!
echo "$qemu_pid" >"$dir/qemu.pid"

host_rc=
if [[ -n ${VM_HOST_SCRIPT-} ]]; then
    VM_DIR=$dir VM_SHARE=$share VM_QEMU_PID=$qemu_pid "$VM_HOST_SCRIPT" </dev/null >&2 &
    host_pid=$!
fi

end=$((SECONDS + timeout))
timed_out=
while grep -q '^State:.[^Z]' "/proc/$qemu_pid/status" 2>/dev/null; do
    if [[ $SECONDS -ge $end ]]; then
        timed_out=1
        kill -KILL "$qemu_pid"
        break
    fi
    # Wakes at once when a child ends, and each second to look at the clock.
    sleep 1 &
    sleep_pid=$!
    wait -n "$qemu_pid" "$sleep_pid" 2>/dev/null || true
done
wait "$qemu_pid" 2>/dev/null || true
qemu_pid=

if [[ -n $host_pid ]]; then
    # It may still be reading what the VM left.
    host_script_ended() { ! grep -q '^State:.[^Z]' "/proc/$host_pid/status" 2>/dev/null; }
    wait_until 10 host_script_ended || true
    kill "$host_pid" 2>/dev/null || true
    host_rc=0
    wait "$host_pid" 2>/dev/null || host_rc=$?
    host_pid=
fi

rc=$(tr -dc 0-9 <"$dir/rc")
if [[ -n $timed_out ]]; then
    say "time is up ($timeout s); the VM was killed. Its console: ${dir#"$repo"/}/console.log"
    tail -n 5 "$dir/console.log" >&2 || true
    exit 124
elif [[ -z $rc ]]; then
    say "the VM ended without running the script to its end. Its console and QEMU's words:"
    tail -n 15 "$dir/console.log" >&2 || true
    tail -n 10 "$dir/qemu.log" >&2 || true
    exit 125
fi
if [[ ${host_rc:-0} -ne 0 && $rc -eq 0 ]]; then
    say "the script on the host's side failed ($host_rc)"
    exit 1
fi
exit "$rc"
