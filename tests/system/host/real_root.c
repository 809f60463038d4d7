/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real-root CMD...: makes the root directory, which may be a chroot's as the build root's is, the
 * root of a mount namespace of its own, and runs CMD in there. In a chroot the kernel makes no
 * user namespaces, and who enters a container's mount namespace comes out at the machine's root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void need(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "real-root: %s: %s\n", what, strerror(errno));
        exit(125);
    }
}

int main(int argc, char **argv)
{
    struct stat ours;
    struct stat top;
    char *cwd = getcwd(NULL, 0);
    if (argc < 2 || !cwd) {
        fprintf(stderr, "usage: real-root CMD...\n");
        return 125;
    }
    need(unshare(CLONE_NEWNS), "unshare");
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC); /* of the new namespace already */
    need(root, "/");
    need(fstat(root, &ours), "/");
    int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    need(ns, "/proc/self/ns/mnt");
    /* Where we are already; but it sets the root directory to the namespace's. */
    need(setns(ns, CLONE_NEWNS), "setns");
    need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    need(stat("/", &top), "/");
    if (ours.st_dev != top.st_dev || ours.st_ino != top.st_ino) {
        need(fchdir(root), "/");
        need((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
        need(umount2(".", MNT_DETACH), "umount");
    }
    need(chdir(cwd), cwd);
    execvp(argv[1], argv + 1);
    need(-1, argv[1]);
}
