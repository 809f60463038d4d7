#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A socket for each class of containers, as apir(1) has it: the template units, and the CDI spec. That
# the server takes a socket that systemd passes is tests/system/unix.bats's.

load ../system.bash

# The lines of the manual page's example.
documented() {
    sed -n '/^\.Sh A SOCKET FOR EACH CLASS/,/^\.Ed/p' docs/man/apir.1 | sed '1,/^\.Bd/d; /^\.Ed/d; s/\\e$/\\/'
}

@test "classes: the template units are sound, and differ from the machine's own in nothing else" {
    local root=$T/root unit kind
    "${MAKE:-make}" --no-print-directory -s install-backend MODE=release O="$OUT" DESTDIR="$root" prefix=/usr >/dev/null
    unit=$root/usr/lib/systemd/system
    for kind in socket service; do
        diff <(sed 's|@%i||; s| (%i)||; s|-%i||; /APIR_CONFIG/d' "$unit/apir-host@.$kind") "$unit/apir-host.$kind"
        refute grep -q '@[a-z_]*@' "$unit/apir-host@.$kind" "$unit/apir-host.$kind"
        # verify wants an instance.
        sed "s|^ExecStart=/|ExecStart=$root/|" "$unit/apir-host@.$kind" >"$unit/apir-host@batch.$kind"
    done
    grep -qx 'ListenSequentialPacket=/run/apir/host-%i/apir.sock' "$unit/apir-host@.socket"
    grep -qx 'Environment=APIR_CONFIG=/etc/apir/backend-%i.json' "$unit/apir-host@.service"
    run -0 env SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$unit/apir-host@batch.socket" \
        "$unit/apir-host@batch.service"
    [[ -z $output ]]
}

@test "classes: the documented command makes a spec of its own, which names the class's folder" {
    local command
    mkdir "$T/host-batch"
    command=$(documented | sed -n '/^apir cdi generate/,/[^\\]$/p')
    command=${command//\/run\/apir/$T} command=${command//\/etc\/cdi/$T} command=${command/#apir/$APIR --}
    command=${command/ -- / }
    echo "$command"
    run -0 bash -c "$command"
    run -0 "$APIR" cdi validate "$T/apir-batch.json"
    jq -e --arg dir "$T/host-batch" '.kind == "virtgpu/apir-batch" and
        any(.devices[]; .name == "host0" and .containerEdits.mounts[0].hostPath == $dir)' "$T/apir-batch.json"
    # And the device that the example runs with is in it.
    run -0 "$APIR" cdi list --spec-dir "$T"
    grep -q "^$(documented | grep -o 'virtgpu/apir-batch=[a-z0-9]*')	" <<<"$output"
}
