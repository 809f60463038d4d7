/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/fuzz/cage.h"

#include <ggml.h>
#include <sys/mman.h>

#include "common/log.h"
#include "tests/hostile/fuzz/fuzz.h"

jmp_buf cage;
bool cage_armed;

/* ---- memory --------------------------------------------------------------------------- */

#define PAGE ((size_t)4096)

static struct {
    uint8_t *map;
    size_t size; /* of the map, with both pages */
    const uint8_t *given;
} rooms[128];
enum { ROOMS = sizeof(rooms) / sizeof(rooms[0]) };

uint8_t *cage_alloc(size_t size, size_t align)
{
    const size_t used = (size + align - 1) & ~(align - 1);
    const size_t room = ((used + PAGE - 1) & ~(PAGE - 1)) + 2 * PAGE;
    size_t i = 0;
    while (i < ROOMS && rooms[i].map)
        i++;
    if (i == ROOMS)
        return NULL;
    uint8_t *map = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(map != MAP_FAILED);
    FUZZ_CHECK(mprotect(map + PAGE, room - 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
    uint8_t *given = map + room - PAGE - used;
    rooms[i].map = map;
    rooms[i].size = room;
    rooms[i].given = given;
    return given;
}

bool cage_free(const void *memory)
{
    for (size_t i = 0; i < ROOMS; i++) {
        if (!memory || rooms[i].given != memory)
            continue;
        munmap(rooms[i].map, rooms[i].size);
        rooms[i].map = NULL;
        rooms[i].given = NULL;
        return true;
    }
    return false;
}

/* ---- asserts -------------------------------------------------------------------------- */

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
