/* SPDX-License-Identifier: Apache-2.0 */
#include "common/oci/cdi_rules.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/json.h"
#include "common/oci/cdi_names.h"
#include "common/cleanup.h"
#include "common/text.h"

#define WHERE_MAX 256
#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))

void cdi_report_init(struct cdi_report *report)
{
    memset(report, 0, sizeof(*report));
}

void cdi_report_fini(struct cdi_report *report)
{
    for (size_t i = 0; i < report->n_kept; i++)
        free(report->items[i].text);
    cdi_report_init(report);
}

const char *cdi_report_first(const struct cdi_report *report)
{
    return report->n_kept > 0 ? report->items[0].text : "no memory";
}

void cdi_report_add(struct cdi_report *report, enum cdi_grade grade, const char *fmt, ...)
{
    va_list ap;

    report->n++;
    if (grade == CDI_GRADE_ERROR)
        report->n_errors++;
    if (report->n_kept == CDI_REPORT_MAX)
        return;
    va_start(ap, fmt);
    char *text = apir_text_vformat(fmt, ap);
    va_end(ap);
    if (text)
        report->items[report->n_kept++] = (struct cdi_finding){grade, text};
}

/* ---- versions --------------------------------------------------------------- */

/* In order: an index compares. */
static const char *const versions[] = {"0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0",
                                       "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
enum { V030 = 2, V040, V050, V060, V070, V080, V100, V110 };

static int version_index(const char *version)
{
    for (size_t i = 0; i < COUNT(versions); i++)
        if (strcmp(versions[i], version) == 0)
            return (int)i;
    return -1;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static bool has(struct json_object *object, const char *key)
{
    return json_object_is_type(object, json_type_object) &&
           json_object_object_get_ex(object, key, NULL);
}

static int edits_version(struct json_object *edits)
{
    int v = V030;
    struct json_object *list = apir_json_array(edits, "mounts");

    for (size_t i = 0; i < apir_json_length(list); i++)
        if (has(json_object_array_get_idx(list, i), "type"))
            v = max_int(v, V040);
    list = apir_json_array(edits, "deviceNodes");
    for (size_t i = 0; i < apir_json_length(list); i++)
        if (has(json_object_array_get_idx(list, i), "hostPath"))
            v = max_int(v, V050);
    if (has(edits, "additionalGids") || has(edits, "intelRdt"))
        v = max_int(v, V070);
    if (has(edits, "netDevices"))
        v = max_int(v, V110);
    struct json_object *rdt = apir_json_object(edits, "intelRdt");
    if (has(rdt, "schemata") || has(rdt, "enableMonitoring"))
        v = max_int(v, V110);
    return v;
}

const char *cdi_rules_lowest_version(struct json_object *spec)
{
    int v = edits_version(apir_json_object(spec, "containerEdits"));
    const char *kind = apir_json_string(spec, "kind");
    const char *slash = kind ? strchr(kind, '/') : NULL;
    struct json_object *devices = apir_json_array(spec, "devices");

    if (has(spec, "annotations") || (slash && strchr(slash, '.')))
        v = max_int(v, V060);
    for (size_t i = 0; i < apir_json_length(devices); i++) {
        struct json_object *device = json_object_array_get_idx(devices, i);
        const char *name = apir_json_string(device, "name");

        if (name && isdigit((unsigned char)name[0]))
            v = max_int(v, V050);
        if (has(device, "annotations"))
            v = max_int(v, V060);
        v = max_int(v, edits_version(apir_json_object(device, "containerEdits")));
    }
    return versions[v];
}

/* ---- shapes: which members an object may have ------------------------------- */

enum member_kind { M_STRING, M_INT, M_BOOL, M_STRINGS, M_INTS, M_MAP, M_OBJECT, M_OBJECTS };

struct shape;
struct member {
    const char *name;
    enum member_kind kind;
    bool required;
    long long min, max; /* of M_INT and M_INTS */
    const struct shape *inner;
};

typedef void (*shape_check)(struct cdi_report *, const char *where, struct json_object *);

struct shape {
    const struct member *members;
    size_t n;
    shape_check check; /* what goes beyond the type of each member; may be NULL */
};

static void error(struct cdi_report *r, const char *where, const char *text)
{
    cdi_report_add(r, CDI_GRADE_ERROR, "%s: %s", where, text);
}

static void warning(struct cdi_report *r, const char *where, const char *text)
{
    cdi_report_add(r, CDI_GRADE_WARNING, "%s: %s", where, text);
}

static bool is_absolute(const char *path)
{
    return path && path[0] == '/';
}

static void check_env(struct cdi_report *r, const char *where, struct json_object *env)
{
    for (size_t i = 0; i < apir_json_length(env); i++) {
        const char *s = apir_json_string_at(env, i);
        const char *equals = s ? strchr(s, '=') : NULL;

        if (!equals || equals == s)
            cdi_report_add(r, CDI_GRADE_ERROR, "%s.env[%zu]: \"%s\" is not NAME=VALUE", where, i,
                           s ? s : "");
    }
}

static void check_edits(struct cdi_report *r, const char *where, struct json_object *edits)
{
    check_env(r, where, apir_json_array(edits, "env"));
}

/* As the parsers see it: an empty list is no edit. */
static bool edits_nothing(struct json_object *edits)
{
    json_object_object_foreach(edits, key, value)
    {
        if (strcmp(key, "intelRdt") == 0 || apir_json_length(value) > 0)
            return false;
    }
    return true;
}

static void check_device_edits(struct cdi_report *r, const char *where, struct json_object *edits)
{
    if (edits_nothing(edits))
        error(r, where, "empty; a device must edit something");
    check_edits(r, where, edits);
}

static void check_node(struct cdi_report *r, const char *where, struct json_object *node)
{
    const char *path = apir_json_string(node, "path");
    const char *host_path = apir_json_string(node, "hostPath");
    const char *type = apir_json_string(node, "type");
    const char *permissions = apir_json_string(node, "permissions");

    if (path && path[0] == '\0')
        error(r, where, "path is empty");
    else if (path && !is_absolute(path))
        warning(r, where, "path is not absolute");
    if (type && type[0] != '\0' && (strlen(type) != 1 || !strchr("bcup", type[0])))
        error(r, where, "type is none of b, c, u, p");
    if (permissions && strspn(permissions, "rwm") != strlen(permissions))
        error(r, where, "permissions are made of r, w and m");
    if (host_path && path && strcmp(host_path, path) != 0)
        warning(r, where, "hostPath differs from path; rootless engines bind the node from path");
}

static void check_mount(struct cdi_report *r, const char *where, struct json_object *mount)
{
    const char *host_path = apir_json_string(mount, "hostPath");
    const char *container_path = apir_json_string(mount, "containerPath");
    struct json_object *options = apir_json_array(mount, "options");

    if ((host_path && host_path[0] == '\0') || (container_path && container_path[0] == '\0'))
        error(r, where, "an empty path");
    else if ((host_path && !is_absolute(host_path)) ||
             (container_path && !is_absolute(container_path)))
        warning(r, where, "a path that is not absolute");
    if (!apir_json_has_string(options, "rprivate") && !apir_json_has_string(options, "private"))
        warning(r, where,
                "no rprivate among the options; mounts may leak between host and container");
}

static void check_hook(struct cdi_report *r, const char *where, struct json_object *hook)
{
    static const char *const names[] = {"prestart",       "createRuntime", "createContainer",
                                        "startContainer", "poststart",     "poststop"};
    const char *name = apir_json_string(hook, "hookName");
    const char *path = apir_json_string(hook, "path");
    struct json_object *env = apir_json_array(hook, "env");
    bool known = false;

    for (size_t i = 0; name && i < COUNT(names); i++)
        known = known || strcmp(names[i], name) == 0;
    if (name && !known)
        error(r, where, "hookName is no stage of the OCI runtime");
    if (path && path[0] == '\0')
        error(r, where, "path is empty");
    else if (path && !is_absolute(path))
        warning(r, where, "path is not absolute");
    check_env(r, where, env);
    if (apir_json_length(env) == 0)
        warning(r, where, "env is empty; some runtimes then give the hook the image's environment");
}

#define S(name_, req)        {.name = (name_), .kind = M_STRING, .required = (req)}
#define I(name_, lo, hi)     {.name = (name_), .kind = M_INT, .min = (lo), .max = (hi)}
#define L(name_)             {.name = (name_), .kind = M_STRINGS}
#define OBJ(name_, req, sh)  {.name = (name_), .kind = M_OBJECT, .required = (req), .inner = (sh)}
#define OBJS(name_, req, sh) {.name = (name_), .kind = M_OBJECTS, .required = (req), .inner = (sh)}

static const struct member node_members[] = {
    S("path", true),
    S("hostPath", false),
    S("type", false),
    I("major", INT64_MIN, INT64_MAX),
    I("minor", INT64_MIN, INT64_MAX),
    I("fileMode", 0, UINT32_MAX),
    S("permissions", false),
    I("uid", 0, UINT32_MAX),
    I("gid", 0, UINT32_MAX),
};
static const struct shape node_shape = {node_members, COUNT(node_members), check_node};

static const struct member mount_members[] = {S("hostPath", true), S("containerPath", true),
                                              S("type", false), L("options")};
static const struct shape mount_shape = {mount_members, COUNT(mount_members), check_mount};

static const struct member hook_members[] = {S("hookName", true), S("path", true), L("args"),
                                             L("env"), I("timeout", 1, INT_MAX)};
static const struct shape hook_shape = {hook_members, COUNT(hook_members), check_hook};

static const struct member net_members[] = {S("hostInterfaceName", true), S("name", true)};
static const struct shape net_shape = {net_members, COUNT(net_members), NULL};

static void check_rdt(struct cdi_report *r, const char *where, struct json_object *rdt)
{
    const char *id = apir_json_string(rdt, "closID");

    /* It becomes the name of a folder. */
    if (id && (strlen(id) >= PATH_MAX || strcmp(id, ".") == 0 || strcmp(id, "..") == 0 ||
               strpbrk(id, "/\n")))
        error(r, where, "closID is no file name");
}

static const struct member rdt_members[] = {
    S("closID", false),
    S("l3CacheSchema", false),
    S("memBwSchema", false),
    L("schemata"),
    {.name = "enableMonitoring", .kind = M_BOOL},
    {.name = "enableCMT", .kind = M_BOOL},
    {.name = "enableMBM", .kind = M_BOOL},
};
static const struct shape rdt_shape = {rdt_members, COUNT(rdt_members), check_rdt};

#define EDITS_MEMBERS                                                                              \
    L("env"), OBJS("deviceNodes", false, &node_shape), OBJS("netDevices", false, &net_shape),      \
        OBJS("hooks", false, &hook_shape), OBJS("mounts", false, &mount_shape),                    \
        OBJ("intelRdt", false, &rdt_shape),                                                        \
    {                                                                                              \
        .name = "additionalGids", .kind = M_INTS, .min = 0, .max = UINT32_MAX                      \
    }
static const struct member edits_members[] = {EDITS_MEMBERS};
static const struct shape edits_shape = {edits_members, COUNT(edits_members), check_edits};
static const struct shape device_edits_shape = {edits_members, COUNT(edits_members),
                                                check_device_edits};

static const struct member device_members[] = {S("name", true),
                                               {.name = "annotations", .kind = M_MAP},
                                               OBJ("containerEdits", true, &device_edits_shape)};

static void check_device(struct cdi_report *r, const char *where, struct json_object *device)
{
    const char *name = apir_json_string(device, "name");

    if (!name)
        return;
    if (!cdi_names_device_ok(name))
        cdi_report_add(r, CDI_GRADE_ERROR, "%s: \"%s\" is no device name", where, name);
    else if (strcmp(name, "all") == 0 || strspn(name, "0123456789") == strlen(name))
        cdi_report_add(r, CDI_GRADE_WARNING,
                       "%s: a device called \"%s\" is taken for NVIDIA's by some tools", where,
                       name);
}
static const struct shape device_shape = {device_members, COUNT(device_members), check_device};

static void check_kind(struct cdi_report *r, const char *kind)
{
    const char *slash = strchr(kind, '/');
    cleanup_free char *vendor = slash ? strndup(kind, (size_t)(slash - kind)) : NULL;
    bool refused;

    if (!vendor) {
        cdi_report_add(r, CDI_GRADE_ERROR, "kind: \"%s\" is not VENDOR/CLASS", kind);
        return;
    }
    const char *fault = cdi_names_vendor_fault(vendor, &refused);
    if (fault)
        cdi_report_add(r, refused ? CDI_GRADE_ERROR : CDI_GRADE_WARNING, "kind: vendor \"%s\": %s",
                       vendor, fault);
    fault = cdi_names_class_fault(slash + 1, &refused);
    if (fault)
        cdi_report_add(r, refused ? CDI_GRADE_ERROR : CDI_GRADE_WARNING, "kind: class \"%s\": %s",
                       slash + 1, fault);
}

static void check_spec(struct cdi_report *r, const char *where, struct json_object *spec)
{
    const char *kind = apir_json_string(spec, "kind");
    const char *version = apir_json_string(spec, "cdiVersion");
    struct json_object *devices = apir_json_array(spec, "devices");
    size_t n = apir_json_length(devices);

    (void)where;
    if (kind)
        check_kind(r, kind);
    if (version) {
        const char *lowest = cdi_rules_lowest_version(spec);
        int index = version_index(version);

        if (index < 0)
            cdi_report_add(r, CDI_GRADE_ERROR, "cdiVersion: \"%s\" is not known", version);
        else if (index < version_index(lowest))
            cdi_report_add(r, CDI_GRADE_ERROR, "cdiVersion: %s is too low, this needs %s", version,
                           lowest);
        else if (index > version_index(lowest))
            cdi_report_add(r, CDI_GRADE_WARNING,
                           "cdiVersion: %s would do; %s shuts out older engines", lowest, version);
    }
    if (devices && n == 0)
        error(r, "devices", "none");
    /* A file may have tens of thousands: each is looked for, and not compared with all others. */
    cleanup_json struct json_object *names = json_object_new_object();
    for (size_t i = 0; i < n; i++) {
        const char *name = apir_json_string(json_object_array_get_idx(devices, i), "name");
        if (name && json_object_object_get_ex(names, name, NULL))
            cdi_report_add(r, CDI_GRADE_ERROR, "devices[%zu]: \"%s\" is there twice", i, name);
        else if (name && apir_json_set(names, name, json_object_new_boolean(1)) < 0)
            error(r, "devices", "no memory");
    }
}

static const struct member spec_members[] = {
    S("cdiVersion", true),
    S("kind", true),
    {.name = "annotations", .kind = M_MAP},
    OBJS("devices", true, &device_shape),
    OBJ("containerEdits", false, &edits_shape),
};
static const struct shape spec_shape = {spec_members, COUNT(spec_members), check_spec};

/* ---- the walk; its depth is that of the shapes, not of the document ---------- */

static void check_shape(struct cdi_report *, const char *, struct json_object *,
                        const struct shape *);

static bool is_string(struct json_object *value)
{
    return json_object_is_type(value, json_type_string) &&
           strlen(json_object_get_string(value)) == (size_t)json_object_get_string_len(value);
}

static bool is_int_within(struct json_object *value, const struct member *m)
{
    if (!json_object_is_type(value, json_type_int))
        return false;
    int64_t v = json_object_get_int64(value);
    return v >= m->min && v <= m->max;
}

static void check_list(struct cdi_report *r, const char *where, struct json_object *list,
                       const struct member *m)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *item = json_object_array_get_idx(list, i);
        char inner[WHERE_MAX];

        snprintf(inner, sizeof(inner), "%.200s[%zu]", where, i);
        if (m->kind == M_OBJECTS)
            check_shape(r, inner, item, m->inner);
        else if (m->kind == M_STRINGS && !is_string(item))
            error(r, inner, "not a string");
        else if (m->kind == M_INTS && !is_int_within(item, m))
            error(r, inner, "not a number in range");
    }
}

