/* SPDX-License-Identifier: Apache-2.0 */
/* apir doctor: from the device node (or socket) to a computed result. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cdi/doctor/access.h"
#include "cdi/doctor/compute.h"
#include "cdi/doctor/check.h"
#include "cdi/folder.h"
#include "cdi/machine.h"
#include "common/cleanup.h"
#include "common/error.h"

#define SESSION_TIMEOUT_MS 70000u /* the client itself waits a minute for shaders to compile */
#define COMPUTE_TIMEOUT_MS 60000u

static const char *how(enum doctor_access access)
{
    switch (access) {
    case DOCTOR_ACCESS_ROOT:
        return "as root";
    case DOCTOR_ACCESS_OWNER:
        return "as its owner";
    case DOCTOR_ACCESS_GROUP:
        return "by the group";
    case DOCTOR_ACCESS_WORLD:
        return "as everybody";
    case DOCTOR_ACCESS_NONE:
        break;
    }
    return "by an access list";
}

/* ---- a node of virtio-gpu ---------------------------------------------------------- */

enum doctor_status doctor_check_node(struct doctor *d, struct doctor_outcome *o)
{
    doctor_todo(o, "%s In a container, pass the device: --device virtgpu/apir=gpu0 (or host0).",
                cdi_machine_advice_here());
    if (d->n_nodes < 0)
        return doctor_say(o, DOCTOR_FAIL, "/dev/dri: %s", strerror(-d->n_nodes));
    if (d->n_nodes == 0)
        return doctor_say(o, DOCTOR_FAIL, "no render node in /dev/dri");
    if (!d->node)
        return doctor_say(o, DOCTOR_FAIL, "no render node %s",
                          strchr(d->transport, ':') ? strchr(d->transport, ':') + 1 : "");
    return doctor_say(o, DOCTOR_PASS, "%s%s%s", d->node->path, d->node->bus[0] != '\0' ? ", " : "",
                      d->node->bus);
}

enum doctor_status doctor_check_permission(struct doctor *d, struct doctor_outcome *o)
{
    struct stat st;
    char group[64];

    if (stat(d->node->full_path, &st) < 0)
        return doctor_say(o, DOCTOR_FAIL, "%s: %s", d->node->path, strerror(errno));
    unsigned mode = (unsigned)st.st_mode & 07777u;
    enum doctor_access access = doctor_access_mine(&st);
    doctor_group_name(st.st_gid, group, sizeof(group));

    if (d->node->open_error == EPERM) {
        doctor_todo(o, "Give the container the device with --device virtgpu/apir=gpu0, not as a "
                       "volume.");
        return doctor_say(o, DOCTOR_FAIL,
                          "%s: mode %04o, but the device rules of this container "
                          "forbid it",
                          d->node->path, mode);
    }
    if (d->node->open_error == EACCES && access != DOCTOR_ACCESS_NONE) {
        doctor_todo(o, "Look into the audit log (ausearch -m avc -ts recent): a security module "
                       "forbids it. In a container: --security-opt label=disable.");
        return doctor_say(o, DOCTOR_FAIL, "%s: mode %04o, group %s would do, and yet: %s",
                          d->node->path, mode, group, strerror(d->node->open_error));
    }
    if (d->node->open_error == EACCES) {
        doctor_access_advice(&st, d->user, o->todo, sizeof(o->todo));
        return doctor_say(o, DOCTOR_FAIL, "%s: mode %04o, group %s, and this user is not in it",
                          d->node->path, mode, group);
    }
    if (d->node->open_error != 0)
        return doctor_say(o, DOCTOR_FAIL, "%s: %s", d->node->path, strerror(d->node->open_error));
    if (access == DOCTOR_ACCESS_NONE) {
        /* logind gives the seat's user an entry, and takes it away when the session ends. */
        bool acl = getxattr(d->node->full_path, "system.posix_acl_access", NULL, 0) > 0;

        doctor_todo(o,
                    "usermod -aG %s %s, so that containers keep the device when nobody is "
                    "logged in.",
                    group, d->user);
        return doctor_say(o, DOCTOR_WARN, "%s opens only %s; mode %04o, group %s", d->node->path,
                          acl ? "by an access list, which the login session brings along"
                              : "by a privilege of this process",
                          mode, group);
    }
    return doctor_say(o, DOCTOR_PASS, "%s opens %s; mode %04o, group %s", d->node->path,
                      how(access), mode, group);
}

