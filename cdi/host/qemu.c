/* SPDX-License-Identifier: Apache-2.0 */
#include "common/c17.h"

#include "cdi/host/qemu.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/text.h"

#define VALUE_MAX    256u
#define HOSTMEM_GOOD (256ull << 20) /* each container takes at least 8 MiB of the window */

/* The devices that draw by virglrenderer; a command line may call each by any of its names. */
static const char *const gpus[] = {"virtio-gpu-gl-pci", "virtio-gpu-gl", "virtio-vga-gl",
                                   "virtio-gpu-gl-device"};

bool qemu_is(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;

    return strncmp(name, "qemu-system-", strlen("qemu-system-")) == 0 ||
           strcmp(name, "qemu-kvm") == 0 || strcmp(name, "kvm") == 0;
}

/* ---- one option's value ---------------------------------------------------------- */

/* "name,key=value,...": the first part is of the key `implied`; ",," is a comma. The last wins. */
static bool list_value(const char *text, const char *implied, const char *key, char *value)
{
    bool found = false;

    for (bool first = true; *text; first = false) {
        char part[VALUE_MAX];
        size_t n = 0;
        for (; *text && (*text != ',' || text[1] == ','); text++) {
            if (*text == ',')
                text++;
            if (n + 1 < sizeof(part))
                part[n++] = *text;
        }
        part[n] = '\0';
        text += *text == ',';
        char *equals = strchr(part, '=');
        if (equals)
            *equals = '\0';
        const char *name = first && !equals ? implied : part;
        if (strcmp(name, key) != 0)
            continue;
        /* A key alone is as good as key=on. */
        snprintf(value, VALUE_MAX, "%s", equals ? equals + 1 : name == implied ? part : "on");
        found = true;
    }
    return found;
}

/* The same of an object of JSON, which takes the place of such a list since QEMU 6. */
static bool json_value(const char *text, const char *key, char *value)
{
    cleanup_json struct json_object *object = NULL;

    if (apir_json_parse(text, strlen(text), &object, NULL) < 0)
        return false;
    struct json_object *member = json_object_object_get(object, key);
    if (!member)
        return false;
    if (json_object_is_type(member, json_type_boolean))
        snprintf(value, VALUE_MAX, "%s", json_object_get_boolean(member) ? "on" : "off");
    else
        snprintf(value, VALUE_MAX, "%s", json_object_get_string(member));
    return true;
}

/* value has room for VALUE_MAX. False: the option's value has no such key. */
static bool option_value(const char *text, const char *implied, const char *key, char *value)
{
    value[0] = '\0';
    return text[0] == '{' ? json_value(text, key, value) : list_value(text, implied, key, value);
}

static bool is_on(const char *value)
{
    return strcmp(value, "on") == 0 || strcmp(value, "yes") == 0 || strcmp(value, "true") == 0 ||
           strcmp(value, "y") == 0;
}

/* Bytes of "2G", "512M" or "4096"; 0 for what is no size. */
static uint64_t size_of(const char *value)
{
    static const char units[] = "BKMGTPE";
    char *end;
    const unsigned long long number = strtoull(value, &end, 10);

    if (end == value || value[0] == '-')
        return 0;
    if (*end == '\0')
        return number;
    for (unsigned i = 0; units[i]; i++) {
        if (strncasecmp(end, &units[i], 1) == 0 && end[1] == '\0')
            return number > UINT64_MAX >> 10 * i ? 0 : (uint64_t)number << 10 * i;
    }
    return 0;
}

/* ---- the command line ------------------------------------------------------------ */

/*
 * The value of the next option `name` ("device" for -device and --device) from argv[*i] on, which
 * is moved behind it; NULL: there is none. What stands behind another option and only looks like an
 * option is taken for one: no option of QEMU has such a value but by mistake.
 */
static const char *next_option(int n, char *const *argv, int *i, const char *name)
{
    while (*i + 1 < n) {
        const char *word = argv[(*i)++];
        if (word[0] != '-')
            continue;
        if (strcmp(word + (word[1] == '-' ? 2 : 1), name) == 0)
            return argv[(*i)++];
    }
    return NULL;
}

static bool has_word(int n, char *const *argv, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (argv[i][0] == '-' && strcmp(argv[i] + (argv[i][1] == '-' ? 2 : 1), name) == 0)
            return true;
    }
    return false;
}

