/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls, by seccomp. Three answers: what the tables allow is done; what no
 * driver ever does, and an attacker would, ends the process; anything else is "not
 * implemented" (ENOSYS), which libraries take as an older kernel and go another way.
 *
 * Two filters, of which the stricter answer counts: in one filter a call cannot be
 * both allowed and, for some requests, refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/worker/sandbox/calls.h"

#define CALL(name) SCMP_SYS(name)

struct row {
    const char *why;
    int calls[40]; /* up to END */
};
#define END INT32_MAX /* 0 is a system call */

/* clang-format off */
/* Without a look at what they are called with. Of files, Landlock says which. */
static const struct row allowed[] = {
    { "memory; executable too, as drivers compile for the CPU",
      { CALL(munmap), CALL(mprotect), CALL(mremap), CALL(madvise), CALL(brk),
        CALL(mlock), CALL(mlock2), CALL(munlock), CALL(mincore), CALL(msync), CALL(membarrier),
        CALL(get_mempolicy), CALL(set_mempolicy), CALL(mbind), END } },
    { "files: devices, libraries that are loaded late, the shader cache",
      { CALL(open), CALL(openat), CALL(openat2), CALL(close), CALL(close_range), CALL(read),
        CALL(write), CALL(readv), CALL(writev), CALL(pread64), CALL(pwrite64), CALL(preadv),
        CALL(pwritev), CALL(lseek), CALL(stat), CALL(lstat), CALL(fstat), CALL(newfstatat),
        CALL(statx), CALL(statfs), CALL(fstatfs), CALL(access), CALL(faccessat), CALL(faccessat2),
        CALL(readlink), CALL(readlinkat), CALL(getdents64), CALL(getcwd), CALL(dup), CALL(dup2),
        CALL(dup3), CALL(fadvise64), END } },
    { "the shader cache is written, and memfds made as long as memory is to be",
      { CALL(ftruncate), CALL(fallocate), CALL(fsync), CALL(fdatasync), CALL(mkdir), CALL(mkdirat),
        CALL(unlink), CALL(unlinkat), CALL(rename), CALL(renameat), CALL(renameat2),
        CALL(copy_file_range), CALL(sendfile), END } },
    { "what drivers are: requests to devices. The second filter has the exceptions",
      { CALL(ioctl), END } },
    { "threads, of which compilers start some late, and their locks",
      { CALL(futex), CALL(futex_waitv), CALL(futex_wait), CALL(futex_wake), CALL(futex_requeue),
        CALL(set_robust_list), CALL(get_robust_list), CALL(rseq), CALL(set_tid_address),
        CALL(arch_prctl), CALL(gettid), CALL(exit), CALL(exit_group), CALL(sched_yield),
        CALL(sched_getaffinity), CALL(sched_getparam), CALL(sched_getscheduler),
        CALL(sched_get_priority_max), CALL(sched_get_priority_min), CALL(getpriority), END } },
    { "signals to handle; sending them is below",
      { CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigtimedwait),
        CALL(rt_sigsuspend), CALL(rt_sigpending), CALL(sigaltstack), CALL(signalfd4),
        CALL(restart_syscall), END } },
    /* Not epoll, which no driver needs: the kernel counts what is watched per user, of all its
     * processes together, and descriptors can be watched each with each. */
    { "time and waiting",
      { CALL(clock_gettime), CALL(clock_getres), CALL(clock_nanosleep), CALL(nanosleep),
        CALL(gettimeofday), CALL(time), CALL(times), CALL(poll), CALL(ppoll), CALL(select),
        CALL(pselect6), CALL(eventfd2), CALL(timerfd_create), CALL(timerfd_settime),
        CALL(timerfd_gettime), CALL(timer_create), CALL(timer_settime), CALL(timer_gettime),
        CALL(timer_delete), CALL(timer_getoverrun), CALL(pipe), END } },
    /* Who could send descriptors, even to itself, could keep so many on their way that the kernel lets
     * nobody else of this user send any: sendto has none. */
    { "the control socket: nothing of these makes or reaches another one",
      { CALL(recvmsg), CALL(sendto), CALL(recvfrom), CALL(getsockopt), CALL(getsockname),
        CALL(getpeername), END } },
    { "who and where we are",
      { CALL(getpid), CALL(getppid), CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid),
        CALL(getresuid), CALL(getresgid), CALL(getgroups), CALL(capget), CALL(uname),
        CALL(sysinfo), CALL(getcpu), CALL(getrusage), CALL(getrlimit), CALL(setrlimit),
        CALL(getrandom), END } },
};

/* The kernel's name of O_EXCL for pipe2. */
#define O_NOTIFICATION_PIPE O_EXCL

