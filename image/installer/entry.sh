#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install | remove: puts the guest's part of apir into the machine whose root is mounted at /host, below
# /usr/local, which is writable where /usr is not (Fedora CoreOS); or takes out what it has put there. It is the
# entry of the image `apir-installer`, whose folder /files has what goes there.
#
# /var/lib/apir/installed on the machine lists it: "f PATH" for a file, "d PATH" for a folder that was not there.
set -eu

host=/host
list=$host/var/lib/apir/installed
units='apir-cdi-refresh.path apir-cdi-refresh.service'

say() { echo "apir-installer: $*" >&2; }
die() {
    say "$*"
    exit 1
}

# By the machine's own programs, where its systemd and its mounts are.
on_host() {
    nsenter -t 1 -m -p /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin "$@"
}
has_systemd() { [ -d "$host/run/systemd/system" ]; }

folder() { # PATH: it is there, and so are those above it
    [ ! -d "$host$1" ] || return 0
    folder "${1%/*}"
    mkdir -m 0755 "$host$1"
    echo "d $1" >>"$list.new"
}

# Files take the place of older ones by their name, since those may be in use.
put() { # PATH
    folder "${1%/*}"
    cp -p "/files$1" "$host$1.new"
    chown 0:0 "$host$1.new"
    mv "$host$1.new" "$host$1"
    echo "f $1" >>"$list.new"
}

take_out() { # what the lines of standard input name, the last one first
    sed -n '1!G;h;$p' | while read -r kind path; do
        case $kind in
        f) rm -f "$host$path" ;;
        d) rmdir "$host$path" 2>/dev/null || say "left: $path, which has files of others" ;;
        esac
    done
}

install() {
    made=
    [ -d "$host/var/lib/apir" ] || made=yes
    mkdir -p "$host/var/lib/apir"
    : >"$list.new"
    [ ! -e "$list" ] || grep '^d ' "$list" >>"$list.new" || :
    [ -z "$made" ] || echo 'd /var/lib/apir' >>"$list.new"
    (cd /files && find . -type f) | sort | while read -r file; do put "${file#.}"; done
    # What an older version had and this one has not.
    if [ -e "$list" ]; then
        grep -vxFf "$list.new" "$list" | take_out
    fi
    mv "$list.new" "$list"
    # shellcheck disable=SC2086 # words on purpose
    if has_systemd; then
        on_host systemctl daemon-reload
        on_host systemctl enable --now $units
    fi
    on_host apir cdi generate
}

remove() {
    [ -e "$list" ] || die 'nothing is installed'
    for record in "$host"/var/lib/apir/engine-*.json; do
        [ -e "$record" ] || continue
        engine=${record##*/engine-}
        on_host apir engine reset "${engine%.json}" || say "the settings of ${engine%.json} are left as they are"
    done
    # shellcheck disable=SC2086 # words on purpose
    ! has_systemd || on_host systemctl disable --now $units
    rm -f "$host/etc/cdi/apir.json"
    rmdir "$host/etc/cdi" 2>/dev/null || :
    cp "$list" /tmp/installed
    rm "$list"
    take_out </tmp/installed
    ! has_systemd || on_host systemctl daemon-reload
}

usage='podman run --rm --privileged --pid=host -v /:/host IMAGE install | remove'
[ -d "$host/usr" ] && [ $$ -ne 1 ] || die "the machine's root and processes are wanted: $usage"
case ${1:-} in
install | remove) "$1" ;;
*) die "usage: $usage" ;;
esac
