# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the scripts of this folder, tests/native/options and tests/native/ops share; to be sourced from the repository's top folder.
#
#   archs_options NAMES "$@"       sets part, only, host, guest, jobs and out
#   archs_without_blas "$0" "$@"   goes on in a mount namespace in which ggml has no BLAS backend
#   archs_key                      names the packages and the processor, for what is kept
#   archs_device_env HOST          arguments for `env`, a line each: that host's device. HOST is CPU,
#                                  lavapipe, or gpu: the first that this machine's Vulkan drivers have
#   archs_native_env HOST          the same for a program that has it itself, in buffers that begin as
#                                  zeros, as APIR0's do
#   archs_serve OUT HOST DIR       starts the host side; leaves the arguments for `env` of both sides
#                                  in DIR/native.env and DIR/remoted.env
#   healthy_or_ended SOCKET PID    does llama-server there serve, or has it ended?
#   archs_part                     the architectures that a part run takes
#   archs_until SECONDS            from then on archs_late is true
#   archs_late                     is there no time for another row?
#   archs_limit SECONDS            prints that, or less if less is left (and a little)
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh

# shellcheck disable=SC2034 # for those who source this
archs_tests=$(dirname "$(find /usr/libexec -name test-llama-archs -type f -perm -1 2>/dev/null | head -n 1)")

# Asked before what follows is set, which nproc heeds.
# shellcheck disable=SC2034 # for those who source this
archs_jobs=$(env -u OMP_THREAD_LIMIT -u OMP_NUM_THREADS nproc)

# One thread on both sides, whatever a program asks for: sums then have one order.
export OMP_THREAD_LIMIT=1 OMP_NUM_THREADS=1
# The caller's, not what a script passes to itself.
[[ -n ${ARCHS_WITHOUT_BLAS-} ]] ||
    unset GGML_BACKEND_PATH APIR_TRANSPORT APIR_LOG APIR_ON_LOSS APIR_CONFIG

archs_die() {
    echo "archs: $*" >&2
    exit 2
}

# NAMES is the option that names rows. All that it sets is for those who source this.
# shellcheck disable=SC2034
archs_options() { # NAMES ARGS...
    local names=$1
    shift
    part='' only='' host=CPU guest='' jobs=$archs_jobs out=
    while [[ $# -gt 0 ]]; do
        case $1 in
        --part) part=yes ;;
        "$names") only=$2 && shift ;;
        --host) host=$2 && shift ;;
        --guest) guest=$2 && shift ;;
        --jobs) jobs=$2 && shift ;;
        --seconds) archs_until "$2" && shift ;;
        -*) archs_die "$1: unknown option" ;;
        *) out=$1 ;;
        esac
        shift
    done
    out=${out:-build/release-gcc} host=${host/cpu/CPU}
    [[ $host =~ ^(CPU|lavapipe|gpu)$ ]] || archs_die "--host is CPU, lavapipe or gpu"
    [[ $guest =~ ^(aarch64)?$ ]] || archs_die "--guest is aarch64"
}

archs_without_blas() { # SCRIPT ARGS...
    [[ -n ${ARCHS_WITHOUT_BLAS-} ]] || ARCHS_WITHOUT_BLAS=yes exec tests/native/archs/without-blas.sh "$@"
}

# The packages by their files, and the processor, by which the CPU backend is chosen.
archs_key() {
    {
        find /usr/lib -path '*ggml/backends*' -name 'libggml-[cv]*.so' -exec sha256sum {} + | sort
        sha256sum "$archs_tests"/test-llama-archs
        ldconfig -p | awk '/lib(ggml-base|llama)\.so\.0|libvulkan_lvp/ { print $NF }' | sort -u |
            xargs sha256sum
        find /usr/lib -name libvulkan_lvp.so -exec sha256sum {} +
        grep -m 1 '^model name' /proc/cpuinfo || :
    } | sha256sum | cut -c 1-16
}

archs_device_env() {
    local number=0
    [[ $1 != CPU ]] || number=
    echo "GGML_VK_VISIBLE_DEVICES=$number"
    # Its threads cost a small model more than they bring.
    [[ $1 != lavapipe ]] || printf '%s\n' VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json LP_NUM_THREADS=0
}
archs_native_env() {
    archs_device_env "$1"
    [[ $1 == CPU ]] || echo "LD_PRELOAD=$(realpath "$out/tests/native/archs/clear-buffers.so")"
}

# For this script and those that it calls: ARCHS_UNTIL is a time of the clock.
archs_until() {
    export ARCHS_UNTIL=$((EPOCHSECONDS + $1))
}
archs_late() {
    [[ -n ${ARCHS_UNTIL-} && $EPOCHSECONDS -ge $ARCHS_UNTIL ]]
}
archs_limit() {
    local left=$((${ARCHS_UNTIL:-$((EPOCHSECONDS + $1))} - EPOCHSECONDS + 20))
    echo $((left < $1 ? left : $1))
}

archs_serve() {
    local devices=''
    [[ $2 == CPU ]] || devices=', "devices": ["Vulkan0"]'
    archs_native_env "$2" >"$3/native.env"
    # Both are read by unix_start.
    # shellcheck disable=SC2034
    mapfile -t VTEST_ENV < <(archs_device_env "$2")
    # shellcheck disable=SC2034
    VTEST_CONFIG="{\"threads\": 1$devices}"
    unix_start "$1"
    vtest_env "$1" >"$3/remoted.env"
}

healthy_or_ended() {
    curl -sf --unix-socket "$1" http://server/health >/dev/null 2>&1 || ! kill -0 "$2" 2>/dev/null
}

# The architectures of `make check`, a line each.
archs_part() {
    grep -v '^#' tests/native/archs/part | tr ' ' '\n'
}

# Prints the directory of the small models that test-llama-archs writes, one for each architecture
# and configuration, and of its log; written on first use, about 1 GB.
archs_models() {
    local dir
    dir=build/models/archs-$(archs_key | cut -c 1-8)
    if [[ ! -e $dir ]]; then
        rm -rf build/models/archs-*
        mkdir -p "$dir.new"
        GGML_VK_VISIBLE_DEVICES='' "$archs_tests/test-llama-archs" -s 7 -o "$dir.new" \
            >/dev/null 2>"$dir.new/log" || { tail -n 3 "$dir.new/log" >&2; return 1; }
        mv "$dir.new" "$dir"
    fi
    echo "$dir"
}
