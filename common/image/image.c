/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/image.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

#define SLOT_BIT(slot) (1u << (slot))

void image_init(struct image *image)
{
    memset(image, 0, sizeof(*image));
    image->limit_ms = IMAGE_FIND_MS;
    image->limit_entries = IMAGE_FIND_ENTRIES;
}

void image_fini(struct image *image)
{
    for (size_t i = 0; i < image->n; i++)
        apir_close_fd(&image->dirs[i].fd);
    image_init(image);
}

/* ---- does it fit ----------------------------------------------------------------- */

static enum image_verdict judge(const struct image *image, struct image_ggml *g, uint16_t machine)
{
    uint32_t all = image_ggml_functions_all(), has = g->file.functions;

    if (g->file.machine != machine || !g->file.wide)
        return IMAGE_FOREIGN;
    if (!g->file.loader)
        return IMAGE_NO_LOADER;
    if (!g->file.dynamic)
        return IMAGE_NOT_LINKED;
    /* Where libggml-base is not in the same folder it may be anywhere: no verdict. */
    uint32_t base = image->dirs[g->dir].functions;
    if (g->file.links_base && base == 0)
        has = all;
    has |= g->file.links_base ? base : 0;
    for (size_t i = 0; image_ggml_functions[i]; i++)
        if ((has & (1u << i)) == 0) {
            g->missing = image_ggml_functions[i];
            return IMAGE_HIDES;
        }
    if (g->kind == IMAGE_SHARED && g->file.links_cpu && !image->calls)
        return IMAGE_NOT_CALLED;
    if (g->file.slots == 0)
        return IMAGE_NO_SLOT;
    /* llama_backend_init calls the loader only where no backend is registered, and one that is
     * linked in is. */
    bool called = g->kind == IMAGE_SHARED && image->calls;
    return g->file.cpu && !called ? IMAGE_IF_CALLED : IMAGE_FITS;
}

bool image_ggml_fits(const struct image_ggml *g)
{
    return g->verdict == IMAGE_FITS || g->verdict == IMAGE_IF_CALLED;
}

/* ---- where to -------------------------------------------------------------------- */

static void add_target(struct image *image, size_t dir, const char *file, bool over)
{
    for (size_t i = 0; i < image->n_targets; i++)
        if (image->targets[i].dir == dir && strcmp(image->targets[i].file, file) == 0)
            return;
    if (image->n_targets == sizeof(image->targets) / sizeof(image->targets[0])) {
        image->truncated = true;
        return;
    }
    image->targets[image->n_targets++] =
        (struct image_target){.dir = dir, .file = file, .over = over};
}

/*
 * The name for this folder: one that every ggml which may search here knows. Where
 * Vulkan would offer the same GPU, and where "virtgpu" is upstream's, one that
 * is loaded before.
 */
static void aim(struct image *image, struct image_ggml *g, size_t dir, uint32_t common)
{
    static const enum image_slot any[] = {IMAGE_SLOT_VIRTGPU, IMAGE_SLOT_METAL, IMAGE_SLOT_SYCL};
    static const enum image_slot early[] = {IMAGE_SLOT_METAL, IMAGE_SLOT_SYCL, IMAGE_SLOT_VIRTGPU};
    const enum image_slot *order = image->vulkan || image->virtgpu ? early : any;
    uint32_t known = (common & ~image->dirs[dir].taken) != 0 ? common : g->file.slots;

    for (size_t i = 0; i < IMAGE_SLOTS; i++)
        if ((known & ~image->dirs[dir].taken & SLOT_BIT(order[i])) != 0) {
            add_target(image, dir, image_slot_file(order[i]), false);
            return;
        }
}

static size_t aim_all(struct image *image, struct image_ggml *g, uint32_t common,
                      bool (*wanted)(const struct image_dir *))
{
    size_t n = 0;

    for (size_t i = 0; i < image->n; i++)
        if (wanted(&image->dirs[i])) {
            aim(image, g, i, common);
            n++;
        }
    return n;
}

static bool has_modules(const struct image_dir *dir)
{
    return dir->modules;
}

static bool has_programs(const struct image_dir *dir)
{
    return dir->programs;
}

static bool has_interpreter(const struct image_dir *dir)
{
    return dir->interpreter;
}

/* Then what is beside the modules is beside the programs. */
static bool programs_have_modules(const struct image *image)
{
    for (size_t i = 0; i < image->n; i++)
        if (image->dirs[i].programs && image->dirs[i].modules)
            return true;
    return false;
}

