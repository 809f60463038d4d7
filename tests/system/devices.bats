#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Which device is which: ids of the host's devices, and the choice of some of them.

load system.bash

setup() {
    common_setup
    VTEST_ENV=("${VULKAN[@]}" APIR_LOG=info)
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU", "Vulkan0"]}'
    # As another program of this machine has it from the driver.
    uuid=$(env VK_DRIVER_FILES="$LAVAPIPE" vulkaninfo 2>/dev/null | sed -nE 's/^\s*deviceUUID\s*= *//p' |
        head -n 1)
}

# descriptions [VARIABLE=VALUE]...: of our devices in their order, a line each; on stderr
# what the plug-in says.
descriptions() {
    remote "$@" "$EXERCISE" list 2>"$T/list.err" | awk -F '\t' '/^APIR/ { print $1 "=" $4 }'
    grep '^apir: ' "$T/list.err" >&2 || :
}

@test "devices: the chosen ones, in the order of their numbers" {
    server_start
    [[ $uuid == ????????-????-????-????-???????????? ]]
    local all cpu gpu
    all=$(descriptions A=b 2>"$T/all.err")
    echo "$all"
    [[ $(wc -l <<<"$all") -eq 2 && ! -s $T/all.err ]]
    cpu=$(sed -n 's/^APIR0=//p' <<<"$all")
    gpu=$(sed -n 's/^APIR1=//p' <<<"$all")
    [[ $gpu == *llvmpipe* && -n $cpu && $cpu != "$gpu" ]]

    run -0 --separate-stderr descriptions APIR_DEVICE_0=cpu
    [[ $output == "APIR0=$cpu" && -z $stderr ]]
    run -0 --separate-stderr descriptions "APIR_DEVICE_7=$uuid"
    [[ $output == "APIR0=$gpu" && -z $stderr ]]
    run -0 --separate-stderr descriptions APIR_DEVICE_7=cpu "APIR_DEVICE_3=$uuid"
    [[ $output == "APIR0=$gpu"$'\n'"APIR1=$cpu" && -z $stderr ]]
    # The same twice is one device.
    run -0 --separate-stderr descriptions APIR_DEVICE_1=cpu APIR_DEVICE_2=cpu
    [[ $output == "APIR0=$cpu" && -z $stderr ]]
}

@test "devices: a chosen one computes, whatever its number on the host" {
    server_start
    remote "APIR_DEVICE_0=$uuid" "$EXERCISE" compute
    remote APIR_DEVICE_5=cpu "APIR_DEVICE_4=$uuid" "$EXERCISE" compute APIR1
    remote APIR_DEVICE_5=cpu "APIR_DEVICE_4=$uuid" "$EXERCISE" devices APIR1
}

@test "devices: one that the host does not have is missing with one line" {
    server_start
    run -0 --separate-stderr descriptions APIR_DEVICE_0=cpu APIR_DEVICE_1=11111111-2222
    [[ $output == APIR0=* && ${#lines[@]} -eq 1 ]]
    [[ $(grep -c '^apir: ' <<<"$stderr") -eq 1 && $stderr == *11111111-2222*APIR_DEVICE_1* ]]
    # None at all: the program goes on without us.
    run -0 --separate-stderr descriptions APIR_DEVICE_1=11111111-2222
    [[ -z $output ]]
    [[ $(grep -c '^apir: ' <<<"$stderr") -eq 1 && $stderr == *11111111-2222*"going on without"* ]]
}