enum doctor_status doctor_check_driver(struct doctor *d, struct doctor_outcome *o)
{
    if (d->node->is_virtio_gpu)
        return doctor_say(o, DOCTOR_PASS, "%s", d->node->driver);
    doctor_todo(o, "%s", cdi_machine_advice_here());
    return doctor_say(o, DOCTOR_FAIL, "the driver of %s is \"%s\", not %s", d->node->path,
                      d->node->driver, CDI_DRIVER_NAME);
}

enum doctor_status doctor_check_features(struct doctor *d, struct doctor_outcome *o)
{
    struct cdi_node_caps caps = d->node->caps;

    if (d->node->caps_error != 0)
        return doctor_say(o, DOCTOR_FAIL, "asking the driver: %s", strerror(d->node->caps_error));
    /* Venus is the next link's. */
    caps.capset_ids = 1u << CDI_CAPSET_VENUS;
    const char *missing = cdi_node_caps_missing(&caps);
    if (!missing)
        return doctor_say(o, DOCTOR_PASS, "3D, blob resources, context init, host-visible memory");
    doctor_todo(o, "Start the VMM with blob=on and hostmem=2G (QEMU), and use a guest kernel of "
                   "5.16 or later.");
    return doctor_say(o, DOCTOR_FAIL, "the device does not offer %s", missing);
}

enum doctor_status doctor_check_capset(struct doctor *d, struct doctor_outcome *o)
{
    unsigned ids = d->node->caps.capset_ids;

    if ((ids & (1u << CDI_CAPSET_VENUS)) != 0)
        return doctor_say(o, DOCTOR_PASS, "Venus (capset %u)", CDI_CAPSET_VENUS);
    if (ids == 0) {
        /* Not even virgl's, which a device with 3D has: the driver did not get to know any. */
        doctor_todo(
            o,
            "Reboot the guest, or give the device to its driver again, as root: cd "
            "/sys/bus/virtio/drivers/virtio_gpu; for d in virtio*; do echo $d "
            ">unbind; echo $d >bind; done. If that does not help, the VMM's virglrenderer did not "
            "start: its log says why. libvirt's seccomp_sandbox forbids that.");
        return doctor_say(o, DOCTOR_FAIL,
                          "no capsets: the VMM did not tell them within the five "
                          "seconds for which the guest's driver waits");
    }
    doctor_todo(o, "Start the VMM with venus=on (QEMU: -device virtio-gpu-gl,…,venus=on) and a "
                   "virglrenderer that was built with Venus.");
    return doctor_say(o, DOCTOR_FAIL, "the capsets are 0x%x, Venus is not among them", ids);
}

enum doctor_status doctor_check_context(struct doctor *d, struct doctor_outcome *o)
{
    cdi_session_run(d->transport, SESSION_TIMEOUT_MS, &d->session);
    if (d->session.passed >= CDI_SESSION_CONTEXT)
        return doctor_say(o, DOCTOR_PASS, "a context named " APIR_CONTEXT_NAME);
    doctor_todo(o, "Look into the VMM's log on the host: it starts the render server for the first "
                   "context. RENDER_SERVER_EXEC_PATH in its environment must name "
                   "apir-render-server, and the VMM must be allowed to run it.");
    return doctor_say(o, DOCTOR_FAIL, "%s", d->session.text);
}

enum doctor_status doctor_check_window(struct doctor *d, struct doctor_outcome *o)
{
    if (d->session.passed >= CDI_SESSION_MEMORY)
        return doctor_say(o, DOCTOR_PASS, "%u KiB mapped", APIR_RING_SIZE / 1024);
    doctor_todo(o, "The host-visible window is full or missing: give the device more of it (QEMU: "
                   "hostmem=2G), or end containers that hold it.");
    return doctor_say(o, DOCTOR_FAIL, "%s", d->session.text);
}

