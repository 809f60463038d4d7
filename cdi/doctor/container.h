/* SPDX-License-Identifier: Apache-2.0 */
/* apir doctor --container: what a running container was given, and whether its exec finds it. */
#pragma once

#include <stdbool.h>

/*
 * name: a container that podman or docker has. Nothing in it is run. Returns the exit code:
 * CDI_EXIT_OK where it has a device, CDI_EXIT_FAILED where it has none or cannot be looked into,
 * CDI_EXIT_USAGE for what cannot be a name.
 */
int cdi_doctor_container_main(const char *name, bool json);
