/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Takes item out of the list that begins at *first and goes on by `next`, where it is in it. */
#define SERVER_LIST_REMOVE(first, item)                                                            \
    do {                                                                                           \
        __typeof__(item) *at_ = (first);                                                           \
        while (*at_ && *at_ != (item))                                                             \
            at_ = &(*at_)->next;                                                                   \
        if (*at_)                                                                                  \
            *at_ = (item)->next;                                                                   \
    } while (0)
