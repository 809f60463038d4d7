/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ggml calls after dlopen. Declining is always safe: the program goes on
 * with its own devices. So everything that is not exactly as we know it declines,
 * with one line where the user has asked for us by giving us a device.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/ggml/choice.h"
#include "frontend/ggml/device.h"
#include "frontend/ggml/given.h"
#include "frontend/ggml/stream.h"
#include "frontend/graph/query.h"
#include "protocol/ggml_probe.h"
#include "protocol/gguf.h"
#include "protocol/unix.h"
#include "common/given.h"
#include "common/log.h"
#include "common/text.h"

#define EXPORT __attribute__((visibility("default")))

static struct os_lock entry_lock;
static bool entry_tried;
static const void *entry_ggml; /* ggml_backend_buffer_init of the ggml we serve */
static struct given given;     /* once, under entry_lock */

/* ---- finding the ggml that called us ------------------------------------------ */

/*
 * A library that was loaded RTLD_LOCAL (node's addons) is invisible to
 * RTLD_DEFAULT; a handle of the very object that called reaches it and what it
 * depends on.
 */
static void *caller_handle(void *return_address)
{
    Dl_info info;
    void *handle = NULL;
    if (dladdr(return_address, &info) && info.dli_fname)
        handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return handle ? handle : dlopen(NULL, RTLD_NOW);
}

#define NEED(member, name)                                                                         \
    do {                                                                                           \
        void *p_ = dlsym(handle, name);                                                            \
        if (!p_)                                                                                   \
            return apir_error_set(err, ENOTSUP, "this program's ggml hides %s", name);             \
        memcpy(&plugin.member, &p_, sizeof(p_));                                                   \
    } while (0)

#define MAY(member, name)                                                                          \
    do {                                                                                           \
        void *p_ = dlsym(handle, name);                                                            \
        memcpy(&plugin.member, &p_, sizeof(p_));                                                   \
    } while (0)

static int symbols_load(void *handle, struct apir_error *err)
{
    NEED(buffer_init, "ggml_backend_buffer_init");
    NEED(op_name, "ggml_op_name");
    NEED(unary_op_name, "ggml_unary_op_name");
    NEED(nbytes, "ggml_nbytes");
    NEED(blck_size, "ggml_blck_size");
    NEED(is_contiguous, "ggml_is_contiguous");
    MAY(glu_op_name, "ggml_glu_op_name");
    MAY(wants_room, "ggml_op_alloc_size_may_expand");
    return 0;
}

/* ---- the registration --------------------------------------------------------- */

static const char *reg_name(void *reg)
{
    (void)reg;
    return "APIR";
}

static size_t reg_device_count(void *reg)
{
    (void)reg;
    return plugin.n_devices;
}

static void *reg_device(void *reg, size_t index)
{
    (void)reg;
    return index < plugin.n_devices ? &plugin.devices[index] : NULL;
}

/* Whether some device of ours says so. */
static bool any_flag(uint32_t flag)
{
    uint32_t flags = 0;
    for (uint32_t i = 0; i < plugin.n_devices; i++)
        flags |= plugin.devices[i].info.flags;
    return flags & flag;
}

static void *reg_proc(void *reg, const char *name)
{
    void **(*extras)(void *) = plugin_device_extras;
    void (*threads)(void *, int) = plugin_stream_threads;
    void *fn = NULL;
    (void)reg;
    if (strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0)
        memcpy(&fn, &extras, sizeof(fn));
    else if (strcmp(name, "ggml_backend_set_n_threads") == 0 && any_flag(APIR_DEVICE_THREADS))
        memcpy(&fn, &threads, sizeof(fn));
    return fn;
}

/* One that this ggml has accepted; NULL: it has no more, or does not tell. */
static struct gg_reg *accepted(void *handle, size_t i)
{
    size_t (*count)(void);
    struct gg_reg *(*get)(size_t);
    void *p = dlsym(handle, "ggml_backend_reg_count"), *q = dlsym(handle, "ggml_backend_reg_get");
    memcpy(&count, &p, sizeof(p));
    memcpy(&get, &q, sizeof(q));
    return count && get && i < count() ? get(i) : NULL;
}

