# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables
#
# Sandboxes that are told of each file.

# nspawn_box: the standard input is the container's file of settings, which ends with [Files]. A --bind of the command
# line would take the place of all that are there.
nspawn_box() {
    at_end 'rm /etc/systemd/nspawn/box.nspawn'
    mkdir -p /etc/systemd/nspawn
    cat - <(echo 'BindReadOnly=/mnt/models:/models') >/etc/systemd/nspawn/box.nspawn
}

row nspawn root 'systemd-nspawn as root'
row_nspawn() {
    told nspawn >"$work/told"
    nspawn_box <"$work/told"
    computes run_nspawn
}

row nspawn-users root 'systemd-nspawn, users of its own'
row_nspawn_users() {
    told nspawn >"$work/told"
    nspawn_box <"$work/told"
    computes run_nspawn --private-users=524288:65536 --private-users-ownership=map
}

row nspawn-host0 root+host 'systemd-nspawn, users of its own, host0 whose socket anybody may open'
row_nspawn_host0() {
    socket_mode 0660
    told nspawn --device host0 2>"$work/said" >"$work/told"
    nspawn_box <"$work/told"
    grep 'only mode 0666' "$work/said"
    socket_mode 0666
    computes run_nspawn --private-users=524288:65536 --private-users-ownership=map
}

row lxc root 'LXC as root'
row_lxc() {
    told lxc >"$work/told"
    lxc_box <"$work/told"
    computes run_lxc
}

row lxc-host0 root+host 'LXC as root, host0'
row_lxc_host0() {
    told lxc --device host0 >"$work/told"
    lxc_box <"$work/told"
    computes run_lxc
}

row incus root+incus 'Incus, users of its own'
row_incus() {
    told incus --name box >"$work/told"
    incus_box <"$work/told"
    computes run_incus
}

row incus-vulkan root+incus 'Incus: what stands for no device of Vulkan'
row_incus_vulkan() {
    told incus --name box >"$work/told"
    incus_box <"$work/told"
    [[ $(run_incus printenv GGML_VK_VISIBLE_DEVICES) == none ]]
}

row incus-host0 root+incus+host 'Incus, users of its own, host0 whose socket anybody may open'
row_incus_host0() {
    socket_mode 0666
    told incus --name box --device host0 >"$work/told"
    incus_box <"$work/told"
    computes run_incus
}

absent apptainer 'Apptainer' 'not in Debian'
