/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/sandbox/formats.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cdi/sandbox/quote.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/text.h"

/* ---- engines that read the spec ------------------------------------------------------ */

/* The variables stand there again, since what an engine executes later has none of a spec's. */

/* Whether root's groups in a container are the host's. For a user they are not: crun keeps them. */
static bool is_root(void)
{
    return geteuid() == 0;
}

size_t sandbox_groups(const struct sandbox_edits *e, gid_t groups[SANDBOX_LIST_MAX])
{
    struct stat st;
    size_t n = 0;

    for (size_t i = 0; i < e->n_nodes && n < SANDBOX_LIST_MAX - 1; i++)
        if ((e->nodes[i].mode & 0066) == 0060 && e->nodes[i].gid != 0)
            groups[n++] = e->nodes[i].gid;
    if (e->socket && stat(e->socket, &st) == 0 && (st.st_mode & 0066) == 0060 && st.st_gid != 0)
        groups[n++] = st.st_gid;
    /* Each once. */
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < kept; k++)
            known = known || groups[k] == groups[i];
        if (!known)
            groups[kept++] = groups[i];
    }
    return kept;
}

static int write_options(FILE *out, const struct sandbox_edits *e, bool keep_groups)
{
    gid_t groups[SANDBOX_LIST_MAX];
    size_t n = sandbox_groups(e, groups);
    const char *gap = "";

    for (size_t i = 0; i < e->n_names; i++, gap = " ")
        fprintf(out, "%s--device %s", gap, e->names[i]);
    if (keep_groups && n > 0)
        fputs(" --group-add keep-groups", out);
    for (size_t i = 0; i < n && !keep_groups; i++)
        fprintf(out, " --group-add %u", groups[i]);
    for (size_t i = 0; i < e->n_env; i++) {
        fputs(" --env ", out);
        sandbox_put_word(out, "", e->env[i]);
    }
    fputc('\n', out);
    return 0;
}

static int write_docker(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    (void)err;
    return write_options(out, e, false);
}

static int write_podman(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    (void)err;
    return write_options(out, e, !is_root());
}

static int write_compose(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    gid_t groups[SANDBOX_LIST_MAX];
    size_t n = sandbox_groups(e, groups);

    (void)err;
    fprintf(out, "services:\n  \"%s\":\n    devices:\n", e->name);
    for (size_t i = 0; i < e->n_names; i++)
        fprintf(out, "      - \"%s\"\n", e->names[i]);
    if (n > 0)
        fputs("    group_add:\n", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "      - \"%u\"\n", groups[i]);
    fputs("    environment:\n", out);
    for (size_t i = 0; i < e->n_env; i++) {
        fputs("      - ", out);
        sandbox_put_compose(out, e->env[i]);
        fputc('\n', out);
    }
    return 0;
}

static int write_quadlet(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    gid_t groups[SANDBOX_LIST_MAX];
    size_t n = sandbox_groups(e, groups);

    (void)err;
    fputs("[Container]\n", out);
    for (size_t i = 0; i < e->n_names; i++)
        fprintf(out, "AddDevice=%s\n", e->names[i]);
    if (!is_root() && n > 0)
        fputs("GroupAdd=keep-groups\n", out);
    for (size_t i = 0; i < n && is_root(); i++)
        fprintf(out, "GroupAdd=%u\n", groups[i]);
    for (size_t i = 0; i < e->n_env; i++) {
        fputs("Environment=", out);
        sandbox_put_unit(out, e->env[i]);
        fputc('\n', out);
    }
    return 0;
}

/* The words are one word of distrobox's, which a shell takes apart again. */
static int write_distrobox(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    cleanup_free char *words = NULL;
    size_t size;
    FILE *inner = open_memstream(&words, &size);

    if (!inner)
        return apir_error_sys(err, ENOMEM, "distrobox");
    for (size_t i = 0; i < e->n_names; i++)
        fprintf(inner, "%s--device=%s", i > 0 ? " " : "", e->names[i]);
    for (size_t i = 0; i < e->n_env; i++) {
        fputc(' ', inner);
        sandbox_put_word(inner, "--env=", e->env[i]);
    }
    if (fclose(inner) != 0)
        return apir_error_sys(err, ENOMEM, "distrobox");
    fputs("--additional-flags ", out);
    sandbox_put_word(out, "", words);
    fputc('\n', out);
    return 0;
}

