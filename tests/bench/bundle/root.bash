# SPDX-License-Identifier: Apache-2.0
#
# A small build root, for a machine that has none: in it the tests' scripts find what they call,
# where they look for it. Sourced; $root is its folder.
# shellcheck shell=bash disable=SC2154

# Each file at its place, a link as the file that it leads to.
root_files() {
    local f to
    for f in "$@"; do
        # As Debian has it: /lib is a link to /usr/lib.
        case $f in /bin/* | /sbin/* | /lib/* | /lib64/*) to=/usr$f ;; *) to=$f ;; esac
        mkdir -p "$root${to%/*}"
        [[ -e $root$to ]] || cp -L "$f" "$root$to"
    done
}

# Programs and plug-ins, and the libraries that these are linked against.
root_programs() {
    root_files "$@"
    # shellcheck disable=SC2046 # names without spaces
    root_files $(ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u)
}

# All programs of a package.
root_packages() {
    local list
    mapfile -t list < <(dpkg -L "$@" | grep -E '^(/usr)?/s?bin/.')
    root_programs "${list[@]}"
}

# What there is in every root, and the mark by which tests/env knows one.
root_base() {
    local f
    mkdir -p "$root"/{etc,proc,sys,dev,tmp,run,root,usr/{bin,sbin,lib,lib64},var/cache/ldconfig}
    for f in bin sbin lib lib64; do ln -sfn "usr/$f" "$root/$f"; done
    root_files /lib64/ld-linux-x86-64.so.2
    cp -r --parents /usr/lib/locale/C.utf8 "$root"
    echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    cp /etc/ld.so.conf /etc/apir-build-root "$root/etc/"
    cp -r --parents /etc/ld.so.conf.d "$root"
    root_packages bash dash coreutils mawk sed grep findutils diffutils libc-bin
    root_programs /usr/bin/{setsid,unshare,mount,taskset,pgrep,curl,jq,awk,sh}
    root_files "$(dpkg -L coreutils | grep '/libstdbuf\.so$')"
}
