/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of mounts, in /proc, which is the host's as long as a hook runs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct hook_mount {
    int id;
    uint64_t device; /* of the file system; also where stat's st_dev is a subvolume's */
    bool shared;     /* what is mounted below it shows elsewhere too */
};

/*
 * Opens a file of /proc to read. Anything but the kernel's own answer is none:
 * NULL, with errno ENOTSUP where something else is mounted there.
 */
FILE *hook_proc_open(const char *path);
void hook_file_close(FILE **file);
#define cleanup_file __attribute__((cleanup(hook_file_close)))

/* The mount that fd (O_PATH will do) is on, as our mount namespace has it. 0 or -errno. */
int hook_mount_of(int fd, struct hook_mount *ret);

/* All file systems that are mounted somewhere in our mount namespace. */
struct hook_devices {
    uint64_t *list;
    size_t n;
};

int hook_devices_read(struct hook_devices *ret);
bool hook_devices_have(const struct hook_devices *devices, uint64_t device);
void hook_devices_fini(struct hook_devices *devices);
#define cleanup_devices __attribute__((cleanup(hook_devices_fini)))
