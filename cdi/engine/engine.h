/* SPDX-License-Identifier: Apache-2.0 */
/* The container engines of this machine: which, which version, and what each needs for CDI. */
#ifndef APIR_CDI_ENGINE_H
#define APIR_CDI_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

struct apir_error;
struct json_object;

enum cdi_engine {
    CDI_ENGINE_PODMAN,
    CDI_ENGINE_DOCKER,
    CDI_ENGINE_CONTAINERD,
    CDI_ENGINE_CRIO,
    CDI_ENGINES,
};

struct cdi_version {
    int major, minor, patch;
};

/* "podman", … */
const char *cdi_engine_name(enum cdi_engine engine);

/* The first "MAJOR.MINOR" or "MAJOR.MINOR.PATCH" in text. Returns false where there is none. */
bool cdi_engine_parse_version(const char *text, struct cdi_version *ret);

static inline bool cdi_version_at_least(struct cdi_version v, int major, int minor)
{
    return v.major > major || (v.major == major && v.minor >= minor);
}

/*
 * Whether that version of podman keeps to itself what annotations an image has. Before 4.5.1 those
 * became the container's, so that an image alone could ask for a device by our hooks.d files.
 */
static inline bool cdi_podman_has_safe_annotations(struct cdi_version v)
{
    return cdi_version_at_least(v, 4, 6) || (v.major == 4 && v.minor == 5 && v.patch >= 1);
}

/* Whether that version takes CDI at all, be it with a setting. */
bool cdi_engine_has_cdi(enum cdi_engine engine, struct cdi_version version);

/*
 * Asks the engine's program on PATH for its version. -ENOENT: it is not there, -EPROTO: it
 * says nothing that is one. Returns 0 or -errno.
 */
int cdi_engine_ask(enum cdi_engine engine, struct cdi_version *ret_version);

/* Whether a program of that name is on PATH. */
bool cdi_engine_program_found(const char *program);

/*
 * What an engine's configuration has to become, so that the engine takes our devices.
 */
struct cdi_engine_plan {
    char path[4096]; /* the file; "": there is none to change */
    char *before;    /* its text; NULL: it is not there */
    char *after;     /* what to write; NULL: leave it, or (with `remove`) take it away */
    bool remove;
    char *lines; /* what the user is to add to the file, which is not ours to change; or NULL */
    /*
     * The settings that `after` changes, and nothing else of the file, which may hold secrets: a
     * list of {"path", "was" (missing: it was not there), "is"}. NULL: the whole file is ours.
     */
    struct json_object *changes;
    char note[600];      /* one line: what this does, or why there is nothing to do */
    const char *restart; /* the command that makes the engine read it; NULL: none is needed */
};
void cdi_engine_plan_fini(struct cdi_engine_plan *plan);
#define cleanup_plan __attribute__((cleanup(cdi_engine_plan_fini)))

/* Where to look. All of it is the caller's. */
struct cdi_engine_where {
    struct cdi_version version;
    const char *config;    /* the file, instead of the engine's usual one; NULL: that one */
    const char *root;      /* before every path of the system, for tests; "": none */
    const char *home;      /* the user's configuration folder (XDG), NULL: there is none */
    bool system;           /* for all users, as root; false: for this user only */
    const char *hooks_dir; /* where our hooks.d file lies; NULL: it is not installed */
    unsigned uid;
};

/*
 * Reads the engine's configuration and makes the plan; writes nothing. -EOPNOTSUPP: this
 * version has no CDI. -EBADMSG: its configuration was not understood; *err has file and
 * line. Returns 0 or -errno.
 */
int cdi_engine_plan(enum cdi_engine engine, const struct cdi_engine_where *where,
                    struct cdi_engine_plan *plan, struct apir_error *err);

/*
 * The plan that takes back what `cdi_engine_plan` once did to the file: its `changes`, and the file
 * itself where that was made then (`made`) and holds nothing else. What others changed since stays.
 */
int cdi_engine_plan_undo(const char *path, struct json_object *changes, bool made,
                         struct cdi_engine_plan *plan, struct apir_error *err);

/* ---- what the plans of each engine are made of: engine_*.c ---- */

int cdi_podman_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                    struct apir_error *err);
int cdi_docker_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                    struct apir_error *err);
int cdi_docker_undo(struct json_object *changes, bool made, struct cdi_engine_plan *plan,
                    struct apir_error *err);
int cdi_containerd_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                        struct apir_error *err);

struct cdi_strings;

/*
 * The folders podman reads, as its configuration says: of hooks, and of CDI specs. Either
 * may be NULL. `except`: a file to leave out, or NULL.
 */
int cdi_podman_dirs(const struct cdi_engine_where *where, const char *except,
                    struct cdi_strings *ret_hooks, struct cdi_strings *ret_specs,
                    struct apir_error *err);

#endif