static void check_member(struct cdi_report *r, const char *where, struct json_object *value,
                         const struct member *m)
{
    switch (m->kind) {
    case M_STRING:
        if (!is_string(value))
            error(r, where, "not a string");
        break;
    case M_INT:
        if (!is_int_within(value, m))
            error(r, where, "not a number in range");
        break;
    case M_BOOL:
        if (!json_object_is_type(value, json_type_boolean))
            error(r, where, "neither true nor false");
        break;
    case M_STRINGS:
    case M_INTS:
    case M_OBJECTS:
        if (json_object_is_type(value, json_type_array))
            check_list(r, where, value, m);
        else
            error(r, where, "not a list");
        break;
    case M_MAP:
        if (!json_object_is_type(value, json_type_object)) {
            error(r, where, "not an object");
            break;
        }
        json_object_object_foreach(value, key, text)
        {
            if (!is_string(text))
                cdi_report_add(r, CDI_GRADE_ERROR, "%s.%s: not a string", where, key);
        }
        break;
    case M_OBJECT:
        check_shape(r, where, value, m->inner);
        break;
    }
}

/* Go's parsers do not tell upper case from lower; those of other languages do. */
static void unknown_field(struct cdi_report *r, const char *where, const char *key,
                          const struct shape *shape)
{
    for (size_t i = 0; i < shape->n; i++)
        if (strcasecmp(shape->members[i].name, key) == 0) {
            cdi_report_add(r, CDI_GRADE_ERROR, "%s: unknown field; is %s meant?", where,
                           shape->members[i].name);
            return;
        }
    error(r, where, "unknown field; parsers are strict and refuse the whole file");
}

