/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host of the test's own in the link's place (frontend/link/client.h): it answers at once. What
 * it answers is the test's client_put_locked().
 */
#ifndef APIR_TEST_OWN_HOST_H
#define APIR_TEST_OWN_HOST_H

#include "frontend/plugin/plugin.h"

#define OWN_HOST_ARENA (1u << 16)

extern uint8_t own_host_arena[OWN_HOST_ARENA], own_host_replies[APIR_REPLY_SIZE];

/* The plug-in's client has both. */
void own_host_begin(void);

#endif