static int info_load(uint32_t device, struct apir_reply_device_info *info, struct apir_error *err)
{
    struct client *c = &plugin.client;
    struct apir_msg msg = {.code = APIR_MSG_DEVICE_INFO, .u.device_info = {.device = device}};
    int rc = client_call(c, &msg, &msg.u.device_info.reply, info, sizeof(*info));
    if (rc || info->status != APIR_OK)
        return apir_error_set(err, EIO, "%s: the host does not describe device %u",
                              c->transport.where, device);
    apir_text_accept(info->name, sizeof(info->name));
    apir_text_accept(info->description, sizeof(info->description));
    apir_text_accept(info->id, sizeof(info->id));
    if (info->n_extras > APIR_EXTRAS_MAX)
        return apir_error_set(err, EPROTO, "%s: device %u has %u extra buffer types",
                              c->transport.where, device, info->n_extras);
    for (uint32_t i = 0; i < info->n_extras; i++)
        apir_text_accept(info->extras[i], sizeof(info->extras[i]));
    /* Buffers begin where a page does: ggml ends a program whose tensors then have no room. */
    uint64_t a = info->alignment;
    if (a == 0 || (a & (a - 1)) != 0 || a > 4096)
        return apir_error_set(err, EPROTO, "%s: device %u has an alignment of %llu",
                              c->transport.where, device, (unsigned long long)a);
    return 0;
}

static void device_add(const struct apir_reply_device_info *info, uint32_t host_index)
{
    for (uint32_t i = 0; i < plugin.n_devices; i++) {
        if (plugin.devices[i].index == host_index)
            return;
    }
    struct plugin_device *d = &plugin.devices[plugin.n_devices];
    d->info = *info;
    plugin_device_init(d, plugin.n_devices++, host_index);
}

/* The chosen ones of the host's n devices, in the order of their numbers; all without a choice. */
static int devices_choose(const struct apir_reply_device_info *infos, uint32_t n,
                          struct apir_error *err)
{
    const char *where = plugin.client.transport.where;
    struct choice named[CHOICE_MAX], choices[CHOICE_MAX];
    const uint32_t n_named = choice_read(environ, named);
    const uint32_t n_choices = given_choose(&given, named, n_named, choices);
    uint32_t missing = 0;
    for (uint32_t i = 0; n_choices == 0 && i < n; i++)
        device_add(&infos[i], i);
    for (uint32_t i = 0; i < n_choices; i++) {
        int at = choice_find(&choices[i], infos, n);
        if (at >= 0)
            device_add(&infos[at], (uint32_t)at);
        else
            choices[missing++] = choices[i];
    }
    if (missing && plugin.n_devices == 0)
        return apir_error_set(err, ENOENT, "%s: the host has no device %.63s (APIR_DEVICE_%u)%s",
                              where, choices[0].id, choices[0].number,
                              missing > 1 ? " nor any other that was chosen" : "");
    for (uint32_t i = 0; i < missing; i++)
        apir_log(APIR_LOG_WARN,
                 "%s: the host has no device %.63s (APIR_DEVICE_%u); the others "
                 "are used",
                 where, choices[i].id, choices[i].number);
    return 0;
}

static int devices_load(struct apir_error *err)
{
    static struct apir_reply_device_info infos[APIR_DEVICES_MAX]; /* once, under entry_lock */
    uint32_t n = plugin.client.hello.n_devices;
    for (uint32_t i = 0; i < n; i++) {
        int rc = info_load(i, &infos[i], err);
        if (rc)
            return rc;
    }
    return devices_choose(infos, n, err);
}

/* As the variable says or, without one, where what this container was given is to be had. */
static const char *transport_choice(void)
{
    const char *choice = getenv("APIR_TRANSPORT");
    return given.host && (!choice || !*choice) ? "unix:" APIR_UNIX_PATH : choice;
}

/* ---- what the host must have ----------------------------------------------------- */

