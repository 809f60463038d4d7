/* SPDX-License-Identifier: Apache-2.0 */
/* Where the other parts lie, seen from this program: installed, or in a build tree. */
#pragma once

#include <stddef.h>

#define CDI_PLUGIN_SUBPATH "lib/apir/libggml-apir.so"
#define CDI_HOOK_SUBPATH   "libexec/apir/apir-hook"
#define CDI_SERVER_SUBPATH "libexec/apir/apir-render-server"
#define CDI_HOOKS_SUBDIR   "share/apir/hooks.d"
#define CDI_HOOKS_FILE     "90-apir-precreate.json"

/* The absolute path of the plug-in (the hook, the host side), or -ENOENT. Returns 0 or -errno. */
int cdi_install_find_plugin(char *path, size_t size);
int cdi_install_find_hook(char *path, size_t size);
int cdi_install_find_render_server(char *path, size_t size);

/*
 * The folder of the hooks.d file with the precreate stage, which podman reads where it is told
 * to; never one of a build tree.
 */
int cdi_install_find_hooks_dir(char *path, size_t size);

/* The user's configuration folder (XDG_CONFIG_HOME, else ~/.config), or NULL. */
const char *cdi_install_config_home(char *path, size_t size);