enum doctor_status doctor_check_handshake(struct doctor *d, struct doctor_outcome *o)
{
    if (d->session.passed >= CDI_SESSION_HOST)
        return doctor_say(o, DOCTOR_PASS, "it answers, protocol %u.%u", d->session.major,
                          d->session.minor);
    if (d->session.code == EPROTONOSUPPORT)
        doctor_todo(o, "Install the same release of apir on the host and in the VM.");
    else
        doctor_todo(o, "On the host, start the VMM with RENDER_SERVER_EXEC_PATH set to the path of "
                       "apir-render-server.");
    return doctor_say(o, DOCTOR_FAIL, "%s", d->session.text);
}

/* A host's reason says that its device was tried. */
static bool device_cannot_compute(const char *reason)
{
    return strstr(reason, APIR_CANNOT_COMPUTE);
}

static void todo_for_device(struct doctor_outcome *o)
{
    doctor_todo(o,
                "On the host: its GPU driver and its ggml do not fit together, mostly. Update the "
                "driver, or install a ggml backend that is made for it, then restart "
                "apir-render-server (a VMM: with its next start). \"devices\" in "
                "/etc/apir/backend.json names those that are to be offered.");
}

static void todo_for_worker(const struct doctor *d, struct doctor_outcome *o, const char *otherwise)
{
    if (device_cannot_compute(d->session.text))
        todo_for_device(o);
    else
        doctor_todo(o, "%s", otherwise);
}

enum doctor_status doctor_check_worker(struct doctor *d, struct doctor_outcome *o)
{
    if (d->session.passed >= CDI_SESSION_WORKER)
        return doctor_say(o, DOCTOR_PASS, "ready");
    todo_for_worker(
        d, o,
        "The host's worker could not start: the render server's log (stderr of the VMM) "
        "has the reason. Often the host's libggml or its GPU driver is missing, or "
        "/etc/apir/backend.json forbids it.");
    return doctor_say(o, DOCTOR_FAIL, "%s", d->session.text);
}

/* ---- a socket of apir-render-server --------------------------------------------------- */

enum doctor_status doctor_check_socket(struct doctor *d, struct doctor_outcome *o)
{
    struct apir_error err = {0};
    struct stat st;

    if (stat(d->socket, &st) < 0 && errno == EACCES) {
        doctor_todo(o, "Let this user search the folders above it.");
        return doctor_say(o, DOCTOR_FAIL, "%s: %s", d->socket, strerror(errno));
    }
    doctor_todo(o, "Start the host side: systemctl enable --now apir-host.socket");
    if (stat(d->socket, &st) < 0)
        return doctor_say(o, DOCTOR_FAIL, "%s: %s", d->socket, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return doctor_say(o, DOCTOR_FAIL, "%s is no socket", d->socket);
    if (geteuid() == 0 && cdi_folder_check(d->socket, 0002, &err) < 0) {
        doctor_todo(o, "What it answers is as good as that user's word.");
        return doctor_say(o, DOCTOR_WARN, "%s", err.msg);
    }
    return doctor_say(o, DOCTOR_PASS, "%s", d->socket);
}

enum doctor_status doctor_check_connect(struct doctor *d, struct doctor_outcome *o)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    char group[64];

    if (strlen(d->socket) >= sizeof(address.sun_path))
        return doctor_say(o, DOCTOR_FAIL, "%s: %s", d->socket, strerror(ENAMETOOLONG));
    memcpy(address.sun_path, d->socket, strlen(d->socket) + 1);
    if (stat(d->socket, &st) < 0)
        return doctor_say(o, DOCTOR_FAIL, "%s: %s", d->socket, strerror(errno));
    unsigned mode = (unsigned)st.st_mode & 07777u;
    enum doctor_access access = doctor_access_mine(&st);
    doctor_group_name(st.st_gid, group, sizeof(group));

    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)&address, sizeof(address));
    if (rc < 0 && errno == EPROTOTYPE) {
        apir_close_fd(&fd);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        rc = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)&address, sizeof(address));
    }
    /* EAGAIN: its queue is full, so somebody listens. */
    if (rc == 0 || errno == EAGAIN)
        return doctor_say(o, DOCTOR_PASS, "this user may connect %s; mode %04o, group %s",
                          how(access), mode, group);
    if (errno == EACCES) {
        doctor_access_advice(&st, d->user, o->todo, sizeof(o->todo));
        return doctor_say(o, DOCTOR_FAIL, "mode %04o, group %s, and this user is not in it", mode,
                          group);
    }
    doctor_todo(o, "Nobody listens there: systemctl restart apir-host.socket");
    return doctor_say(o, DOCTOR_FAIL, "%s: %s", d->socket, strerror(errno));
}

