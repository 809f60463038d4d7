/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "frontend/ggml/given.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

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
        g->host = true;
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

/* The socket goes before any node, as the variable that host0 sets does. */
static void keep_the_hosts(struct given *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_choices; i++) {
        if (g->choices[i].number >= APIR_GIVEN_HOST_FIRST)
            g->choices[n++] = g->choices[i];
    }
    g->n_choices = n;
}

void given_read(const char *folder, const char *plugin, struct given *ret)
{
    struct stat own, st;
    struct dirent *e;
    memset(ret, 0, sizeof(*ret));
    DIR *dir = os_stat_link(AT_FDCWD, plugin, &own) == 0 ? opendir(folder) : NULL;
    for (int i = 0; dir && i < NAMES_MAX && (e = readdir(dir)); i++) {
        if (os_stat_link(dirfd(dir), e->d_name, &st) == 0 && S_ISREG(st.st_mode) &&
            st.st_dev == own.st_dev && st.st_ino == own.st_ino)
            name_read(ret, e->d_name);
    }
    if (dir)
        closedir(dir);
    if (ret->host)
        keep_the_hosts(ret);
}
