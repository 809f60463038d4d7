/* SPDX-License-Identifier: Apache-2.0 */
#include "common/oci/cdi_names.h"

#include <ctype.h>
#include <string.h>

static bool name_ok(const char *name, bool first_digit, const char *between)
{
    size_t n = strlen(name);

    if (n == 0 || !isascii((unsigned char)name[0]) || !isascii((unsigned char)name[n - 1]))
        return false;
    if (first_digit ? !isalnum((unsigned char)name[0]) : !isalpha((unsigned char)name[0]))
        return false;
    if (!isalnum((unsigned char)name[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isascii((unsigned char)name[i]) ||
            (!isalnum((unsigned char)name[i]) && !strchr(between, name[i])))
            return false;
    return true;
}

#define VENDOR_MAX 253
#define LABEL_MAX  63 /* of a vendor, and a class as a whole */

static bool is_dns_name(const char *name)
{
    while (true) {
        char label[LABEL_MAX + 1];
        size_t n = strcspn(name, ".");

        if (n > LABEL_MAX)
            return false;
        memcpy(label, name, n);
        label[n] = '\0';
        if (!name_ok(label, true, "-"))
            return false;
        if (name[n] == '\0')
            return true;
        name += n + 1;
    }
}

/* Of a vendor or a class: what is wrong, or NULL. *ret_refused: by every parser of CDI, not only by
 * some. */
static const char *kind_part_fault(const char *name, bool *ret_refused)
{
    *ret_refused = true;
    if (!name_ok(name, false, "_.-"))
        return "a letter first, then letters, digits and \"_.-\", a letter or digit last";
    *ret_refused = false;
    return name[1] == '\0'
               ? "one letter, which the parser of podman 5.8 and others does not survive"
               : NULL;
}

const char *cdi_names_vendor_fault(const char *name, bool *ret_refused)
{
    const char *fault = kind_part_fault(name, ret_refused);

    if (!fault && (strlen(name) > VENDOR_MAX || !is_dns_name(name)))
        return "no DNS name of at most 253 characters, which CDI wants";
    return fault;
}

const char *cdi_names_class_fault(const char *name, bool *ret_refused)
{
    const char *fault = kind_part_fault(name, ret_refused);

    return !fault && strlen(name) > LABEL_MAX ? "more than 63 characters" : fault;
}

bool cdi_names_device_ok(const char *name)
{
    return name_ok(name, true, "_.:-");
}
