/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may crash, hang or print: in a child process, with an answer of a few bytes.
 */
#pragma once

#include <stddef.h>

enum cdi_child_end {
    CDI_CHILD_ANSWERED, /* the whole answer is there */
    CDI_CHILD_LATE,     /* it was killed when its time was over */
    CDI_CHILD_DIED,     /* no whole answer; text says what of */
};

/*
 * Forks, and calls work(answer, arg) in the child, whose stdout is stderr; what it has put into
 * the size bytes of `answer` (zero before) comes back, also where it dies. text gets one line where
 * that is no whole answer. The child ends without exit handlers, and with this process at the
 * latest.
 */
enum cdi_child_end cdi_child_run(void (*work)(void *answer, const void *arg), const void *arg,
                                 unsigned timeout_ms, void *answer, size_t size, char *text,
                                 size_t text_size);
