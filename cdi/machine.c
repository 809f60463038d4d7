/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/machine.h"

#include <stdbool.h>
#include <string.h>

#include "cdi/file.h"
#include "common/cleanup.h"

#define SERVE                                                                                      \
    "`apir host serve` (as a service: systemctl enable --now apir-host.socket), then "             \
    "`apir cdi generate` for containers"
#define VIRTIO_GPU                                                                                 \
    "a virtio-gpu device from its hypervisor (QEMU: -device "                                      \
    "virtio-gpu-gl,blob=on,venus=on,hostmem=2G) and the guest's virtio_gpu driver"

/* Whether the first line "flags : a b c" of the text has that word. */
static bool has_flag(const char *flags, const char *flag)
{
    const size_t length = strlen(flag);
    const char *end = strchrnul(flags, '\n');

    for (const char *p = flags; (p = strstr(p, flag)) && p < end; p += length)
        if (p[-1] == ' ' && strchr(" \n", p[length]))
            return true;
    return false;
}

enum cdi_machine cdi_machine_read(const char *cpuinfo)
{
    cleanup_free char *text = NULL;

    if (cdi_file_load(cpuinfo, &text, NULL) < 0 || !text)
        return CDI_MACHINE_UNKNOWN;
    const char *flags = strstr(text, "\nflags\t");
    if (!flags)
        return CDI_MACHINE_UNKNOWN;
    return has_flag(flags + 1, "hypervisor") ? CDI_MACHINE_VM : CDI_MACHINE_BARE;
}

const char *cdi_machine_advice(enum cdi_machine machine)
{
    switch (machine) {
    case CDI_MACHINE_BARE:
        return "This machine is no VM, so the GPU is its own: " SERVE ".";
    case CDI_MACHINE_VM:
        return "This VM needs " VIRTIO_GPU ". If a GPU is its own, passed through: " SERVE ".";
    case CDI_MACHINE_UNKNOWN:
        break;
    }
    return "A machine that has the GPU itself: " SERVE ". A VM needs " VIRTIO_GPU ".";
}

const char *cdi_machine_advice_here(void)
{
    return cdi_machine_advice(cdi_machine_read("/proc/cpuinfo"));
}
