# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# To be sourced by scripts on the host's side (VM_HOST_SCRIPT): the processes that
# QEMU's virglrenderer and our server started. Only those of VM_QEMU_PID are found.
#
#   parent_of PID      its parent; fails if it is gone
#   servers            the apir-render-server of this VM, in one line
#   workers            the apir-workers of this VM, oldest first, in one line
#   cpu_time PID       user and system time so far, in clock ticks, 100 a second

parent_of() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    stat=${stat##*) } # the name before it may hold anything
    # shellcheck disable=SC2086 # words on purpose
    set -- $stat
    [[ $1 != Z ]] && echo "$2"
}

# Those whose name begins with $1, one a line; $2 generations below QEMU.
descendants() {
    local dir pid name up i
    for dir in /proc/[0-9]*; do
        pid=${dir#/proc/}
        { read -r name <"$dir/comm"; } 2>/dev/null || continue
        [[ $name == "$1"* ]] || continue
        up=$pid
        for ((i = 0; i < $2; i++)); do up=$(parent_of "$up") || break; done
        [[ $up != "$VM_QEMU_PID" ]] || echo "$pid"
    done 2>/dev/null
}

# virglrenderer in QEMU starts the server, the server the workers. The kernel
# keeps 15 letters of a name.
servers() { descendants apir-render-ser 1 | tr '\n' ' '; }

workers() {
    local pid
    for pid in $(descendants apir-worker 2); do
        # Field 22: when it started.
        echo "$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f20) $pid"
    done 2>/dev/null | sort -n | cut -d' ' -f2 | tr '\n' ' '
}

cpu_time() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086 # words on purpose
    set -- ${stat##*) }
    echo $((${12} + ${13}))
}