/* What no driver does, and a worker under foreign control would. */
static const struct row killed[] = {
    { "programs", { CALL(execve), CALL(execveat), END } },
    { "other processes",
      { CALL(ptrace), CALL(process_vm_readv), CALL(process_vm_writev), CALL(pidfd_getfd),
        CALL(pidfd_send_signal), END } },
    { "namespaces and mounts",
      { CALL(unshare), CALL(setns), CALL(mount), CALL(umount2), CALL(pivot_root), CALL(chroot),
        CALL(open_tree), CALL(move_mount), CALL(fsopen), CALL(fsconfig), CALL(fsmount),
        CALL(fspick), CALL(mount_setattr), END } },
    { "parts of the kernel with a history of holes",
      { CALL(bpf), CALL(io_uring_setup), CALL(io_uring_enter), CALL(io_uring_register),
        CALL(userfaultfd), CALL(keyctl), CALL(add_key), CALL(request_key), CALL(modify_ldt),
        CALL(vmsplice), CALL(perf_event_open), END } },
    { "the machine",
      { CALL(kexec_load), CALL(kexec_file_load), CALL(init_module), CALL(finit_module),
        CALL(delete_module), CALL(reboot), CALL(swapon), CALL(swapoff), CALL(iopl), CALL(ioperm),
        CALL(acct), CALL(quotactl), CALL(sethostname), CALL(setdomainname), CALL(settimeofday),
        CALL(clock_settime), CALL(open_by_handle_at), END } },
    { "another user's rights",
      { CALL(setuid), CALL(setgid), CALL(setreuid), CALL(setregid), CALL(setresuid),
        CALL(setresgid), CALL(setfsuid), CALL(setfsgid), CALL(setgroups), CALL(capset), END } },
};
/* clang-format on */

/*
 * Allowed for some values of their arguments. Only the bits of `mask` are compared:
 * the kernel takes an int's lower half, and whoever compared all 64 bits could be
 * fooled by the upper one.
 */
#define INT     UINT64_C(0xffffffff)
#define OURSELF UINT64_MAX /* our process id */
#define NEW_NAMESPACES                                                                             \
    ((uint64_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |      \
                CLONE_NEWPID | CLONE_NEWNET))

struct condition {
    int call;
    const char *why;
    struct {
        unsigned argument;
        uint64_t mask, value;
    } when[2]; /* all that have a mask */
};

/* clang-format off */
#define FCNTL(command)      { CALL(fcntl), "not those that send signals", { { 1, INT, command } } }
#define PRCTL(option, why)  { CALL(prctl), why, { { 0, INT, option } } }

static const struct condition conditions[] = {
    /* clone3 hides its flags in memory: it is ENOSYS, and the C library takes clone. */
    { CALL(clone), "threads, not processes", { { 0, CLONE_THREAD | NEW_NAMESPACES, CLONE_THREAD } } },
    { CALL(tgkill), "abort", { { 0, INT, OURSELF } } },
    { CALL(kill), "raise", { { 0, INT, OURSELF } } },
    { CALL(prlimit64), "our own limits", { { 0, INT, 0 } } },
    { CALL(sched_setaffinity), "our own thread", { { 0, INT, 0 } } },
    /* Huge pages that the operator has set aside are in no limit of memory (MemoryMax=). */
    { CALL(mmap), "no pages of hugetlbfs", { { 3, MAP_HUGETLB, 0 } } },
    { CALL(memfd_create), "the same", { { 1, MFD_HUGETLB, 0 } } },
    { CALL(pipe2), "no queue of the kernel's own notifications", { { 1, O_NOTIFICATION_PIPE, 0 } } },
    { CALL(kcmp), "Mesa: are two descriptors one device", { { 0, INT, OURSELF }, { 1, INT, OURSELF } } },
    PRCTL(PR_SET_NAME, "names of threads"),
    PRCTL(PR_GET_NAME, "the same"),
    PRCTL(PR_SET_VMA, "names of memory"),
    PRCTL(PR_SET_TIMERSLACK, "how exactly a thread sleeps"),
    PRCTL(PR_GET_DUMPABLE, "reads"),
    PRCTL(PR_GET_NO_NEW_PRIVS, "reads"),
    PRCTL(PR_GET_SECCOMP, "reads"),
    PRCTL(PR_CAPBSET_READ, "reads"),
    FCNTL(F_DUPFD),
    FCNTL(F_DUPFD_CLOEXEC),
    FCNTL(F_GETFD),
    FCNTL(F_SETFD),
    FCNTL(F_GETFL),
    { CALL(fcntl), "not O_ASYNC: signals", { { 1, INT, F_SETFL }, { 2, O_ASYNC, 0 } } },
    FCNTL(F_ADD_SEALS),
    FCNTL(F_GET_SEALS),
    FCNTL(F_GETPIPE_SZ),
};

/* Only where there is a shader cache, which drivers lock: who may read a file may lock it, and keep
 * others of the host waiting for it. */
