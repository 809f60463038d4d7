/* SPDX-License-Identifier: Apache-2.0 */
/* What apir doctor looks at of container engines, beside the checks that check.h lists. */
#pragma once

#include "cdi/doctor/check.h"

enum doctor_status doctor_check_engine(struct doctor *d, const struct engine_ops *engine,
                                       struct doctor_outcome *o);
/* Where the engine's configuration is on this machine; its version must be known. */
struct cdi_engine_where doctor_engine_where(const struct doctor *d,
                                            const struct engine_ops *engine);

/* Whether /etc/subuid or /etc/subgid, as `path`, has a range for that user. */
bool doctor_subid_has(const char *path, const char *user, unsigned uid);
