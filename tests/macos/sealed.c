/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that can be sealed, in place of POSIX' own: virglrenderer of Linux takes no other. */
#define _GNU_SOURCE
#include <sys/mman.h>

int __wrap_server_unnamed_create(void);

int __wrap_server_unnamed_create(void)
{
    return memfd_create("apir", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}
