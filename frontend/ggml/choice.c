/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/ggml/choice.h"

#include <stdbool.h>
#include <string.h>

static bool choice_parse(const char *variable, struct choice *ret_choice)
{
    static const char prefix[] = "APIR_DEVICE_";
    const char *p = variable + sizeof(prefix) - 1;
    uint32_t number = 0;
    int digits = 0;
    if (strncmp(variable, prefix, sizeof(prefix) - 1) != 0)
        return false;
    for (; *p >= '0' && *p <= '9' && digits < 9; p++, digits++)
        number = number * 10 + (uint32_t)(*p - '0');
    if (digits == 0 || p[0] != '=' || p[1] == '\0')
        return false;
    *ret_choice = (struct choice){number, p + 1};
    return true;
}

void choice_add(struct choice *choices, uint32_t *n, struct choice c)
{
    uint32_t at = *n < CHOICE_MAX ? (*n)++ : CHOICE_MAX;
    for (; at > 0 && choices[at - 1].number > c.number; at--) {
        if (at < CHOICE_MAX)
            choices[at] = choices[at - 1];
    }
    if (at < CHOICE_MAX)
        choices[at] = c;
}

uint32_t choice_read(char *const *environment, struct choice *choices)
{
    uint32_t n = 0;
    struct choice c;
    for (; environment && *environment; environment++) {
        if (choice_parse(*environment, &c))
            choice_add(choices, &n, c);
    }
    return n;
}

int choice_find(const struct choice *choice, const struct apir_reply_device_info *infos,
                uint32_t n_infos)
{
    for (uint32_t i = 0; i < n_infos; i++) {
        if (strncmp(infos[i].id, choice->id, sizeof(infos[i].id)) == 0)
            return (int)i;
    }
    return -1;
}
