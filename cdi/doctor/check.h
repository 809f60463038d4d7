/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checks of apir doctor have in common. Each looks at one link of the chain
 * and says what it found, and, where that is not as it should be, the one thing to do.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "cdi/engine/engine.h"
#include "cdi/spec/nodes.h"
#include "cdi/host/session.h"

struct json_object;

enum doctor_status {
    DOCTOR_PASS,
    DOCTOR_WARN, /* works here, and not everywhere, or not for long */
    DOCTOR_FAIL,
    DOCTOR_SKIP,      /* this machine has nothing to try it with */
    DOCTOR_UNCHECKED, /* says nothing while an earlier link is broken */
    DOCTOR_ABSENT,    /* not a link of this machine's chain: no row */
};

struct doctor_outcome {
    enum doctor_status status;
    char text[500];
    char todo[500]; /* "": nothing */
};

struct doctor {
    const char *spec_path; /* NULL in the beginning: the one that engines take */
    char spec_found[PATH_MAX];
    const char *root;      /* before the paths of the system that are only read; "": none */
    char transport[256];   /* as APIR_TRANSPORT names it */
    const char *socket;    /* its path within that; NULL: the transport is a node */
    char plugin[PATH_MAX]; /* "": not found (yet) */
    char hooks_dir[PATH_MAX];
    char config_home[PATH_MAX];
    unsigned uid;
    char user[64]; /* the name to put into advice */

    struct cdi_node nodes[CDI_NODES_MAX];
    int n_nodes;
    const struct cdi_node *node; /* the one examined */
    struct cdi_session session;
    struct json_object *spec;
    struct doctor_engine {
        bool found, good;
        struct cdi_version version;
    } engines[CDI_ENGINE_COUNT]; /* as in cdi_engines */
};

/* Sets the text, or the thing to do; say returns the status, so that a check can return it. */
enum doctor_status doctor_say(struct doctor_outcome *o, enum doctor_status status, const char *fmt,
                              ...) __attribute__((format(printf, 3, 4)));
void doctor_todo(struct doctor_outcome *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

struct doctor_row {
    const char *name, *title; /* for programs, and for people */
    const struct doctor_outcome *outcome;
};
/* Prints the rows, and the first that has failed, or all as JSON. Returns the exit code. */
int doctor_report(const struct doctor_row *rows, size_t n, bool json);

typedef enum doctor_status doctor_check(struct doctor *d, struct doctor_outcome *o);

/* cdi/doctor/chain.c: from the device to the host, and back with a result */
doctor_check doctor_check_node, doctor_check_permission, doctor_check_driver, doctor_check_features,
    doctor_check_capset, doctor_check_context, doctor_check_window, doctor_check_handshake,
    doctor_check_worker, doctor_check_socket, doctor_check_connect, doctor_check_session,
    doctor_check_versions, doctor_check_devices, doctor_check_compute;

/* cdi/doctor/mps.c: what the configuration of this machine's server wants of NVIDIA's */
doctor_check doctor_check_mps;

/* cdi/doctor/files.c: what is installed */
doctor_check doctor_check_plugin, doctor_check_spec, doctor_check_hook, doctor_check_hooks_d;

/* cdi/doctor/engine.c: the engines, and what this machine keeps from containers */
doctor_check doctor_check_engines, doctor_check_rootless, doctor_check_selinux;
