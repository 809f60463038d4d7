#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# libvirt.sh SERVER qemu-system-x86_64 ARG...: what tests/vm/run.sh would start, as a domain of libvirt
# (run.sh's VM_LAUNCH). The domain is docs/hypervisors/libvirt.xml, in which four things are replaced:
# kvm (where this machine has none), the server's path, and the two places that it leaves to its reader:
# what is booted, and devices, which are the test VM's own. What the domain says itself is taken out of
# ARG. libvirtd is Debian's, with state of its own that ends with us.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
xml=$here/../../../docs/hypervisors/libvirt.xml

# Everything that libvirtd starts ends with us, even if we are killed.
if [[ ${LIBVIRT_STAGE-} != inside ]]; then
    LIBVIRT_STAGE=inside exec unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
work=$(mktemp -d /run/libvirt-test.XXXXXX)
server=$1
shift 2

# ---- the domain ----------------------------------------------------------------------------

accel=kvm kernel='' initrd='' cmdline='' args=() slot=8
while [[ $# -gt 0 ]]; do
    case $1 in
    -nodefaults | -no-user-config | -no-reboot) shift ;;
    -accel)
        accel=${2%%,*}
        shift 2
        ;;
    -kernel) kernel=$2 && shift 2 ;;
    -initrd) initrd=$2 && shift 2 ;;
    -append) cmdline=$2 && shift 2 ;;
    -machine | -cpu | -smp | -display | -monitor) shift 2 ;;
    # Room for the disks beside the domain's memory.
    -m) args+=(-m "${2#*,}") && shift 2 ;;
    -object)
        [[ $2 == *id=mem,* ]] || args+=("$1" "$2")
        shift 2
        ;;
    -device)
        case $2 in
        virtio-gpu-gl-pci,*) ;;
        # In slots that libvirt, which does not know of them, leaves alone.
        virtio-*-pci | virtio-*-pci,*) args+=("$1" "$2,bus=pcie.0,addr=$((slot++))") ;;
        *) args+=("$1" "$2") ;;
        esac
        shift 2
        ;;
    # libvirt hands no descriptor on.
    -add-fd) shift 2 ;;
    *) args+=("${1//\/dev\/fdset\/1/$work/out}") && shift ;;
    esac
done

escape() {
    local text=${1//&/&amp;}
    text=${text//</&lt;}
    printf '%s' "${text//\'/&apos;}"
}
boot="<kernel>$(escape "$kernel")</kernel><initrd>$(escape "$initrd")</initrd><cmdline>$(escape "$cmdline")</cmdline>"
devices=
for arg in "${args[@]}"; do devices+="<qemu:arg value='$(escape "$arg")'/>"; done
domain=$(<"$xml")
# Each must be there, or the domain that runs is not the document's.
replace() { # FROM TO
    [[ $domain == *"$1"* ]] || { echo "libvirt.sh: $xml has no $1" >&2; exit 1; }
    domain=${domain/"$1"/"$2"}
}
replace '<!-- boot: yours -->' "$boot"
replace '<qemu:commandline>' "<qemu:commandline>$devices"
replace /usr/libexec/apir/apir-render-server "$(escape "$server")"
if [[ $accel != kvm ]]; then
    replace "type='kvm'" "type='qemu'"
    replace host-passthrough maximum
fi
printf '%s\n' "$domain" >"$work/domain.xml"

# ---- libvirtd --------------------------------------------------------------------------------

# Its folders are the build root's: what it writes there ends with this namespace.
for folder in /run/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt /etc/libvirt; do
    mkdir -p "$folder"
    mount -t tmpfs tmpfs "$folder"
done
mkdir -p /var/lib/libvirt/qemu
# No systemd, and no other daemon than this one; QEMU as who owns the test's files. The seccomp filter
# of libvirt would not let virglrenderer start a render server, whichever (docs/hypervisors.md).
cat >/etc/libvirt/qemu.conf <<-'CONF'
	user = "root"
	group = "root"
	security_driver = "none"
	cgroup_controllers = []
	stdio_handler = "file"
	seccomp_sandbox = 0
CONF
printf 'auth_unix_rw = "none"\nauth_unix_ro = "none"\n' >"$work/libvirtd.conf"
libvirtd --config "$work/libvirtd.conf" --pid-file "$work/libvirtd.pid" >"$work/libvirtd.log" 2>&1 &
daemon=$!
virsh() { command virsh --quiet --connect qemu:///system "$@"; }
exec {nap}<> <(:) # nothing ever comes from it
until [[ -S /run/libvirt/libvirt-sock ]] && virsh uri >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { cat "$work/libvirtd.log" >&2; exit 1; }
    read -r -t 0.1 -u "$nap" _ || :
done

: >"$work/out"
virsh create --validate "$work/domain.xml" >&2 || { cat "$work/libvirtd.log" >&2; exit 1; }
pid=$(</run/libvirt/qemu/apir.pid)
echo "libvirt: domain $(command virsh --version), QEMU's pid $pid"
tr '\0' '\n' <"/proc/$pid/cmdline" | grep -m1 -o '"driver":"virtio-[^}]*' | sed 's/^/libvirt: /' || :
tail --pid="$pid" -f /dev/null
cat /var/log/libvirt/qemu/apir.log
cat "$work/out" >&7
kill "$daemon" 2>/dev/null || :
wait "$daemon" 2>/dev/null || :
exit 0
