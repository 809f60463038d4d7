/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of machine this is, and so what it lacks where nothing leads to a GPU. */
#pragma once

enum cdi_machine {
    CDI_MACHINE_UNKNOWN,
    CDI_MACHINE_VM,
    CDI_MACHINE_BARE,
};

/*
 * Reads the kernel's list of processors (/proc/cpuinfo): on x86 every hypervisor sets the flag
 * "hypervisor". Other processors have no such flag, and their machines are of an unknown kind.
 */
enum cdi_machine cdi_machine_read(const char *cpuinfo);

/*
 * What to do where there is neither a render node of virtio-gpu nor a socket of
 * apir-render-server, as sentences for an error. The text is static.
 */
const char *cdi_machine_advice(enum cdi_machine machine);

/* The same for this machine. */
const char *cdi_machine_advice_here(void);
