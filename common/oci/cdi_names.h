/* SPDX-License-Identifier: Apache-2.0 */
/* What CDI takes as a name of a vendor, a class, a device. */
#pragma once

#include <stdbool.h>

/*
 * What is wrong with a vendor or class, or NULL; static. *ret_refused: parsers refuse it; else it
 * is the specification that does, or a parser that does not survive it. Parsers want a letter
 * first, then [A-Za-z0-9_.-], alphanumeric last; the specification a DNS name as vendor, and at
 * most 63 characters as class.
 */
const char *cdi_names_vendor_fault(const char *name, bool *ret_refused);
const char *cdi_names_class_fault(const char *name, bool *ret_refused);

/* Device: alphanumeric first and last, [A-Za-z0-9_.:-] between. */
bool cdi_names_device_ok(const char *name);
