/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRI-O takes CDI devices since 1.23, and has no setting that could turn that off. In which folders
 * it looks is one: cdi_spec_dirs of crio.runtime, in crio.conf or, later, a file of crio.conf.d.
 */
#include <errno.h>
#include <stdio.h>

#include "cdi/engine/engine.h"
#include "cdi/engine/specs.h"
#include "cdi/engine/toml.h"
#include "cdi/file.h"
#include "common/cleanup.h"

static int read_conf(const char *path, void *user)
{
    struct cdi_strings *dirs = user;
    cleanup_strings struct cdi_strings found = {0};
    cleanup_free char *text = NULL;

    /* Folders are among them. */
    if (cdi_file_load(path, &text, NULL) < 0 || !text)
        return 0;
    int rc = cdi_toml_list(text, "crio.runtime.cdi_spec_dirs", &found, NULL, NULL);
    if (rc <= 0)
        return rc;
    cdi_strings_fini(dirs);
    *dirs = found;
    found.n = 0;
    return 0;
}

static int spec_dirs(const struct cdi_engine_where *where, struct cdi_strings *ret_dirs,
                     struct apir_error *err)
{
    char path[4096];
    int rc = cdi_specs_add_usual(ret_dirs);

    (void)err;
    snprintf(path, sizeof(path), "%s/etc/crio/crio.conf", where->root);
    if (rc == 0)
        rc = read_conf(path, ret_dirs);
    snprintf(path, sizeof(path), "%s/etc/crio/crio.conf.d", where->root);
    if (rc == 0)
        rc = cdi_file_each(path, "", read_conf, ret_dirs);
    return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
}

const struct engine_ops cdi_engine_crio = {
    .name = "crio",
    .title = "CRI-O",
    .programs = {"crio"},
    .first = {1, 23, 0},
    .older = "",
    .is_service = true,
    .spec_dirs = spec_dirs,
};
