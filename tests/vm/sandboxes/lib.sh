# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # row.sh sets work
#
# For the rows of this suite, beside tests/vm/engines/lib.sh.

# told FORMAT [OPTION]...: what it prints, with what it says besides in the row's log.
told() { apir spec --format "$@"; }

# socket_mode MODE: host0's socket has this mode until the row's end.
socket_mode() {
    at_end "chmod 0660 /run/apir/host/apir.sock"
    chmod "$1" /run/apir/host/apir.sock
}

# OPTION... COMMAND..., as a container that is named box and reads /etc/systemd/nspawn/box.nspawn.
run_nspawn() {
    "${LIMIT[@]}" systemd-nspawn --quiet --register=no --keep-unit --pipe --machine box \
        --directory /var/lib/machines/box "$@" </dev/null
}

# lxc_box: a container that is named box, of what the standard input adds to its configuration.
lxc_box() {
    at_end 'lxc-wait --name box --lxcpath /run/lxc-box --state STOPPED --timeout 30'
    at_end 'lxc-stop --name box --lxcpath /run/lxc-box --kill'
    mkdir -p /run/lxc-box/box
    {
        printf '%s\n' 'lxc.rootfs.path = dir:/var/lib/machines/box' 'lxc.uts.name = box' 'lxc.net.0.type = none' \
            'lxc.init.cmd = /bin/sleep 600' 'lxc.autodev = 1' 'lxc.apparmor.profile = unconfined' 'lxc.mount.auto = proc:mixed sys:ro cgroup:ro' \
            'lxc.mount.entry = /mnt/models models none bind,ro,create=dir 0 0' \
            'lxc.cgroup2.devices.deny = a' 'lxc.cgroup2.devices.allow = c 1:* rwm' 'lxc.cgroup2.devices.allow = c 5:* rwm'
        cat
    } >/run/lxc-box/box/config
    lxc-start --name box --lxcpath /run/lxc-box --daemon --logfile "$work/lxc.log" --logpriority INFO ||
        { tail -n 30 "$work/lxc.log" && die 'the container did not start'; }
}
# COMMAND..., with the variables of the configuration and no others.
run_lxc() { "${LIMIT[@]}" lxc-attach --name box --lxcpath /run/lxc-box --clear-env -- "$@" </dev/null; }

# incus_box: a container that is named box; the standard input is commands before it starts.
incus_box() {
    at_end 'incus delete --force box </dev/null'
    incus create llama box --config raw.lxc='lxc.init.cmd = /bin/sleep 600' </dev/null
    incus config device add box models disk source=/mnt/models path=/models readonly=true </dev/null
    sh -ex
    incus start box
}
run_incus() { "${LIMIT[@]}" incus exec box -- "$@" </dev/null; }
