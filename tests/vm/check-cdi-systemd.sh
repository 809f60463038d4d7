#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-cdi-systemd.sh DIR: run by a unit in the systemd of check-cdi.bats, after its
# boot. The last line says "all is well", or nothing does. Ends that systemd.
set -uo pipefail
share=$1
# shellcheck disable=SC2317,SC2329 # called by trap
finish() { systemctl exit --force --force || kill -s RTMIN+14 1; }
trap finish EXIT

fail() {
    echo "FAILED: $*"
    systemctl status --no-pager -l apir-cdi-refresh.service apir-cdi-refresh.path 2>&1
    journalctl --no-pager -n 40 -u apir-cdi-refresh.service 2>&1
    exit 1
}
# What is waited for is systemd's own doing.
# shellcheck source=tests/lib/patience.bash
. "$(dirname "$0")/../lib/patience.bash"
settled() { [[ $(systemctl show -P ActiveState apir-cdi-refresh.service) =~ ^(inactive|failed)$ ]]; }
spec_is_there() { cmp -s /etc/cdi/apir.json "$share/before"; }
runs() { systemctl show -P InvocationID apir-cdi-refresh.service; }
ran_again() { [[ $(runs) != "$1" ]] && settled; }

wait_until 100 settled || fail 'the refresh at boot does not end'
spec_is_there || fail 'no spec after boot'
[[ $(stat -c '%a %U %G' /etc/cdi/apir.json) == '644 root root' ]] || fail 'mode of the spec'
[[ $(stat -c '%a' /etc/cdi) == 755 ]] || fail 'mode of /etc/cdi'
[[ $(systemctl show -P Result apir-cdi-refresh.service) == success ]] || fail 'the refresh at boot'

# A node that appears: the rule, and nothing else, starts the unit.
rm /etc/cdi/apir.json
systemctl is-active --quiet dev-dri-renderD128.device || fail 'systemd does not know the node'
before=$(runs)
udevadm trigger --action=remove /dev/dri/renderD128 && udevadm settle
udevadm trigger --action=add /dev/dri/renderD128 && udevadm settle
wait_until 100 ran_again "$before" || fail 'no refresh after the node appeared'
spec_is_there || fail 'no spec after the node appeared'

# An upgrade replaces the plug-in.
rm /etc/cdi/apir.json
before=$(runs)
cp /usr/lib/apir/libggml-apir.so /usr/lib/apir/new
mv /usr/lib/apir/new /usr/lib/apir/libggml-apir.so
wait_until 100 ran_again "$before" || fail 'no refresh after the upgrade'
spec_is_there || fail 'no spec after the upgrade'

# A wrong request fails the unit, and leaves the file.
mkdir -p /run/systemd/system/apir-cdi-refresh.service.d
printf '[Service]\nExecStart=\nExecStart=/usr/bin/apir cdi generate --plugin /nonexistent\n' \
    >/run/systemd/system/apir-cdi-refresh.service.d/broken.conf
systemctl daemon-reload
! systemctl start apir-cdi-refresh.service || fail 'a refresh that fails is not seen to fail'
spec_is_there || fail 'a refresh that failed took the spec away'
# So does what the sandbox forbids.
printf '[Service]\nExecStart=\nExecStart=/usr/bin/apir cdi generate --output /usr/lib/apir/x.json\n' \
    >/run/systemd/system/apir-cdi-refresh.service.d/broken.conf
systemctl daemon-reload
! systemctl start apir-cdi-refresh.service || fail 'the unit may write elsewhere'
[[ ! -e /usr/lib/apir/x.json ]] || fail 'the unit has written elsewhere'
echo 'all is well'