static void aim_for(struct image *image, struct image_ggml *g, uint32_t common)
{
    bool own = image->dirs[g->dir].modules;
    size_t n = 0;

    switch (g->kind) {
    case IMAGE_IN_PROGRAM:
        aim(image, g, g->dir, common);
        break;
    case IMAGE_SHARED:
        if (g->has_compiled) {
            aim(image, g, g->compiled, common);
            break;
        }
        /* Folders of modules that the program names; and its own, which is always searched. */
        if (own)
            aim(image, g, g->dir, common);
        else if (!g->file.links_cpu)
            n = aim_all(image, g, common, has_modules);
        if (g->file.links_cpu || !programs_have_modules(image))
            n += aim_all(image, g, common, has_programs);
        if (!own && n == 0)
            aim_all(image, g, common, has_interpreter);
        break;
    case IMAGE_IN_LIBRARY:
    case IMAGE_IN_ADDON:
        /* The folder of the running program, or the one that an addon names: its own. */
        if (g->kind == IMAGE_IN_ADDON)
            aim(image, g, g->dir, common);
        else
            aim_all(image, g, common, has_programs);
        aim_all(image, g, common, has_interpreter);
        break;
    }
}

void image_conclude(struct image *image, uint16_t machine)
{
    uint32_t common = SLOT_BIT(IMAGE_SLOTS) - 1;

    image->n_targets = 0;
    image->vulkan = image->virtgpu = false;
    for (size_t i = 0; i < image->n; i++) {
        image->dirs[i].programs |= image->launched && image->dirs[i].launchers;
        image->vulkan = image->vulkan || image->dirs[i].vulkan;
        image->virtgpu = image->virtgpu || image->dirs[i].virtgpu[0] != '\0';
    }
    for (size_t i = 0; i < image->n_ggmls; i++) {
        struct image_ggml *g = &image->ggmls[i];

        g->verdict = judge(image, g, machine);
        if (image_ggml_fits(g))
            common &= g->file.slots;
    }
    for (size_t i = 0; i < image->n_ggmls; i++)
        if (image_ggml_fits(&image->ggmls[i]))
            aim_for(image, &image->ggmls[i], common);
    /* No copy of an earlier start stays as it was: it may be of another version. */
    for (size_t i = 0; i < image->n; i++)
        for (int slot = 0; slot < IMAGE_SLOTS; slot++)
            if ((image->dirs[i].ours & SLOT_BIT(slot)) != 0)
                add_target(image, i, image_slot_file((enum image_slot)slot), false);
    /* The image's own client of another protocol would open the same device. */
    for (size_t i = 0; i < image->n; i++)
        if (image->dirs[i].virtgpu[0] != '\0')
            add_target(image, i, image->dirs[i].virtgpu, true);
    if (image->early)
        image->n_targets = 0;
}

size_t image_fitting(const struct image *image)
{
    size_t n = 0;

    for (size_t i = 0; i < image->n_ggmls; i++)
        n += image_ggml_fits(&image->ggmls[i]);
    return n;
}

/* ---- in words -------------------------------------------------------------------- */

const char *image_ggml_kind_name(enum image_ggml_kind kind)
{
    static const char *const names[] = {
        [IMAGE_SHARED] = "shared library",
        [IMAGE_IN_PROGRAM] = "linked into a program",
        [IMAGE_IN_LIBRARY] = "linked into a library",
        [IMAGE_IN_ADDON] = "linked into an addon",
    };

    return names[kind];
}

void image_ggml_reason(const struct image_ggml *g, uint16_t machine, char *text, size_t size)
{
    char there[24];

    text[0] = '\0';
    switch (g->verdict) {
    case IMAGE_FITS:
        break;
    case IMAGE_IF_CALLED:
        snprintf(text, size,
                 "its CPU backend is linked in (GGML_BACKEND_DL off), so it looks for another only "
                 "if the program itself calls ggml_backend_load_all");
        break;
    case IMAGE_FOREIGN:
        snprintf(there, sizeof(there), "%s", image_elf_machine_name(g->file.machine));
        snprintf(text, size, "it is made for %s, the plug-in for %s", there,
                 image_elf_machine_name(machine));
        break;
    case IMAGE_NO_LOADER:
        snprintf(text, size,
                 "it has no loader of backends (older than November 2024, or left out)");
        break;
    case IMAGE_NOT_LINKED:
        snprintf(text, size, "it is linked statically and cannot load a library");
        break;
    case IMAGE_HIDES:
        snprintf(text, size, "it does not export %s, which a backend needs", g->missing);
        break;
    case IMAGE_NO_SLOT:
        snprintf(text, size,
                 "its loader looks for none of the names metal, sycl and virtgpu "
                 "(built without GGML_BACKEND_DL)");
        break;
    case IMAGE_NOT_CALLED:
        snprintf(text, size,
                 "its CPU backend is linked in (GGML_BACKEND_DL off) and no program "
                 "that was looked at calls its loader");
        break;
    }
}