/* Only for an op that this ggml has, since a list of names has no end that could be seen. */
static int op_number(const char *name)
{
    int i = 0;
    while (strcmp(plugin.op_name(i), name) != 0)
        i++;
    return i;
}

static struct gg_tensor packed(int type, uint64_t element, int64_t columns, int64_t rows)
{
    const size_t row = element * (size_t)columns;
    return (struct gg_tensor){.type = type,
                              .ne = {columns, rows, 1, 1},
                              .nb = {element, row, row * (size_t)rows, row * (size_t)rows}};
}

/* A row of numbers goes into a cache of f16, as the smallest model would have it. */
static bool sets_rows(struct plugin_device *d, int op)
{
    struct gg_tensor row = packed(APIR_TYPE_F32, 4, 32, 1), index = packed(APIR_TYPE_I64, 8, 1, 1);
    struct gg_tensor cache = packed(APIR_TYPE_F16, 2, 32, 4);
    cache.op = op;
    cache.src[0] = &row;
    cache.src[1] = &index;
    struct apir_reply_op_query answer;
    return query_op(d, &cache, &answer) == 0 && (answer.flags & APIR_OP_SUPPORTED);
}

/*
 * Whether the host has what programs with this ggml take for granted of every device: llama.cpp
 * writes its cache by SET_ROWS since ggml has that op, without asking, and where the cache lies on
 * a device that cannot do it ggml aborts the process. 0, or -ENOTSUP and what the host lacks.
 */
static int check_needs(void *handle, struct apir_error *err)
{
    if (!dlsym(handle, "ggml_set_rows"))
        return 0;
    const int op = op_number("SET_ROWS");
    for (uint32_t i = 0; i < plugin.n_devices; i++) {
        struct plugin_device *d = &plugin.devices[i];
        if (!sets_rows(d, op))
            return apir_error_set(err, ENOTSUP,
                                  "%s: the host's ggml cannot write rows of a cache (SET_ROWS) on "
                                  "%s, which this program's ggml expects: it wants a newer one",
                                  plugin.client.transport.where, d->info.name);
    }
    return 0;
}

static int load(void *handle, struct apir_error *err)
{
    char why[256];
    int rc = ggml_probe_layout(dlsym, handle, &plugin.layout, why, sizeof(why));
    if (rc)
        return apir_error_set(err, -rc, "this program's ggml is not one that can be served (%s)",
                              why);
    rc = symbols_load(handle, err);
    if (rc)
        return rc;
    plugin.cores = os_cores();
    given_read(APIR_GIVEN_FOLDER, APIR_GIVEN_PLUGIN, &given);
    rc = client_open(&plugin.client, transport_choice(), err);
    if (rc)
        return rc;
    rc = devices_load(err);
    if (!rc)
        rc = check_needs(handle, err);
    if (rc)
        return rc;
    /* What this ggml calls its API. */
    const struct gg_reg *other = accepted(handle, 0);
    plugin.reg = (struct gg_reg){
        .api_version = other ? other->api_version : plugin.layout.api_version,
        .get_name = reg_name,
        .get_device_count = reg_device_count,
        .get_device = reg_device,
        .get_proc_address = reg_proc,
    };
    const bool own_cpu = client_has_own_cpu(&plugin.client, &plugin.devices[0].info);
    apir_log(APIR_LOG_INFO, "%s: %u device(s), first %s (%s%s); here %s, there %s",
             plugin.client.transport.where, plugin.n_devices, plugin.devices[0].info.name,
             plugin.devices[0].description, own_cpu ? ", this machine's own CPU" : "",
             plugin.layout.label, plugin.client.hello.host_ggml);
    return 0;
}

/*
 * The registration of ours that this ggml has already: made by this copy of the
 * plug-in or, from another file, by another one. The hook's slot and
 * GGML_BACKEND_PATH may both lead here, and a device must be listed once.
 */
