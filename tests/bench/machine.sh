#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# machine.sh [KEY=VALUE]...: the line of facts about this machine that goes with samples (docs/bench-method.md).
set -euo pipefail
devices=$(llama-bench --list-devices 2>/dev/null | sed -n 's/^ \+\([A-Za-z]\+[0-9]\+: .*\) ([0-9]* MiB, .*/\1/p')
{
    date -u +date=%FT%TZ
    echo "kernel=$(uname -srm)"
    sed -n 's/^model name[^:]*: */cpu=/p' /proc/cpuinfo | head -n 1
    echo "cores=$(nproc)"
    sed -n 's/^MemTotal: */memory=/p' /proc/meminfo
    echo "load_at_start=$(cut -d ' ' -f 1-3 /proc/loadavg)"
    printf '%s\n' "$@"
} | jq -cnR --arg devices "$devices" '{facts: ([inputs | capture("^(?<key>[^=]+)=(?<value>.*)")] | from_entries
    | .devices = ($devices | split("\n")))}'