static void check_shape(struct cdi_report *r, const char *where, struct json_object *object,
                        const struct shape *shape)
{
    char inner[WHERE_MAX];
    const char *dot = where[0] == '\0' ? "" : ".";

    if (!json_object_is_type(object, json_type_object)) {
        error(r, where[0] == '\0' ? "spec" : where, "not an object");
        return;
    }
    json_object_object_foreach(object, key, value)
    {
        const struct member *m = NULL;

        for (size_t i = 0; !m && i < shape->n; i++)
            if (strcmp(shape->members[i].name, key) == 0)
                m = &shape->members[i];
        snprintf(inner, sizeof(inner), "%.120s%s%.120s", where, dot, key);
        if (!m)
            unknown_field(r, inner, key, shape);
        else
            check_member(r, inner, value, m);
    }
    for (size_t i = 0; i < shape->n; i++)
        if (shape->members[i].required && !has(object, shape->members[i].name))
            cdi_report_add(r, CDI_GRADE_ERROR, "%s%s%s: missing", where, dot,
                           shape->members[i].name);
    if (shape->check)
        shape->check(r, where, object);
}

void cdi_rules_check(struct json_object *spec, struct cdi_report *report)
{
    check_shape(report, "", spec, &spec_shape);
}

bool cdi_rules_valid(struct json_object *spec)
{
    cleanup_report struct cdi_report report = {0};

    cdi_rules_check(spec, &report);
    return report.n_errors == 0;
}