/* ---- sandboxes that are told of each file -------------------------------------------- */

static int write_nspawn(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    (void)err;
    fputs("[Exec]\n", out);
    for (size_t i = 0; i < e->n_env; i++)
        fprintf(out, "Environment=\"%s\"\n", e->env[i]);
    fputs("\n[Files]\n", out);
    for (size_t i = 0; i < e->n_nodes + e->n_mounts; i++) {
        const struct sandbox_place *p = i < e->n_nodes ? &e->nodes[i] : &e->mounts[i - e->n_nodes];
        fputs(p->read_only ? "BindReadOnly=" : "Bind=", out);
        sandbox_put_bind(out, p->from);
        fputc(':', out);
        sandbox_put_bind(out, p->to);
        fputc('\n', out);
    }
    return 0;
}

static void put_entry(FILE *out, const struct sandbox_place *p, const char *options)
{
    fputs("lxc.mount.entry = ", out);
    sandbox_put_fstab(out, p->from);
    fputc(' ', out);
    /* Below the container's root. */
    sandbox_put_fstab(out, p->to + strspn(p->to, "/"));
    fprintf(out, " none bind%s%s,create=%s,optional 0 0\n", p->read_only ? ",ro" : "", options,
            S_ISDIR(p->mode) ? "dir" : "file");
}

static int write_lxc(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    (void)err;
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct sandbox_place *p = &e->nodes[i];
        put_entry(out, p, "");
        fprintf(out, "lxc.cgroup2.devices.allow = %c %u:%u rw\n", S_ISBLK(p->mode) ? 'b' : 'c',
                major(p->rdev), minor(p->rdev));
    }
    for (size_t i = 0; i < e->n_mounts; i++)
        put_entry(out, &e->mounts[i], ",nosuid,nodev");
    for (size_t i = 0; i < e->n_env; i++)
        fprintf(out, "lxc.environment = %s\n", e->env[i]);
    return 0;
}

static int write_incus(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    (void)err;
    for (size_t i = 0; i < e->n_nodes + e->n_mounts; i++) {
        const bool node = i < e->n_nodes;
        const struct sandbox_place *p = node ? &e->nodes[i] : &e->mounts[i - e->n_nodes];
        fprintf(out, "incus config device add %s apir%zu %s ", e->name, i,
                node ? "unix-char" : "disk");
        sandbox_put_word(out, "source=", p->from);
        fputc(' ', out);
        sandbox_put_word(out, "path=", p->to);
        fputs(node ? " mode=0666\n" : p->read_only ? " readonly=true\n" : "\n", out);
    }
    for (size_t i = 0; i < e->n_env; i++) {
        const char *variable = e->env[i];
        fprintf(out, "incus config set %s ", e->name);
        /* An empty value would take the variable away. ggml-vulkan reads numbers: this is none. */
        sandbox_put_word(out, "environment.",
                         strcmp(variable, "GGML_VK_VISIBLE_DEVICES=") == 0
                             ? "GGML_VK_VISIBLE_DEVICES=none"
                             : variable);
        fputc('\n', out);
    }
    return 0;
}

static int write_apptainer(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    const char *gap = "";

    for (size_t i = 0; i < e->n_nodes + e->n_mounts; i++, gap = " ") {
        const struct sandbox_place *p = i < e->n_nodes ? &e->nodes[i] : &e->mounts[i - e->n_nodes];
        cleanup_free char *bind =
            apir_text_format("%s:%s%s", p->from, p->to, p->read_only ? ":ro" : "");
        if (!bind)
            return apir_error_sys(err, ENOMEM, "apptainer");
        fprintf(out, "%s--bind ", gap);
        sandbox_put_word(out, "", bind);
    }
    for (size_t i = 0; i < e->n_env; i++, gap = " ") {
        fprintf(out, "%s--env ", gap);
        sandbox_put_word(out, "", e->env[i]);
    }
    fputc('\n', out);
    return 0;
}

