/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's Multi-Process Service: where its program is, and what CUDA's clients are told by. */
#pragma once

#include <stddef.h>

#include "backend/config/settings.h"
#include "common/error.h"

/* The folder of the daemon's sockets: the variable that CUDA reads. */
#define APIR_MPS_FOLDER_VARIABLE "CUDA_MPS_PIPE_DIRECTORY"
/* In that folder: what is asked for a server; and what the daemon writes last, once it listens. */
#define APIR_MPS_SOCKET "control"
#define APIR_MPS_READY  "nvidia-cuda-mps-control.pid"

/*
 * Where nvidia-cuda-mps-control is: "mps_control", or in one of the folders that distributions and
 * NVIDIA's installers put it in. Returns 0 or -errno with *err set, one line.
 */
int apir_config_mps_find(const struct apir_config *config, char *ret, size_t size,
                         struct apir_error *err);
