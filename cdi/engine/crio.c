/* SPDX-License-Identifier: Apache-2.0 */
/* CRI-O takes CDI devices since 1.23, and has no setting that could turn that off. */
#include "cdi/engine/engine.h"

const struct engine_ops cdi_engine_crio = {
    .name = "crio",
    .title = "CRI-O",
    .programs = {"crio"},
    .first = {1, 23, 0},
    .older = "",
    .is_service = true,
};
