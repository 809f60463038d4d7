/* SPDX-License-Identifier: Apache-2.0 */
/* apir doctor --image: what the hook would find in an image. */
#pragma once

#include <stdbool.h>

/*
 * image: a folder, or the name of an image that podman has. Prints what its ggml
 * is and where the hook would place the plug-in. Returns the exit code:
 * CDI_EXIT_OK where at least one ggml takes it, CDI_EXIT_FAILED where none does
 * or the image cannot be looked into, CDI_EXIT_USAGE for what cannot be a name.
 */
int cdi_doctor_image_main(const char *image, bool json);
