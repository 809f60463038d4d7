/* SPDX-License-Identifier: Apache-2.0 */
/* faults-walk: how it ends, for those that start it. */
#ifndef APIR_FAULTS_WALK_H
#define APIR_FAULTS_WALK_H

enum {
    WALK_RIGHT = 0,
    WALK_WRONG = 1,    /* a wrong result, or a promise broken */
    WALK_LOST = 3,     /* its host was lost, and it was told so */
    WALK_DECLINED = 4, /* there was no device from the beginning */
    WALK_REFUSED = 5,  /* one call failed; the context goes on, which was tried */
};

#endif
