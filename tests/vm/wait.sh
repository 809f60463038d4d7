#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A VM to look around in: runs each script that appears as /mnt/share/cmd, until
# VM_TIMEOUT or a command `touch /mnt/share/end`.
cd /mnt/share || exit 1
echo "write commands into cmd in the shared directory; touch end there to stop"
while :; do
    if [[ -s cmd ]]; then
        mv cmd cmd.running
        bash cmd.running
        echo "-> $?"
    fi
    [[ ! -e end ]] || break
    sleep 0.2
done
rm -f end