static const struct condition locks[] = {
    { CALL(flock), "a cache", { { 0, 0, 0 } } },
    FCNTL(F_GETLK),
    FCNTL(F_SETLK),
    FCNTL(F_SETLKW),
    FCNTL(F_OFD_GETLK),
    FCNTL(F_OFD_SETLK),
    FCNTL(F_OFD_SETLKW),
};
/* clang-format on */

/* Requests that no GPU knows. Our standard error may be the operator's terminal. */
static const struct {
    uint64_t request;
    const char *why;
} refused_requests[] = {
    {TIOCSTI, "types into the terminal"},
    {TIOCLINUX, "pastes into the console"},
    {TIOCSETD, "loads line disciplines"},
    {TIOCSCTTY, "takes the terminal"},
    {TIOCCONS, "takes the console's output"},
    {TIOCSPGRP, "takes the terminal's foreground"},
    {FIOSETOWN, "signals to others, as fcntl's F_SETOWN"},
    {SIOCSPGRP, "the same"},
    {FIOASYNC, "the same"},
};

/* ---- filters ------------------------------------------------------------------------ */

static void filter_release(scmp_filter_ctx *filter)
{
    if (*filter)
        seccomp_release(*filter);
}

static int filter_begin(scmp_filter_ctx *ret_filter, uint32_t action)
{
    scmp_filter_ctx filter = seccomp_init(action);
    if (!filter)
        return -ENOMEM;
    /* Every thread gets it, or none. Calls of another kind of program (32 bits, x32) have
     * other numbers: they end the process. */
    int rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (!rc)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    /* Kernels before 5.16 slow filtered processes down, so that code cannot read in its own
     * process what it was not given. All in this process is one guest's. */
    if (!rc)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    if (rc)
        seccomp_release(filter);
    else
        *ret_filter = filter;
    return rc;
}

/* Of the newer calls some, and of the older ones many, do not exist on every machine. */
static bool call_exists(int call)
{
    return call >= 0;
}

static int rows_add(scmp_filter_ctx filter, const struct row *rows, size_t n, uint32_t action)
{
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        for (const int *call = rows[i].calls; *call != END && !rc; call++)
            rc = call_exists(*call) ? seccomp_rule_add_array(filter, action, *call, 0, NULL) : 0;
    }
    return rc;
}

static int conditions_add(scmp_filter_ctx filter, const struct condition *list, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        const struct condition *c = &list[i];
        struct scmp_arg_cmp compare[2];
        unsigned n = 0;
        for (; n < 2 && c->when[n].mask; n++) {
            uint64_t value = c->when[n].value;
            compare[n] = (struct scmp_arg_cmp){
                .arg = c->when[n].argument,
                .op = SCMP_CMP_MASKED_EQ,
                .datum_a = c->when[n].mask,
                .datum_b = value == OURSELF ? (uint64_t)getpid() : value,
            };
        }
        if (call_exists(c->call))
            rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, c->call, n, compare);
    }
    return rc;
}

static int requests_refuse(void)
{
    scmp_filter_ctx filter __attribute__((cleanup(filter_release))) = NULL;
    int rc = filter_begin(&filter, SCMP_ACT_ALLOW);
    for (size_t i = 0; i < sizeof(refused_requests) / sizeof(refused_requests[0]) && !rc; i++) {
        const struct scmp_arg_cmp request = {.arg = 1,
                                             .op = SCMP_CMP_MASKED_EQ,
                                             .datum_a = INT,
                                             .datum_b = refused_requests[i].request};
        rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), CALL(ioctl), 1, &request);
    }
    return rc ? rc : seccomp_load(filter);
}

int worker_calls_restrict(bool may_lock, struct apir_error *err)
{
    scmp_filter_ctx filter __attribute__((cleanup(filter_release))) = NULL;
    int rc = seccomp_api_get() < 2 ? -ENOSYS : 0; /* 2: TSYNC */
    if (!rc)
        rc = filter_begin(&filter, SCMP_ACT_ERRNO(ENOSYS));
    if (!rc)
        rc = rows_add(filter, allowed, sizeof(allowed) / sizeof(allowed[0]), SCMP_ACT_ALLOW);
    if (!rc)
        rc = rows_add(filter, killed, sizeof(killed) / sizeof(killed[0]), SCMP_ACT_KILL_PROCESS);
    if (!rc)
        rc = conditions_add(filter, conditions, sizeof(conditions) / sizeof(conditions[0]));
    if (!rc && may_lock)
        rc = conditions_add(filter, locks, sizeof(locks) / sizeof(locks[0]));
    /* First the one that still allows to load another. */
    if (!rc)
        rc = requests_refuse();
    if (!rc)
        rc = seccomp_load(filter);
    return rc ? apir_error_sys(err, -rc, "seccomp") : 0;
}
