/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/ggml/given.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/given.h"
#include "frontend/link/os.h"

#define NAMES_MAX 4096

/* Below APIR_GIVEN_HOST_FIRST, without zeros in front; moves on behind it. */
static bool number_read(const char **p, uint32_t *ret)
{
    uint32_t number = 0;
    const char *start = *p;
    for (; **p >= '0' && **p <= '9' && number < APIR_GIVEN_HOST_FIRST; (*p)++)
        number = number * 10 + (uint32_t)(**p - '0');
    if (*p == start || number >= APIR_GIVEN_HOST_FIRST || (*start == '0' && *p != start + 1))
        return false;
    *ret = number;
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* All of text as an id. */
static bool id_read(const char *text, char id[APIR_ID_SIZE])
{
    uint32_t n = 0;
    for (; *text; text++) {
        char c = *text;
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || strchr("._:-", c);
        if (!plain) {
            const int high = c == '%' ? digit(text[1]) : -1;
            const int low = high >= 0 ? digit(text[2]) : -1;
            if (low < 0 || (high | low) == 0)
                return false;
            c = (char)(high << 4 | low);
            text += 2;
        }
        if (n == APIR_ID_SIZE - 1)
            return false;
        id[n++] = c;
    }
    id[n] = '\0';
    return n > 0;
}

static void name_read(struct given *g, const char *name)
{
    static const struct {
        const char *prefix;
        uint32_t first;
    } kinds[] = {{APIR_GIVEN_GPU, 0}, {APIR_GIVEN_HOST_DEVICE, APIR_GIVEN_HOST_FIRST}};
    uint32_t number;
    if (strcmp(name, APIR_GIVEN_HOST) == 0)
        g->host = g->all = true;
    for (uint32_t i = 0; i < 2; i++) {
        const size_t n = strlen(kinds[i].prefix);
        const char *p = name + n;
        if (strncmp(name, kinds[i].prefix, n) != 0 || g->n_ids == GIVEN_MAX ||
            !number_read(&p, &number) || *p != '=' || !id_read(p + 1, g->ids[g->n_ids]))
            continue;
        g->host = g->host || kinds[i].first > 0;
        choice_add(g->choices, &g->n_choices,
                   (struct choice){kinds[i].first + number, g->ids[g->n_ids++]});
    }
}

void given_read(const char *folder, const char *plugin, struct given *ret)
{
    struct stat own, st;
    struct dirent *e;
    memset(ret, 0, sizeof(*ret));
    cleanup_dir DIR *dir = os_stat_link(AT_FDCWD, plugin, &own) == 0 ? opendir(folder) : NULL;
    for (int i = 0; dir && i < NAMES_MAX && (e = readdir(dir)); i++) {
        if (os_stat_link(dirfd(dir), e->d_name, &st) == 0 && S_ISREG(st.st_mode) &&
            st.st_dev == own.st_dev && st.st_ino == own.st_ino)
            name_read(ret, e->d_name);
    }
}

static bool has(const struct choice *choices, uint32_t n, uint32_t number, const char *id)
{
    for (uint32_t i = 0; i < n; i++) {
        if (choices[i].number == number && (!id || strcmp(choices[i].id, id) == 0))
            return true;
    }
    return false;
}

/* Whether the variables are those of the specs. Of two specs with one number the last has set it.
 */
static bool are_of_specs(const struct given *g, const struct choice *named, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!has(g->choices, g->n_choices, named[i].number, named[i].id))
            return false;
    }
    for (uint32_t i = 0; i < g->n_choices; i++) {
        if (!has(named, n, g->choices[i].number, NULL))
            return false;
    }
    return true;
}

uint32_t given_choose(const struct given *g, const struct choice *named, uint32_t n_named,
                      struct choice *ret)
{
    const bool of_spec = n_named == 0 || are_of_specs(g, named, n_named);
    const struct choice *all = of_spec ? g->choices : named;
    const uint32_t n_all = of_spec ? g->n_choices : n_named;
    bool sockets = of_spec && g->host;
    uint32_t n = 0;
    if (of_spec && g->all)
        return 0;
    for (uint32_t i = 0; i < n_all; i++)
        sockets = sockets || all[i].number >= APIR_GIVEN_HOST_FIRST;
    for (uint32_t i = 0; i < n_all; i++) {
        if (!sockets || all[i].number >= APIR_GIVEN_HOST_FIRST)
            ret[n++] = all[i];
    }
    return n;
}