/* ---- sandboxes that have files of the host in places of their own -------------------- */

/* NAME=VALUE with what is seen inside of a path of this machine. */
typedef const char *inside_fn(const char *path);

static int put_seen(FILE *out, const char *before, const struct sandbox_edits *e, size_t i,
                    inside_fn *inside, struct apir_error *err)
{
    cleanup_free char *outside = NULL, *seen = NULL;
    int rc = sandbox_outside(e->edits, e->n_edits, e->env[i], &outside);
    const char *path = rc == 1 ? strchr(outside, '/') : NULL;

    if (path)
        seen = apir_text_format("%.*s%s%s", (int)(path - outside), outside, inside(path), path);
    if (rc < 0 || (path && !seen))
        return apir_error_sys(err, ENOMEM, "CDI spec");
    sandbox_put_word(out, before, seen ? seen : outside);
    return 0;
}

static const char *inside_toolbox(const char *path)
{
    (void)path;
    return "/run/host";
}

/* All of the host's files are below one folder, and its nodes in their places. */
static int write_toolbox(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    int rc = 0;

    fputs("env", out);
    for (size_t i = 0; rc == 0 && i < e->n_env; i++) {
        fputc(' ', out);
        rc = put_seen(out, "", e, i, inside_toolbox, err);
    }
    fputc('\n', out);
    return rc;
}

static bool is_below(const char *path, const char *const *folders)
{
    for (; *folders; folders++) {
        const size_t length = strlen(*folders);
        if (strncmp(path, *folders, length) == 0 && (path[length] == '/' || path[length] == '\0'))
            return true;
    }
    return false;
}

/* Where the runtime's own files are; the host's are elsewhere. */
static const char *inside_flatpak(const char *path)
{
    static const char *const os[] = {"/usr",   "/bin",    "/sbin",   "/lib", "/lib32",
                                     "/lib64", "/libx32", "/libo32", NULL};

    return is_below(path, os) ? "/run/host" : "";
}

static int write_flatpak(FILE *out, const struct sandbox_edits *e, struct apir_error *err)
{
    static const char *const never[] = {"/app", "/dev",         "/etc",      "/proc",
                                        "/sys", "/run/flatpak", "/run/host", NULL};
    const char *gap = e->n_nodes > 0 ? " " : "";
    bool os = false;
    int rc = 0;

    if (e->n_nodes > 0)
        fputs("--device=dri", out);
    for (size_t i = 0; i < e->n_mounts; i++) {
        const struct sandbox_place *p = &e->mounts[i];
        if (is_below(p->from, never))
            return apir_error_set(err, EINVAL,
                                  "flatpak lets nothing of %.200s in; have the plug-in elsewhere: "
                                  "apir cdi generate --plugin PATH",
                                  p->from);
        os = os || inside_flatpak(p->from)[0] != '\0';
        if (inside_flatpak(p->from)[0] != '\0')
            continue;
        cleanup_free char *file = apir_text_format("%s%s", p->from, p->read_only ? ":ro" : "");
        if (!file)
            return apir_error_sys(err, ENOMEM, "flatpak");
        fputs(gap, out);
        sandbox_put_word(out, "--filesystem=", file);
        gap = " ";
    }
    if (os)
        fprintf(out, "%s--filesystem=host-os:ro", gap);
    for (size_t i = 0; rc == 0 && i < e->n_env; i++) {
        fputc(' ', out);
        rc = put_seen(out, "--env=", e, i, inside_flatpak, err);
    }
    fputc('\n', out);
    return rc;
}

/* ---- the table ------------------------------------------------------------------------ */

