#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bwrap-server.sh --socket-fd FD: our server where crun's krun handler looks for the host's render server: under
# bubblewrap (its own arguments are not known here; these are stricter than a GPU allows), at the path of virglrenderer's own, as a diversion puts it there. It sees /usr, /proc and
# the devices, and no more: no configuration, no /run, no environment, no capability, no network, no user
# namespace of its own. BWRAP_BACKEND is the folder with server and worker.
exec bwrap --unshare-all --unshare-user --disable-userns --die-with-parent --new-session \
    --cap-drop ALL --clearenv \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --tmpfs /usr/libexec --ro-bind "$BWRAP_BACKEND" /usr/libexec/apir \
    --symlink apir/apir-render-server /usr/libexec/virgl_render_server \
    --proc /proc --dev /dev --dev-bind-try /dev/dri /dev/dri --remount-ro / \
    /usr/libexec/virgl_render_server "$@"
