/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime tells a hook: the OCI state on stdin and, for runtimes that
 * do not name the root there, the bundle's config.json.
 *
 * crun: pid 0, a "root" member of its own, the working directory is the bundle.
 * runc: the hook's parent as pid, no "root", the working directory is the root.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct apir_error;
struct json_object;

/* The annotation that asks for a device where the engine does not know CDI. */
#define OCI_ANNOTATION "apir.device"

#define OCI_STATE_MAX  (1u << 20)
#define OCI_CONFIG_MAX (8u << 20)

struct oci_state {
    char *id;
    char *bundle; /* absolute, or NULL */
    char *root;   /* absolute or relative to the bundle, or NULL: it is in the bundle's config */
    char *device; /* the annotation's value, or NULL */
    int64_t pid;
};

void oci_state_fini(struct oci_state *state);
#define cleanup_state __attribute__((cleanup(oci_state_fini)))

/*
 * Parses the state. Refused (-EBADMSG): what is no JSON object, a member of these of the
 * wrong type, an id that is missing, a path that is not absolute, a pid below 0
 * or beyond the kernel's. Unknown members are taken: runtimes add their own.
 * *ret is zeroed on failure.
 */
int oci_state_parse(const char *data, size_t size, struct oci_state *ret, struct apir_error *err);

/* Reads fd to its end and parses it. */
int oci_state_read(int fd, struct oci_state *ret, struct apir_error *err);

/* The bundle's config.json. Returns 0 or -errno: -ENOENT also where no bundle is known. */
int oci_state_config(const struct oci_state *state, struct json_object **ret_config,
                     struct apir_error *err);

/*
 * The absolute path of the root out of a config.json: root.path, which is
 * relative to the bundle where it is relative. Returns 0 or -errno.
 */
int oci_config_root(struct json_object *config, const char *bundle, char **ret_root,
                    struct apir_error *err);

/* state->root, else bundle/config.json's. */
int oci_state_root(const struct oci_state *state, char **ret_root, struct apir_error *err);
