/* SPDX-License-Identifier: Apache-2.0 */
/* The container engines of this machine: which, which version, and what each needs for CDI. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct apir_error;
struct cdi_strings;
struct json_object;

struct cdi_version {
    int major, minor, patch;
};

/* The first "MAJOR.MINOR" or "MAJOR.MINOR.PATCH" in text. Returns false where there is none. */
bool cdi_engine_parse_version(const char *text, struct cdi_version *ret);

static inline bool cdi_version_at_least(struct cdi_version v, int major, int minor)
{
    return v.major > major || (v.major == major && v.minor >= minor);
}

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
    char note[600];   /* one line: what this does, or why there is nothing to do */
    char restart[64]; /* the command that makes the engine read it; "": none is needed */
};
void cdi_engine_plan_fini(struct cdi_engine_plan *plan);
#define cleanup_plan __attribute__((cleanup(cdi_engine_plan_fini)))

/* Where to look. All of it is the caller's. */
struct cdi_engine_where {
    struct cdi_version version;
    const char *config;    /* the file, instead of the engine's usual one; NULL: that one */
    const char *root;      /* before every path of the system, for tests; "": none */
    const char *home;      /* the user's configuration folder (XDG), NULL: there is none */
    const char *run;       /* the user's runtime folder (XDG), NULL: there is none */
    bool system;           /* for all users, as root; false: for this user only */
    const char *hooks_dir; /* where our hooks.d file lies; NULL: it is not installed */
    unsigned uid;
};

/* All that is particular to one engine; cdi/engine/NAME.c has cdi_engine_NAME. */
struct engine_ops {
    const char *name, *title; /* "crio", "CRI-O" */
    /* Whose --version counts: the first that is there. */
    const char *programs[2];
    struct cdi_version first; /* with CDI */
    /* What else helps with one before that: the end of the sentence "Update NAME". "": nothing. */
    const char *older;
    /* A service (for `systemctl restart NAME`), root's unless a user's own has this socket in
     * XDG_RUNTIME_DIR. An engine that is no service is its user's. */
    bool is_service;
    const char *user_socket;
    /* Its configuration, below / and below the user's configuration folder. */
    const char *system_path, *user_path;
    /*
     * Fills the plan, whose path and restart are there already; writes nothing. NULL: the engine
     * takes CDI devices by itself, and there is nothing to configure. Returns 0 or -errno.
     */
    int (*plan)(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                struct apir_error *err);
    /* Takes plan->changes back. NULL: what the plan writes is a file of ours, which begins with
     * this mark. */
    const char *mark;
    int (*undo)(struct json_object *changes, bool made, struct cdi_engine_plan *plan,
                struct apir_error *err);
    /* The folders it reads specs from, a later one wins. */
    int (*spec_dirs)(const struct cdi_engine_where *where, struct cdi_strings *ret_dirs,
                     struct apir_error *err);
};

/* Every engine, in the order in which doctor looks at them. */
#define CDI_ENGINES(X) X(podman) X(docker) X(containerd) X(crio)

#define CDI_ENGINE_DECLARE(name) extern const struct engine_ops cdi_engine_##name;
#define CDI_ENGINE_ONE(name)     +1
CDI_ENGINES(CDI_ENGINE_DECLARE)
#define CDI_ENGINE_COUNT (0 CDI_ENGINES(CDI_ENGINE_ONE))
extern const struct engine_ops *const cdi_engines[CDI_ENGINE_COUNT];

/* Its number in cdi_engines. */
size_t cdi_engine_index(const struct engine_ops *engine);

/* Those that can be configured: "podman, docker or containerd". Static. */
const char *cdi_engine_names(void);
/* One of those, or NULL. */
const struct engine_ops *cdi_engine_find(const char *name);

/* Whether it is the whole machine's for this user. */
bool cdi_engine_is_system(const struct engine_ops *engine, unsigned uid);
/* The user's runtime folder (XDG_RUNTIME_DIR), or NULL. */
const char *cdi_engine_run_dir(void);

/*
 * Asks the engine's program on PATH for its version. -ENOENT: it is not there, -EPERM: one is that
 * another user could have put there, -EPROTO: it says nothing that is one. Returns 0 or -errno.
 */
int cdi_engine_ask(const struct engine_ops *engine, struct cdi_version *ret_version);

/* The path of its configuration, into path (PATH_MAX). -ENOENT: there is none for this user. */
int cdi_engine_config_path(const struct engine_ops *engine, const struct cdi_engine_where *where,
                           char *path);

/*
 * Reads the engine's configuration and makes the plan; writes nothing. -EOPNOTSUPP: this
 * version has no CDI. -EBADMSG: its configuration was not understood; *err has file and
 * line. Returns 0 or -errno.
 */
int cdi_engine_plan(const struct engine_ops *engine, const struct cdi_engine_where *where,
                    struct cdi_engine_plan *plan, struct apir_error *err);

/*
 * The plan that takes back what `cdi_engine_plan` once did to the file: its `changes`, and the file
 * itself where that was made then (`made`) and holds nothing else. What others changed since stays.
 */
int cdi_engine_plan_undo(const struct engine_ops *engine, const char *path,
                         struct json_object *changes, bool made, struct cdi_engine_plan *plan,
                         struct apir_error *err);
