/* SPDX-License-Identifier: Apache-2.0 */
/* Where the other parts lie, seen from this program: installed, or in a build tree. */
#ifndef APIR_CDI_INSTALL_H
#define APIR_CDI_INSTALL_H

#include <stddef.h>

#define CDI_PLUGIN_SUBPATH "lib/apir/libggml-apir.so"
#define CDI_HOOK_SUBPATH   "libexec/apir/apir-hook"

/* The absolute path of the plug-in (of the hook), or -ENOENT. Returns 0 or -errno. */
int cdi_install_find_plugin(char *path, size_t size);
int cdi_install_find_hook(char *path, size_t size);

#endif
