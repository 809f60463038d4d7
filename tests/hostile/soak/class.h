/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A class of containers in the soak: a server that listens, with limits of its own, and what is
 * seen of it from outside. Its own books are one of these only, and must not be above the limits
 * either.
 */
#ifndef APIR_SOAK_CLASS_H
#define APIR_SOAK_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What may be had of one thing, and what was. */
struct class_limit {
    const char *key; /* of the configuration */
    uint64_t most;   /* 0: no limit; MiB, but for contexts */
    uint64_t peak;   /* of all samples; bytes, but for contexts */
    long over;       /* samples above it */
};

enum {
    CLASS_CONTEXTS, /* rings that the server has mapped */
    CLASS_SHM,      /* memory that it has open, whoever else has */
    CLASS_DEVICE,   /* what clients say that they hold */
    CLASS_BOOKS,    /* what it has written down of any device */
    CLASS_LIMITS,
};

struct class
{
    const char *name;
    const char *const *kinds; /* of clients, up to NULL */
    bool lavapipe;            /* a GPU; else the CPU */
    struct class_limit limits[CLASS_LIMITS];

    char dir[64], socket[96], transport[128], log[96], limits_dir[96];
    pid_t server;
    long samples, contexts, refused;
};

/* The class with this number: of four, which are taken in turns. */
void class_init(struct class *c, uint32_t number);
/* Makes its folder and starts its server; returns once it listens. */
void class_start(struct class *c);
/* The server is held for as long as it takes. held: bytes of the device, as its clients say. */
void class_sample(struct class *c, uint64_t held);
/* Waits until nothing of a client is left; returns how much is, each named on stderr. */
long class_leaks(struct class *c);
/* Ends it and removes its folder. */
void class_stop(struct class *c);

#endif
