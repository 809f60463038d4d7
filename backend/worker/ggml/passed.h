/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ggml opens the backends in its folder, and passes over one that does not load, or is made for
 * another version of it, without a word: a GPU is missing then, and nobody knows why.
 */
#pragma once

#include <stdint.h>

#include "common/log.h"

/* Says of each such backend in the folder why it is passed over, a line each. api_version: that of
 * the ggml that is loaded, and has looked there. The folder is the host's own: what lies there may
 * be opened. */
void host_passed_over(const char *folder, int32_t api_version, enum apir_log_level level);