const struct sandbox_format sandbox_formats[] = {
    {.name = "podman",
     .engine = "podman",
     .users = SANDBOX_USERS_ROOT,
     .where = "options of `podman run` and `podman create`",
     .write = write_podman},
    {.name = "docker",
     .engine = "docker",
     .users = SANDBOX_USERS_ROOT,
     .where = "options of `docker run` and `docker create`",
     .write = write_docker},
    {.name = "compose",
     .engine = "docker",
     .users = SANDBOX_USERS_ROOT,
     .where = "a file beside compose.yaml: docker compose -f compose.yaml -f FILE up",
     .write = write_compose},
    {.name = "quadlet",
     .engine = "podman",
     .users = SANDBOX_USERS_ROOT,
     .where = "apir.conf in NAME.container.d, beside NAME.container",
     .write = write_quadlet},
    {.name = "distrobox",
     .engine = "podman",
     .users = SANDBOX_USERS_SAME,
     .where = "an option of `distrobox create`",
     .sees_all = true,
     .write = write_distrobox},
    {.name = "toolbox",
     .users = SANDBOX_USERS_MAPPED,
     .where = "what stands before the program in `toolbox run`",
     .sees_all = true,
     .write = write_toolbox},
    {.name = "nspawn",
     .users = SANDBOX_USERS_MAPPED,
     .where = "/etc/systemd/nspawn/NAME.nspawn",
     .not_in_env = "\"\\", /* neither can be escaped there */
     .device_allow = true,
     .write = write_nspawn},
    {.name = "lxc",
     .users = SANDBOX_USERS_MAPPED,
     .where = "lines of /var/lib/lxc/NAME/config",
     .write = write_lxc},
    {.name = "incus",
     .users = SANDBOX_USERS_MAPPED,
     .where = "commands, before the container starts",
     .own_nodes = true,
     .write = write_incus},
    {.name = "flatpak",
     .users = SANDBOX_USERS_SAME,
     .where = "options of `flatpak run`, before the application",
     .not_in_paths = ":\\",
     .sees_all = true,
     .keeps_env = true,
     .write = write_flatpak},
    {.name = "apptainer",
     .users = SANDBOX_USERS_SAME,
     .where = "options of `apptainer exec` and `apptainer run`",
     .not_in_paths = ":,\\",
     .not_in_env = ",\"\\",
     .sees_all = true,
     .keeps_env = true,
     .write = write_apptainer},
    {0},
};

void sandbox_formats_print(void)
{
    puts("FORMAT:");
    for (const struct sandbox_format *f = sandbox_formats; f->name; f++)
        printf("  %-10s  %s\n", f->name, f->where);
    putchar('\n');
}

static int check_characters(const char *text, const char *not_in, const char *format,
                            struct apir_error *err)
{
    const char *found = not_in ? strpbrk(text, not_in) : NULL;

    return found ? apir_error_set(err, EINVAL,
                                  "\"%.200s\" cannot be written for %s, since it has a %c; write a "
                                  "spec without it (`apir cdi generate`)",
                                  text, format, *found)
                 : 0;
}

int sandbox_format_text(const struct sandbox_format *f, const struct sandbox_edits *e,
                        char **ret_text, struct apir_error *err)
{
    cleanup_free char *text = NULL;
    size_t size;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < e->n_env; i++)
        rc = check_characters(e->env[i], f->not_in_env, f->name, err);
    for (size_t i = 0; rc == 0 && i < e->n_nodes + e->n_mounts; i++) {
        const struct sandbox_place *p = i < e->n_nodes ? &e->nodes[i] : &e->mounts[i - e->n_nodes];
        rc = check_characters(p->from, f->not_in_paths, f->name, err);
        if (rc == 0)
            rc = check_characters(p->to, f->not_in_paths, f->name, err);
    }
    if (rc < 0)
        return rc;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return apir_error_sys(err, ENOMEM, "%s", f->name);
    rc = f->write(out, e, err);
    if (fclose(out) != 0 && rc == 0)
        rc = apir_error_sys(err, ENOMEM, "%s", f->name);
    if (rc == 0)
        *ret_text = steal_pointer(&text);
    return rc;
}
