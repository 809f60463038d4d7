/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Whether this process is root: of the machine, not of a container's user namespace. Rights that go
 * by user and not by capability stay with root whatever it gives up, and there are files of the
 * kernel that only root may read.
 */
bool apir_is_root(void);
