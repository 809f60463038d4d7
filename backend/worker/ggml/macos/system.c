/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/ggml/system.h"

#include <dlfcn.h>
#include <mach-o/loader.h>
#include <string.h>
#include <sys/sysctl.h>

const char host_library_name[] = "libggml.dylib";

/* Its segments lie as far apart in memory as in the file; __TEXT begins with the header. */
bool host_range_find(const void *inside, struct host_range *ret_range)
{
    Dl_info info;
    if (!dladdr(inside, &info))
        return false;
    const struct mach_header_64 *header = info.dli_fbase;
    const uint8_t *at = (const uint8_t *)(header + 1);
    uintptr_t lo = UINTPTR_MAX, hi = 0, text = 0;
    for (uint32_t i = 0; i < header->ncmds; i++) {
        struct segment_command_64 s;
        struct load_command c;
        memcpy(&c, at, sizeof(c));
        if (c.cmd == LC_SEGMENT_64) {
            memcpy(&s, at, sizeof(s));
            lo = s.vmaddr < lo ? s.vmaddr : lo;
            hi = s.vmaddr + s.vmsize > hi ? s.vmaddr + s.vmsize : hi;
            text = strncmp(s.segname, SEG_TEXT, sizeof(s.segname)) == 0 ? s.vmaddr : text;
        }
        at += c.cmdsize;
    }
    const uintptr_t moved = (uintptr_t)header - text;
    *ret_range = (struct host_range){.lo = lo + moved, .hi = hi + moved};
    return hi > lo;
}

uint64_t host_machine_memory(void)
{
    uint64_t bytes = 0;
    size_t size = sizeof(bytes);
    return sysctlbyname("hw.memsize", &bytes, &size, NULL, 0) == 0 ? bytes : 0;
}

/* MADV_DONTNEED keeps what was in them here. */
bool host_pages_renew(void *data, size_t size)
{
    (void)data;
    (void)size;
    return false;
}
