# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# To be sourced in the build root by what runs the image `remoting` in the test VM.
#
#   prepare_vm WORK            models, what the native runs say, the guest's files, the host's configuration
#   boot_vm WORK STORE SCRIPT ARG...   boots with podman's store STORE at /mnt/remoting

# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh
PREPARE_TOKENS=24

prepare_vm() {
    local share=$1/share name
    mkdir -p "$share"
    prepare_models build/models/vm || return 1
    for name in first second; do
        prepare_native "build/models/vm/$name.gguf" "$PREPARE_TOKENS" >"$share/native.$name" || return 1
        [[ -s $share/native.$name ]] || return 1
    done
    for name in PREPARE_TOKENS PREPARE_PROMPT PREPARE_GREEDY; do
        printf '%s=%q\n' "$name" "${!name}"
    done >"$share/agreed"
    prepare_install "$PWD/$share/root" || return 1
    prepare_config "$1/backend.json"
}

boot_vm() {
    local work=$1 store=$2
    shift 2
    env APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$PWD/$work/share" VM_MEM="${VM_MEM:-6G}" \
        VM_DISKS="models=build/models/vm remoting=$store ${BOOT_DISKS-}" VM_TIMEOUT="${VM_TIMEOUT:-1200}" \
        VM_RENDER_SERVER="$OUT/backend/apir-render-server" tests/vm/run.sh "$@"
}
