/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device is gpu0. A device keeps its number for as long as the spec names
 * it: the spec of before is all the memory there is.
 *
 * A device is (node, id): the id is the host's, the same at every boot; the node is
 * a path that may change. So a device is known again by both, else by its id, else
 * by its node where one side has no id (another version's spec, or --no-handshake).
 * What is known keeps its number. What is new gets the lowest number that no device
 * has, including that of one that is gone: a machine with one GPU calls it gpu0,
 * also after the GPU was exchanged or the VM moved to another host. A number is a
 * choice, not a permission.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cdi/spec/spec.h"

struct json_object;

#define CDI_DEVICES_MAX 256u
#define CDI_NUMBER_MAX  9999u

/*
 * The devices of a spec that have a number: those called gpu<number> with a node; or, if `host`,
 * host0-<number> with an id and no node (""). Any spec may come, valid or not. Fills known (room
 * for CDI_DEVICES_MAX), returns how many.
 */
size_t cdi_number_read(struct json_object *spec, bool host, struct cdi_spec_device *known);

/* Sets the number of each of found, no two of which are the same (node, id). */
void cdi_number_assign(struct cdi_spec_device *found, size_t n_found,
                       const struct cdi_spec_device *known, size_t n_known);
