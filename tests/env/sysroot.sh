#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# sysroot.sh             makes (or completes) the build root: build/sysroot
# sysroot.sh --demo      one of what `make demo` takes alone (packages.demo), if there is none
# sysroot.sh --with GOAL...  also installs what these targets of make take besides:
#                        the lists in packages.d/, one named after each such target
# sysroot.sh --trixie    the small second tree with an older virglrenderer: build/trixie
# sysroot.sh --remove    deletes both, and the trees of tests/vm/aarch64.sh and suite.sh
#
# Debian forky by mmdebstrap, as root or in user namespaces. A tree is made
# under a temporary name and renamed when complete, so a tree that exists is a
# whole one. Package signatures are always verified, by the archive keys that
# mmdebstrap and apt find on this machine.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(cd "$here/../.." && pwd -P)
build=$repo/build
trixie_packages=(virgl-server)

say() { printf 'sysroot: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# wanted LIST...: the packages that lists name. files:PACKAGE is one whose files are read or loaded without what
# the package depends on; dpkg knows nothing of them.
wanted() { sed 's/#.*//' "$@" | awk 'NF { print $1 }' | sort -u; }

# In a tree: sh -c "$unpack" sh PACKAGE...
# shellcheck disable=SC2016 # for that shell
unpack='set -e; cd "$(mktemp -d)"; chmod 755 .; apt-get download -qq -o APT::Sandbox::User=root "$@"
    for deb in *.deb; do dpkg-deb --extract "$deb" /; done; rm -r "$PWD"'

# What makes a tree up to date. It is kept inside the tree.
stamp_of() { printf '%s\n' "$@" | sha256sum | cut -d' ' -f1; }

as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    else
        unshare --user --map-root-user --map-auto "$@"
    fi
}

remove_tree() {
    local tree=$1
    [[ -e $tree || -L $tree ]] || return 0
    [[ $tree == "$build"/?* && ! -L $tree ]] || die "will not remove $tree"
    # enter.sh mounts in a namespace of its own, so nothing can be mounted in
    # here; if something is, somebody did it by hand, and rm would empty it.
    if awk -v t="$tree" '$5 == t || index($5, t "/") == 1 { found = 1 } END { exit !found }' /proc/self/mountinfo; then
        die "something is mounted in $tree; unmount it first"
    fi
    as_root rm -rf --one-file-system "$tree"
}