/* Whether a -global sets something of a virtio device, as "virtio-gpu-gl-pci.blob=on" does. */
static bool has_global(int n, char *const *argv)
{
    int i = 0;

    for (const char *text; (text = next_option(n, argv, &i, "global"));) {
        if (strncmp(text, "virtio-", strlen("virtio-")) == 0)
            return true;
    }
    return false;
}

/* Of options of which the last takes the place of all others; NULL: there is none. */
static const char *last_option(int n, char *const *argv, const char *name)
{
    const char *last = NULL;
    int i = 0;

    for (const char *text; (text = next_option(n, argv, &i, name));)
        last = text;
    return last;
}

/* The value of `key` over all options of this name; the last wins. */
static bool last_value(int n, char *const *argv, const char *name, const char *implied,
                       const char *key, char *value)
{
    char one[VALUE_MAX];
    bool found = false;
    int i = 0;

    for (const char *text; (text = next_option(n, argv, &i, name));) {
        if (!option_value(text, implied, key, one))
            continue;
        memcpy(value, one, sizeof(one));
        found = true;
    }
    return found;
}

/* The value of the first -device that is one of gpus; *ret_name is its name there. */
static const char *find_gpu(int n, char *const *argv, const char **ret_name)
{
    char driver[VALUE_MAX];
    int i = 0;

    for (const char *text; (text = next_option(n, argv, &i, "device"));) {
        if (!option_value(text, "driver", "driver", driver))
            continue;
        for (size_t k = 0; k < sizeof(gpus) / sizeof(gpus[0]); k++) {
            if (strcmp(driver, gpus[k]) == 0) {
                *ret_name = gpus[k];
                return text;
            }
        }
    }
    return NULL;
}

bool qemu_draws_by_sdl(int n, char *const *argv)
{
    char type[VALUE_MAX];
    const char *display = last_option(n, argv, "display");

    return display && option_value(display, "type", "type", type) && strcmp(type, "sdl") == 0;
}

/* ---- what is found --------------------------------------------------------------- */

struct check {
    struct qemu_finding *findings;
    int n_findings;
    bool unsure; /* other options may set what the command line itself does not */
    int n;
    char *const *argv;
};

/* Adds a finding; what fails is a mere warning where it may be set by what was not looked into. */
__attribute__((format(printf, 5, 6))) static void found(struct check *c, const char *name,
                                                        enum qemu_status status, const char *add,
                                                        const char *fmt, ...)
{
    struct qemu_finding *f = &c->findings[c->n_findings++];
    va_list ap;

    f->name = name;
    f->status = status == QEMU_FAIL && c->unsure ? QEMU_WARN : status;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
    apir_text_clean(f->text);
    snprintf(f->add, sizeof(f->add), "%s", add);
}

static void check_flag(struct check *c, const char *device, const char *driver, const char *key,
                       const char *why)
{
    char value[VALUE_MAX], add[VALUE_MAX];

    if (option_value(device, "driver", key, value) && is_on(value)) {
        found(c, key, QEMU_PASS, "", "%s=on", key);
        return;
    }
    snprintf(add, sizeof(add), "%s=on, at -device %s", key, driver);
    found(c, key, QEMU_FAIL, add, "%s has no %s=on: %s", driver, key, why);
}

static void check_hostmem(struct check *c, const char *device, const char *driver)
{
    char value[VALUE_MAX], add[VALUE_MAX];
    const bool given = option_value(device, "driver", "hostmem", value);
    const uint64_t size = given ? size_of(value) : 0;

    snprintf(add, sizeof(add), "hostmem=2G, at -device %s", driver);
    if (size == 0)
        found(c, "hostmem", QEMU_FAIL, add,
              "%s has no hostmem: the memory that guest and host share has no place", driver);
    else if ((size & (size - 1)) != 0)
        found(c, "hostmem", QEMU_FAIL, add, "hostmem=%s is no power of two: QEMU refuses it",
              value);
    else if (size < HOSTMEM_GOOD)
        found(c, "hostmem", QEMU_WARN, add,
              "hostmem=%s is little: the containers of the VM share it, and transfers get slow "
              "where it is full",
              value);
    else
        found(c, "hostmem", QEMU_PASS, "", "hostmem=%s", value);
}