static struct gg_reg *listed(void *handle)
{
    struct gg_reg *reg;
    for (size_t i = 0; (reg = accepted(handle, i)); i++) {
        if (reg == &plugin.reg || (reg->get_name && strcmp(reg->get_name(reg), "APIR") == 0))
            break;
    }
    return reg;
}

/*
 * Since 2026-04-28 ggml passes over a registration that it has. No function came with
 * that, but this one the week after.
 */
static bool lists_once(void *handle)
{
    return dlsym(handle, "ggml_mul_mat_set_hint");
}

static void *entry(void *return_address)
{
    enum apir_log_level level;
    if (apir_log_parse_level(getenv("APIR_LOG"), &level) == 0)
        apir_log_set_level(level);
    void *handle = caller_handle(return_address);
    void *ggml = handle ? dlsym(handle, "ggml_backend_buffer_init") : NULL;
    struct gg_reg *there = handle ? listed(handle) : NULL;
    if (there) {
        /* Of this plug-in, or of a copy: NULL would be an error to ggml, which prints it. */
        apir_log(APIR_LOG_INFO, "the device is listed already");
        return lists_once(handle) ? there : NULL;
    }
    if (entry_tried) {
        /* A second load_all of the same ggml gets the same registration. */
        if (plugin.n_devices && ggml == entry_ggml)
            return &plugin.reg;
        if (plugin.n_devices)
            apir_log(APIR_LOG_WARN, "a second ggml in this process is not served");
        return NULL;
    }
    entry_tried = true;
    entry_ggml = ggml;
    struct apir_error err = {0};
    int rc = handle ? load(handle, &err)
                    : apir_error_set(&err, ENOTSUP, "the program that loaded us cannot be found");
    if (rc == 0 && plugin.n_devices)
        return &plugin.reg;
    plugin.n_devices = 0;
    if (plugin.client.alive)
        transport_close(&plugin.client.transport);
    /* Without a virtio-gpu node nobody has asked for us: not a word. */
    if (rc != -ENODEV || *err.msg)
        apir_log(APIR_LOG_WARN, "%s; going on without the host's GPU",
                 *err.msg ? err.msg : "the host offers no device");
    else
        apir_log(APIR_LOG_INFO, "no virtio-gpu render node");
    return NULL;
}

/*
 * The copy that the hook has placed, under a name that ggml looks for, leaves the work to the
 * plug-in that the spec has mounted: a process has one of them then, which says once what is wrong,
 * and it is the machine's, however old the copy is. NULL: nothing is mounted, or we are that one.
 */
static void *(*mounted_init(void))(void)
{
    Dl_info own;
    struct stat st;
    void *(*init)(void) = NULL;
    if (!dladdr(&entry_lock, &own) || !own.dli_fname)
        return NULL;
    const char *slash = strrchr(own.dli_fname, '/');
    if (strcmp(slash ? slash : own.dli_fname, strrchr(APIR_GIVEN_PLUGIN, '/')) == 0 ||
        os_stat_link(AT_FDCWD, APIR_GIVEN_PLUGIN, &st) != 0 || !S_ISREG(st.st_mode) ||
        st.st_size == 0)
        return NULL;
    void *handle = dlopen(APIR_GIVEN_PLUGIN, RTLD_NOW);
    void *p = handle ? dlsym(handle, "ggml_backend_init") : NULL;
    memcpy(&init, &p, sizeof(init));
    return init;
}

/* A jump: who is called so finds ggml behind its return address. */
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define JUMP __attribute__((musttail))
#endif
#endif
#ifndef JUMP
#define JUMP /* what compilers do with -O2, without being asked */
#endif

EXPORT void *ggml_backend_init(void);
EXPORT int ggml_backend_score(void);

EXPORT void *ggml_backend_init(void)
{
    void *(*mounted)(void) = mounted_init();
    if (mounted)
        JUMP return mounted();
    void *caller = __builtin_return_address(0);
    os_lock_acquire(&entry_lock);
    void *reg = entry(caller);
    os_lock_release(&entry_lock);
    return reg;
}

/* Asked before init where several files fit one name: we are the only one. */
EXPORT int ggml_backend_score(void)
{
    return 1;
}
