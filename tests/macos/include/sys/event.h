/* SPDX-License-Identifier: Apache-2.0 */
/* As much of kqueue's interface as the files in posix/ use: kqueue.c has it for Linux. */
#ifndef APIR_TEST_SYS_EVENT_H
#define APIR_TEST_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

#define EVFILT_READ   (-1)
#define EVFILT_WRITE  (-2)
#define EVFILT_PROC   (-5)
#define EVFILT_SIGNAL (-6)

#define EV_ADD    0x0001
#define EV_DELETE 0x0002
#define EV_CLEAR  0x0020
#define EV_EOF    0x8000

#define NOTE_EXIT 0x80000000u

struct kevent {
    uintptr_t ident;
    int16_t filter;
    uint16_t flags;
    uint32_t fflags;
    intptr_t data;
    void *udata;
};

#define EV_SET(k, i, f, fl, ff, d, u)                                                              \
    (*(k) = (struct kevent){.ident = (i),                                                          \
                            .filter = (f),                                                         \
                            .flags = (uint16_t)(fl),                                               \
                            .fflags = (ff),                                                        \
                            .data = (d),                                                           \
                            .udata = (u)})

int kqueue(void);
int kevent(int queue, const struct kevent *changes, int n_changes, struct kevent *events,
           int n_events, const struct timespec *limit);

#endif