static void check_device(struct check *c)
{
    const char *driver = NULL;
    const char *device = find_gpu(c->n, c->argv, &driver);

    if (!device) {
        found(c, "device", QEMU_FAIL, "-device virtio-gpu-gl-pci,blob=on,venus=on,hostmem=2G",
              "no virtio-gpu device that draws by virglrenderer (its name has -gl)");
        return;
    }
    found(c, "device", QEMU_PASS, "", "%s", driver);
    check_flag(c, device, driver, "blob", "host and guest share no memory");
    check_flag(c, device, driver, "venus", "contexts like ours are not offered to the guest");
    check_hostmem(c, device, driver);
}

static void check_display(struct check *c)
{
    static const char add[] = "-display egl-headless (needs a render node of the host), or "
                              "-display sdl,gl=on, which takes none";
    char type[VALUE_MAX] = "", gl[VALUE_MAX] = "";
    const char *display = last_option(c->n, c->argv, "display");

    if (last_value(c->n, c->argv, "spice", "", "gl", gl) && is_on(gl)) {
        found(c, "display", QEMU_PASS, "", "-spice gl=on");
        return;
    }
    if (!display) {
        found(c, "display", QEMU_FAIL, add, "%s has no OpenGL, which the device asks for",
              has_word(c->n, c->argv, "nographic") ? "-nographic" : "the default display");
        return;
    }
    (void)option_value(display, "type", "type", type);
    if (option_value(display, "type", "gl", gl) ? strcmp(gl, "off") != 0
                                                : strcmp(type, "egl-headless") == 0)
        found(c, "display", QEMU_PASS, "", "-display %s with OpenGL", type);
    else if (strcmp(type, "none") == 0 || strcmp(type, "vnc") == 0)
        found(c, "display", QEMU_FAIL, add, "-display %s has no OpenGL", type);
    else
        found(c, "display", QEMU_FAIL, "gl=on, at -display", "-display %s has no gl=on", type);
}

/* The backend of the machine's memory: the one with this id, of whatever kind. */
static bool memory_is_shared(const struct check *c, const char *wanted)
{
    char id[VALUE_MAX], type[VALUE_MAX], share[VALUE_MAX];
    int i = 0;

    for (const char *text; (text = next_option(c->n, c->argv, &i, "object"));) {
        if (!option_value(text, "qom-type", "id", id) || strcmp(id, wanted) != 0)
            continue;
        /* A memfd is shared unless that is switched off. */
        return option_value(text, "qom-type", "qom-type", type) &&
               strcmp(type, "memory-backend-memfd") == 0 &&
               (!option_value(text, "qom-type", "share", share) || is_on(share));
    }
    return false;
}

static void check_memory(struct check *c)
{
    char id[VALUE_MAX] = "";

    if (!last_value(c->n, c->argv, "machine", "type", "memory-backend", id) &&
        !last_value(c->n, c->argv, "M", "type", "memory-backend", id))
        (void)last_value(c->n, c->argv, "numa", "type", "memdev", id);
    if (id[0] != '\0' && memory_is_shared(c, id))
        found(c, "memory", QEMU_PASS, "", "the guest's memory is a shared memfd");
    else
        found(c, "memory", QEMU_WARN,
              "-object memory-backend-memfd,id=mem,size=SIZE,share=on -machine memory-backend=mem",
              "the guest's memory is no shared memfd: APIR0 works, other blobs of the device "
              "(windows of Venus) may not");
}

/*
 * What QEMU denies itself holds for what it starts as well: with spawn=deny that is nothing at all,
 * and without it a worker is killed when it makes its own sandbox.
 */
static void check_sandbox(struct check *c)
{
    char on[VALUE_MAX] = "";

    if (last_value(c->n, c->argv, "sandbox", "enable", "enable", on) && is_on(on))
        found(
            c, "sandbox", QEMU_FAIL,
            "-sandbox off in the place of -sandbox on (libvirt: seccomp_sandbox = 0 in qemu.conf)",
            "-sandbox on holds for the server and its workers too, which then cannot make their "
            "own");
}

int qemu_check(int n, char *const *argv, struct qemu_finding *findings)
{
    struct check c = {
        .findings = findings,
        .unsure =
            has_word(n, argv, "readconfig") || has_word(n, argv, "set") || has_global(n, argv),
        .n = n,
        .argv = argv,
    };

    check_device(&c);
    check_display(&c);
    check_memory(&c);
    check_sandbox(&c);
    if (c.unsure)
        found(&c, "other", QEMU_WARN, "",
              "-readconfig, -global and -set were not looked into: what seems to be missing may be "
              "set there");
    return c.n_findings;
}