/* ---- the machine -------------------------------------------------------------- */

static void check_path(struct cdi_report *r, const char *root, const char *what, const char *path,
                       int mode)
{
    char full[PATH_MAX];

    if (!is_absolute(path))
        return;
    if ((size_t)snprintf(full, sizeof(full), "%s%s", strcmp(root, "/") == 0 ? "" : root, path) >=
        sizeof(full))
        cdi_report_add(r, CDI_GRADE_ERROR, "%s %s: name too long", what, path);
    else if (faccessat(AT_FDCWD, full, mode, AT_EACCESS) < 0)
        cdi_report_add(r, CDI_GRADE_ERROR, "%s %s: %s", what, path, strerror(errno));
}

static void check_edits_host(struct cdi_report *r, const char *root, struct json_object *edits)
{
    static const struct {
        const char *list, *key, *what;
        int mode;
    } paths[] = {{"deviceNodes", "hostPath", "device node", F_OK},
                 {"mounts", "hostPath", "mount source", F_OK},
                 {"hooks", "path", "hook", X_OK}};

    for (size_t p = 0; p < COUNT(paths); p++) {
        struct json_object *list = apir_json_array(edits, paths[p].list);

        for (size_t i = 0; i < apir_json_length(list); i++) {
            struct json_object *item = json_object_array_get_idx(list, i);
            const char *path = apir_json_string(item, paths[p].key);

            check_path(r, root, paths[p].what, path ? path : apir_json_string(item, "path"),
                       paths[p].mode);
        }
    }
}

void cdi_rules_check_host(struct json_object *spec, const char *root, struct cdi_report *report)
{
    struct json_object *devices = apir_json_array(spec, "devices");

    check_edits_host(report, root, apir_json_object(spec, "containerEdits"));
    for (size_t i = 0; i < apir_json_length(devices); i++)
        check_edits_host(report, root,
                         apir_json_object(json_object_array_get_idx(devices, i), "containerEdits"));
}
