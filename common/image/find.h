/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks through the places of an image where llama.cpp, its libraries, node's
 * addons and Python's wheels usually are, and looks into the ELF files that have
 * to do with ggml. Nothing is executed or trusted, every path is resolved inside
 * the root (common/image/rootfs.h), and folders, files, bytes and time are all bounded.
 */
#pragma once

#include "common/image/image.h"

/*
 * Fills *image, which must be as image_init left it (but for its limits), and concludes
 * for a plug-in of this machine. `also` are further folders of the image to look into
 * first (the container's working directory, say), n_also may be 0. Returns 0
 * (also where nothing is found) or -errno.
 */
int image_scan(int root, char *const *also, size_t n_also, uint16_t machine, struct image *image);

/* Whether fd, which can be read, is a plug-in of ours, of whatever version: by its DT_SONAME. */
bool image_find_is_plugin(int fd);

/*
 * The machine of the ELF file behind fd (the plug-in, O_PATH will do); our own
 * where it cannot be read, as in a mount namespace without /proc.
 */
uint16_t image_find_machine(int fd);
