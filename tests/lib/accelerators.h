/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APIR_TEST_ACCELERATORS_H
#define APIR_TEST_ACCELERATORS_H

#include <stddef.h>

#include <ggml-backend.h>

/*
 * An accelerator such as BLAS takes large matrix products away from the CPU without being asked, in
 * every context. Its sums have another order, so who compares results does without.
 */
static inline void unload_accelerators(void)
{
    for (size_t i = 0; i < ggml_backend_dev_count();) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_ACCEL) {
            ggml_backend_unload(ggml_backend_dev_backend_reg(dev));
            i = 0;
        } else {
            i++;
        }
    }
}

#endif
