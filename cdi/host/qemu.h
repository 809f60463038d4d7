/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QEMU's command line, as far as a guest's way to the host's GPU depends on it. Nothing is run and
 * nothing is opened here.
 */
#ifndef APIR_CDI_HOST_QEMU_H
#define APIR_CDI_HOST_QEMU_H

#include <stdbool.h>

enum qemu_status {
    QEMU_PASS,
    QEMU_WARN, /* works, and not for everything; or it cannot be told from the command line */
    QEMU_FAIL, /* no guest finds APIR0 like this */
};

struct qemu_finding {
    const char *name; /* what was looked at: "device", "blob", ... */
    enum qemu_status status;
    char text[256];
    char add[160]; /* what to add to the command line, or to change there; "": nothing */
};

#define QEMU_FINDINGS_MAX 8

/* Whether a program of this name (with or without folders) is a QEMU that runs whole machines. */
bool qemu_is(const char *program);

/*
 * Looks at the command line behind the program's name (argv[n] is not read) and fills findings, of
 * which there are QEMU_FINDINGS_MAX. Returns how many.
 */
int qemu_check(int n, char *const *argv, struct qemu_finding *findings);

/* Whether QEMU draws by SDL, which asks for a screen unless the environment says otherwise. */
bool qemu_draws_by_sdl(int n, char *const *argv);

#endif
