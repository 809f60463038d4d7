/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd's CRI plug-in knows CDI since 1.7, where enable_cdi turns it on, and has it on since
 * 2.0. The two lines for it are printed: its configuration is config.toml and the files that this
 * imports, and of all the sections for one plug-in containerd takes the last one, with nothing of
 * the others. So a setting in the wrong file does nothing, or turns off what another file has set,
 * and none is changed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cdi/engine/engine.h"
#include "cdi/engine/specs.h"
#include "cdi/engine/toml.h"
#include "cdi/file.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

/* What the CRI plug-in is called in each format of the file, from the first on. */
static const char *const cri_names[] = {"cri", "io.containerd.grpc.v1.cri",
                                        "io.containerd.cri.v1.runtime"};
#define N_CRI_NAMES (sizeof(cri_names) / sizeof(cri_names[0]))

/* "plugins.CRI.KEY" into name (128). */
static const char *section_key(size_t format, const char *key, char *name)
{
    snprintf(name, 128, "plugins.%s.%s", cri_names[format], key);
    return name;
}

/* Whether there is nothing but comments. */
static bool is_empty(const char *text)
{
    for (text += strspn(text, " \t\r\n"); *text == '#'; text += strspn(text, " \t\r\n"))
        text += strcspn(text, "\n");
    return *text == '\0';
}

/* The number of its format's name in cri_names: the second where there is nothing in the file. */
static int read_format(const char *text, size_t *ret, struct apir_error *err)
{
    const char *value = NULL;
    int rc = cdi_toml_find(text, "version", &value, err);
    int version = rc > 0 ? atoi(value) : is_empty(text) ? 2 : 1;

    *ret = version >= 3 ? 2 : version == 2 ? 1 : 0;
    return rc < 0 ? rc : 0;
}

/* What config.toml says: 1 on, 0 off, -ENOENT nothing; -EBADMSG. */
static int read_enable(const char *text, size_t format, struct apir_error *err)
{
    const char *value = NULL;
    char name[128];
    int rc = cdi_toml_find(text, section_key(format, "enable_cdi", name), &value, err);

    return rc == 0 ? -ENOENT : rc < 0 ? rc : strncmp(value, "true", 4) == 0;
}

static int make_plan(const struct cdi_engine_where *where, struct cdi_engine_plan *plan,
                     struct apir_error *err)
{
    cleanup_strings struct cdi_strings disabled = {0};
    bool on = cdi_version_at_least(where->version, 2, 0);
    int major = where->version.major, minor = where->version.minor;
    size_t format = 1;
    int rc = cdi_file_load(plan->path, &plan->before, err);

    if (rc < 0)
        return rc;
    const char *text = plan->before ? plan->before : "";
    rc = cdi_toml_list(text, "disabled_plugins", &disabled, NULL, err);
    if (rc >= 0)
        rc = read_format(text, &format, err);
    int said = rc < 0 ? rc : read_enable(text, format, err);
    if (said < 0 && said != -ENOENT)
        return apir_error_wrap(err, said, "%s", plan->path);
    on = said == -ENOENT ? on : said;
    for (size_t i = 0; i < N_CRI_NAMES; i++)
        if (cdi_strings_have(&disabled, cri_names[i])) {
            snprintf(plan->note, sizeof(plan->note),
                     "containerd %d.%d: disabled_plugins turns the CRI plug-in off, which alone "
                     "has the setting; there is nothing to set",
                     major, minor);
            return 0;
        }
    if (on) {
        snprintf(plan->note, sizeof(plan->note),
                 "containerd %d.%d: CDI is on%s; there is nothing to set", major, minor,
                 said == -ENOENT ? " by itself" : "");
        return 0;
    }
    snprintf(plan->note, sizeof(plan->note),
             "containerd %d.%d: CDI is off until enable_cdi is true in the CRI plug-in's section, "
             "of the files that this one imports the last one that has it",
             major, minor);
    const char *quote = strchr(cri_names[format], '.') ? "\"" : "";
    plan->lines =
        apir_text_format("%s[plugins.%s%s%s]\n  enable_cdi = true\n",
                         is_empty(text) ? "version = 2\n\n" : "", quote, cri_names[format], quote);
    return plan->lines ? 0 : apir_error_sys(err, ENOMEM, "config.toml");
}

static int spec_dirs(const struct cdi_engine_where *where, struct cdi_strings *ret_dirs,
                     struct apir_error *err)
{
    cleanup_free char *text = NULL;
    char path[4096], name[128];
    int rc = cdi_engine_config_path(&cdi_engine_containerd, where, path);

    if (rc == 0)
        rc = cdi_file_load(path, &text, err);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    rc = 0;
    for (size_t i = 0; text && rc == 0 && i < N_CRI_NAMES; i++)
        rc = cdi_toml_list(text, section_key(i, "cdi_spec_dirs", name), ret_dirs, NULL, err);
    return rc < 0 ? rc : ret_dirs->n == 0 ? cdi_specs_add_usual(ret_dirs) : 0;
}

const struct engine_ops cdi_engine_containerd = {
    .name = "containerd",
    .title = "containerd",
    .programs = {"containerd"},
    .first = {1, 7, 0},
    .older = "",
    .is_service = true,
    .system_path = "/etc/containerd/config.toml",
    .user_path = "/containerd/config.toml",
    .plan = make_plan,
    .spec_dirs = spec_dirs,
};
