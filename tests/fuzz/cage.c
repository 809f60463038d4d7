/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/cage.h"

#include <ggml.h>

#include "common/log.h"
#include "tests/fuzz/fuzz.h"

jmp_buf cage;
bool cage_armed;

/* What ggml holds when an assert ends it in the middle of a computation is lost with that. */
FUZZ_DEFINE(const char *__lsan_default_suppressions(void))
{
    return "leak:ggml_graph_compute\n";
}

/* A copy onto itself or half onto itself spoils the guest's own data only. Aborted builders
 * and kernels leave things behind. */
FUZZ_DEFINE(const char *__asan_default_options(void))
{
    return "replace_intrin=0:detect_leaks=0:alloc_dealloc_mismatch=0";
}

static void on_abort(const char *message)
{
    (void)message;
    FUZZ_CHECK(cage_armed);
    cage_armed = false;
    longjmp(cage, 1);
}

void cage_load(struct host_ggml *hg)
{
    static const char *const devices[] = {"CPU", NULL};
    struct host_ggml_options options = {.devices = devices, .n_threads = 1};
    struct apir_error err = {0};
    apir_log_set_level(APIR_LOG_ERROR);
    if (host_ggml_load(hg, &options, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    FUZZ_CHECK(hg->n_devices == 1);
    ggml_set_abort_callback(on_abort);
}
