/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stall DIR: mounts a file system on DIR whose root is a folder and which never answers anything
 * else. Whoever looks up a name in it hangs in the kernel, and no signal ends that, not even
 * SIGKILL, until this program ends. Prints "ready" when it is mounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static void answer(int fuse, uint64_t unique, void *data, size_t size)
{
    struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + size), .unique = unique};
    struct iovec parts[] = {{&head, sizeof(head)}, {data, size}};

    if (writev(fuse, parts, 2) < 0)
        die("answer");
}

int main(int argc, char **argv)
{
    static union {
        struct fuse_in_header head;
        char bytes[FUSE_MIN_READ_BUFFER + 4096];
    } in;
    char options[128];

    if (argc != 2)
        return 2;
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0)
        die("/dev/fuse");
    snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other",
             fuse);
    if (mount("stall", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0)
        die(argv[1]);
    puts("ready");
    fflush(stdout);
    for (;;) {
        ssize_t n = read(fuse, &in, sizeof(in));

        if (n < 0 && errno == ENODEV)
            return 0;
        if (n < (ssize_t)sizeof(in.head))
            die("read");
        if (in.head.opcode == FUSE_INIT) {
            struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                        .minor = FUSE_KERNEL_MINOR_VERSION,
                                        .max_write = 4096};

            answer(fuse, in.head.unique, &out, sizeof(out));
        } else if (in.head.opcode == FUSE_GETATTR && in.head.nodeid == FUSE_ROOT_ID) {
            struct fuse_attr_out out = {
                .attr_valid = 3600,
                .attr = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2, .blksize = 4096}};

            answer(fuse, in.head.unique, &out, sizeof(out));
        }
    }
}