# Installs what this script itself needs, where it may.
need_tools() {
    local missing=()
    command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
    command -v flock >/dev/null || missing+=(util-linux)
    [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || missing+=(debian-archive-keyring)
    if [[ $(id -u) -ne 0 ]]; then
        command -v newuidmap >/dev/null || missing+=(uidmap)
    fi
    [[ ${#missing[@]} -gt 0 ]] || return 0
    [[ $(id -u) -eq 0 ]] || die "please install first: ${missing[*]}"
    command -v apt-get >/dev/null || die "no apt-get here; please install: ${missing[*]}"
    say "installing on this machine: ${missing[*]}"
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >&2
}

check_rights() {
    [[ $(id -u) -eq 0 ]] && return 0
    command -v newuidmap >/dev/null || die "please install first: uidmap mmdebstrap"
    as_root true 2>/dev/null ||
        die "needs root, or user namespaces: a range for $(id -un) in /etc/subuid and /etc/subgid," \
            "and kernel.unprivileged_userns_clone=1 where that exists"
}

# bootstrap SUITE TREE PACKAGE...: the tree appears complete or not at all.
bootstrap() {
    local suite=$1 tree=$2 part=$2.part package list='' files=''
    shift 2
    # shellcheck source=tests/env/debian.bash
    . "$here/debian.bash"
    for package; do
        case $package in
        files:*) files+=" ${package#files:}" ;;
        *) list+=${list:+,}$package ;;
        esac
    done
    [[ -z $files ]] || debian_args+=(--customize-hook="chroot \"\$1\" sh -c '$unpack' sh$files")
    remove_tree "$part"
    # No mirror is named: mmdebstrap takes its default, with security updates.
    if [[ $(id -u) -eq 0 ]]; then
        mmdebstrap --mode=root "${debian_args[@]}" --components=main,non-free --include="$list" "$suite" "$part" >&2
    else
        # Through a tar so that the files get the ids that enter.sh maps.
        # Device nodes cannot be made here and enter.sh mounts /dev anyway.
        # shellcheck disable=SC2016 # expanded by the inner shell
        mmdebstrap --mode=unshare "${debian_args[@]}" --components=main,non-free --include="$list" \
            --format=tar "$suite" - |
            as_root sh -c 'mkdir "$1" && exec tar -C "$1" -xpf - --numeric-owner --exclude="./dev/*"' sh "$part"
    fi
    # They are those of this machine.
    as_root rm -f "$part/etc/resolv.conf" "$part/etc/hostname"
    as_root mkdir -p "$part/src"
    stamp_of "$@" | as_root tee "$part/etc/apir-build-root" >/dev/null
    mv "$part" "$tree"
}

# complete STAMP PACKAGE...: installs what a list has gained into the build root.
complete() {
    local stamp=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    "$here/enter.sh" /bin/sh -ec '
        export DEBIAN_FRONTEND=noninteractive
        unpack=$1 install= files=
        shift
        # PACKAGE:ARCHITECTURE is one of another architecture.
        for package; do
            case $package in
            files:*) files="$files ${package#files:}" && continue ;;
            *:*) dpkg --add-architecture "${package#*:}" ;;
            esac
            install="$install $package"
        done
        # Trees that were made before anything of non-free was in the list.
        sed -i "s/^\(deb .* main\)$/\1 non-free/" /etc/apt/sources.list
        apt-get update -qq
        apt-get install -qq -y --no-install-recommends $install </dev/null
        [ -z "$files" ] || sh -c "$unpack" sh $files
        apt-get clean
        rm -rf /var/lib/apt/lists/*' sh "$unpack" "$@" >&2
    as_root mkdir -p "$(dirname "$stamp")"
    stamp_of "$@" | as_root tee "$stamp" >/dev/null
}

# up_to_date STAMP PACKAGE...
up_to_date() {
    local stamp=$1
    shift
    [[ -e $stamp && $(<"$stamp") == "$(stamp_of "$@")" ]]
}

make_tree() {
    local suite=$1 tree=$2 stamp=$2/etc/apir-build-root start=$SECONDS
    shift 2
    up_to_date "$stamp" "$@" && return 0
    check_rights
    need_tools
    mkdir -p "$build"
    exec 9>"$build/.$(basename "$tree").lock"
    flock -n 9 || {
        say "another process is making ${tree#"$repo"/}; waiting"
        flock 9
    }
    up_to_date "$stamp" "$@" && return 0
    if [[ $suite == forky && -e $stamp ]]; then
        say "installing what the lists have gained (a root of \`make demo\` becomes a whole one in 2 to 3 minutes)"
        complete "$stamp" "$@"
    else
        say "making ${tree#"$repo"/}: Debian $suite, $# packages and what they need (one to two minutes)"
        remove_tree "$tree"
        bootstrap "$suite" "$tree" "$@"
    fi
    exec 9>&-
    say "${tree#"$repo"/} is ready ($((SECONDS - start)) s)"
}

# add_lists GOAL...: what the goals that have a list of their own take besides.
add_lists() {
    local goal stamp packages
    for goal in "$@"; do
        [[ -e $here/packages.d/$goal ]] || continue
        stamp=$build/sysroot/etc/apir-build-root.d/$goal
        mapfile -t packages < <(wanted "$here/packages.d/$goal")
        up_to_date "$stamp" "${packages[@]}" && continue
        check_rights
        exec 9>"$build/.sysroot.lock"
        flock 9
        say "installing what \`make $goal\` takes (tests/env/packages.d/$goal)"
        complete "$stamp" "${packages[@]}"
        exec 9>&-
    done
}

case ${1-} in
'')
    # Inside the build root, or natively, there is nothing to make.
    if sh "$here/inside.sh"; then exit 0; fi
    mapfile -t packages < <(wanted "$here/packages.demo" "$here/packages")
    up_to_date "$build/sysroot/etc/apir-build-root" "${packages[@]}" && exit 0
    make_tree forky "$build/sysroot" "${packages[@]}"
    # What else takes long once: the container images and the VM's root. Not
    # worth failing for; they are made again when something needs them.
    if ! { "$here/../vm/image.sh" && "$here/../vm/run.sh" --prepare; }; then
        say "the VM's images are not ready yet; they will be tried again when needed"
    fi
    ;;
--demo)
    if sh "$here/inside.sh"; then exit 0; fi
    mapfile -t packages < <(wanted "$here/packages.demo" "$here/packages")
    up_to_date "$build/sysroot/etc/apir-build-root" "${packages[@]}" && exit 0
    mapfile -t packages < <(wanted "$here/packages.demo")
    make_tree forky "$build/sysroot" "${packages[@]}"
    ;;
--with)
    if sh "$here/inside.sh"; then exit 0; fi
    add_lists "${@:2}"
    ;;
--trixie)
    make_tree trixie "$build/trixie" "${trixie_packages[@]}"
    ;;
--remove)
    [[ ! -e /etc/apir-build-root ]] || die "run this outside of the build root"
    for tree in sysroot sysroot-aarch64 sysroot-bookworm sysroot-trixie trixie; do
        remove_tree "$build/$tree.part"
        remove_tree "$build/$tree"
    done
    ;;
*)
    die "usage: sysroot.sh [--demo|--with GOAL...|--trixie|--remove]"
    ;;
esac