/* ---- both ------------------------------------------------------------------------------- */

enum doctor_status doctor_check_session(struct doctor *d, struct doctor_outcome *o)
{
    cdi_session_run(d->transport, SESSION_TIMEOUT_MS, &d->session);
    if (d->session.passed >= CDI_SESSION_WORKER)
        return doctor_say(o, DOCTOR_PASS, "the host answers");
    todo_for_worker(d, o, "The log of the render server on the host has the reason.");
    return doctor_say(o, DOCTOR_FAIL, "%s", d->session.text);
}

enum doctor_status doctor_check_versions(struct doctor *d, struct doctor_outcome *o)
{
    if (d->session.passed < CDI_SESSION_DEVICES) {
        doctor_todo(o, "The log of the render server on the host has the reason.");
        return doctor_say(o, DOCTOR_FAIL, "%s", d->session.text);
    }
    doctor_say(o, DOCTOR_PASS,
               "here apir " APIR_VERSION ", protocol %u.%u; the host: protocol "
               "%u.%u, %s",
               APIR_PROTOCOL_MAJOR, APIR_PROTOCOL_MINOR, d->session.major, d->session.minor,
               d->session.host_ggml);
    if (d->session.minor == APIR_PROTOCOL_MINOR)
        return DOCTOR_PASS;
    doctor_todo(o, "Install the same release of apir on both sides to have all of the newer one.");
    return DOCTOR_WARN;
}

enum doctor_status doctor_check_devices(struct doctor *d, struct doctor_outcome *o)
{
    size_t used = 0;

    if (d->session.n_devices == 0) {
        doctor_todo(o, "Install a GPU backend of ggml on the host (Debian: "
                       "libggml0-backend-vulkan), and look at \"devices\" in its "
                       "/etc/apir/backend.json.");
        return doctor_say(o, DOCTOR_FAIL, "the host offers none");
    }
    for (unsigned i = 0; i < d->session.n_devices && used < sizeof(o->text); i++) {
        const struct cdi_session_device *device = &d->session.devices[i];
        int n = snprintf(o->text + used, sizeof(o->text) - used,
                         "%sAPIR%u is %s (%s), %llu of %llu MiB free%s", i == 0 ? "" : "; ", i,
                         device->name, device->description,
                         (unsigned long long)(device->memory_free >> 20),
                         (unsigned long long)(device->memory_total >> 20),
                         device->is_own_cpu ? ": this machine's own CPU, which a container has "
                                              "without apir"
                                            : "");
        used += n > 0 ? (size_t)n : 0;
    }
    if (!device_cannot_compute(d->session.left_out))
        return DOCTOR_PASS;
    if (used < sizeof(o->text))
        snprintf(o->text + used, sizeof(o->text) - used, "; left out: %s", d->session.left_out);
    todo_for_device(o);
    return DOCTOR_WARN;
}

enum doctor_status doctor_check_compute(struct doctor *d, struct doctor_outcome *o)
{
    struct cdi_compute_options options = {d->plugin, d->transport};
    bool docker = d->engines[cdi_engine_index(&cdi_engine_docker)].good &&
                  !d->engines[cdi_engine_index(&cdi_engine_podman)].good;
    char text[300];

    switch (cdi_compute_run(&options, COMPUTE_TIMEOUT_MS, text, sizeof(text))) {
    case CDI_COMPUTE_OK:
        return doctor_say(o, DOCTOR_PASS, "%s", text);
    case CDI_COMPUTE_NO_GGML:
        return doctor_say(o, DOCTOR_SKIP,
                          "%s; to see it in a container: %s run --rm --device "
                          "virtgpu/apir=%s IMAGE llama-bench --list-devices",
                          text, docker ? "docker" : "podman", d->socket ? "host0" : "gpu0");
    case CDI_COMPUTE_FAILED:
        break;
    }
    doctor_todo(o,
                "APIR_LOG=debug apir doctor shows the plug-in's own words; the log of the render "
                "server on the host has the other side's.");
    return doctor_say(o, DOCTOR_FAIL, "%s", text);
}
