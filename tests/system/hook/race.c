/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race HOOK STAGE SECONDS DIR [HOOK-ARG]...
 *
 * Runs the hook over and over on a container whose root changes under its feet.
 * DIR has the image in rootfs/, a folder outside/ with the same folders in it, and a
 * config.json that asks for a device. One process swaps each component of the paths
 * that the hook touches for a link that leads outside, absolute or through "..", for
 * a link through /proc, a fifo, a device or a file, and back again. Each run has a
 * mount namespace of its own, as a runtime makes it; afterwards every mount in there
 * that was not there before must be below the root. The file that it places is taken away again,
 * so that each run has one to place. At the end nothing outside may have changed, neither files
 * nor the mounts of our own namespace.
 *
 * SECONDS 0: one run, and nothing is swapped; each new mount is printed, as "mount
 * POINT SOURCE" relative to the root, and the hook's exit code, which is ours too.
 *
 * With RACE_SHARED set the root's mount is a shared one.
 *
 * Otherwise prints what happened on one line. Exits 0 if all of it was allowed, 1 if not, 2
 * where the race did not take place (too few swaps, or nothing was ever placed).
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/lib/clock.h"

#define HOOK_SECONDS 20
#define TEXT_MAX     (1u << 20)

static const char *const targets[] = {
    "usr",
    "usr/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/ggml",
    "usr/lib/x86_64-linux-gnu/ggml/backends0",
    "usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-virtgpu.so",
    "usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-cpu-x64.so",
    "usr/lib/x86_64-linux-gnu/libggml.so.0",
    "usr/lib/apir",
    "usr/lib/apir/libggml-apir.so",
    "run",
    "run/apir",
    "run/apir/host",
    "dev",
    "dev/apir",
};
#define N_TARGETS (sizeof(targets) / sizeof(targets[0]))
#define SLOT_DIR  "usr/lib/x86_64-linux-gnu/ggml/backends0"
#define SLOT      "libggml-virtgpu.so"

static const char *hook, *stage, *dir;
static char **hook_args;
static bool once;
static char rootfs[256], outside[256];
static long *swaps; /* shared with the attacker */

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "race: %s: %s\n", what, strerror(errno));
    exit(3);
}

/* ---- the attacker ------------------------------------------------------ */

struct place {
    int dir; /* the true parent, whatever its name leads to meanwhile */
    char name[64], evil[80];
    const char *path;
};

static void place_open(struct place *p, const char *path)
{
    char full[512];
    const char *slash = strrchr(path, '/');

    snprintf(full, sizeof(full), "%s/%.*s", rootfs, slash ? (int)(slash - path) : 0, path);
    p->dir = open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (p->dir < 0)
        die(full);
    snprintf(p->name, sizeof(p->name), "%s", slash ? slash + 1 : path);
    snprintf(p->evil, sizeof(p->evil), "%s.evil", p->name);
    p->path = path;
}

static void make_evil(const struct place *p, unsigned kind)
{
    char to[768];

    (void)unlinkat(p->dir, p->evil, 0);
    switch (kind % 7) {
    case 0:
    case 1:
        snprintf(to, sizeof(to), "%s/%s", outside, p->path);
        break;
    case 2:
        snprintf(to, sizeof(to), "../../../../../../../../../../../..%s/%s", outside, p->path);
        break;
    case 3:
        snprintf(to, sizeof(to), "/proc/self/root%s/%s", outside, p->path);
        break;
    case 4:
        (void)mkfifoat(p->dir, p->evil, 0666);
        return;
    case 5:
        (void)mknodat(p->dir, p->evil, S_IFCHR | 0666, makedev(1, 3));
        return;
    default: {
        int fd = openat(p->dir, p->evil, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0)
            close(fd);
        return;
    }
    }
    if (symlinkat(to, p->dir, p->evil) != 0 && errno != EEXIST)
        die(p->evil);
}

/* From nothing to about a hundred microseconds: as long as some of the hook's steps. */
static void linger(void)
{
    static unsigned seed = 7;

    for (int n = rand_r(&seed) % 256; n > 0; n--)
        sched_yield();
}

static void swap(const struct place *p)
{
    /* What is not there yet gets the evil's name, and loses it again. */
    if (renameat2(p->dir, p->evil, p->dir, p->name, RENAME_EXCHANGE) == 0) {
        ++*swaps;
        linger();
        (void)renameat2(p->dir, p->evil, p->dir, p->name, RENAME_EXCHANGE);
    } else if (renameat2(p->dir, p->evil, p->dir, p->name, RENAME_NOREPLACE) == 0) {
        ++*swaps;
        linger();
        (void)unlinkat(p->dir, p->name, 0);
    }
}

_Noreturn static void attack(unsigned seed)
{
    struct place places[N_TARGETS];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < N_TARGETS; i++)
        place_open(&places[i], targets[i]);
    for (;;) {
        const struct place *p = &places[(unsigned)rand_r(&seed) % N_TARGETS];

        make_evil(p, (unsigned)rand_r(&seed));
        swap(p);
    }
}

/* ---- what may not change ------------------------------------------------ */

static char *text;

static int note(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    size_t used = strlen(text);

    (void)flag;
    (void)ftw;
    snprintf(text + used, TEXT_MAX - used, "%s %o %lld %lld %lld\n", path, st->st_mode,
             (long long)st->st_ino, (long long)st->st_size, (long long)st->st_mtime);
    return 0;
}

static char *files_of(const char *folder)
{
    text = calloc(1, TEXT_MAX);
    if (!text || nftw(folder, note, 16, FTW_PHYS) != 0)
        die(folder);
    return text;
}

static char *mounts_of_self(void)
{
    char *all = calloc(1, TEXT_MAX);
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n;

    if (!all || fd < 0)
        die("mountinfo");
    while ((n = read(fd, all + used, TEXT_MAX - 1 - used)) > 0)
        used += (size_t)n;
    close(fd);
    return all;
}

/* Mounts in `after` that `before` has not; *ret_bad of them are not below the root. */
static int new_mounts(const char *before, char *after, int *ret_bad)
{
    size_t length = strlen(rootfs);
    char *save = NULL;
    int n = 0;

    for (char *line = strtok_r(after, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char point[4096], source[4096];

        if (strstr(before, line))
            continue;
        n++;
        if (sscanf(line, "%*s %*s %*s %4095s %4095s", source, point) != 2 ||
            strncmp(point, rootfs, length) != 0 || point[length] != '/') {
            (*ret_bad)++;
            printf("outside the root: %s\n", line);
        } else if (once) {
            printf("mount %s %s\n", point + length, source);
        }
    }
    return n;
}

/* ---- one run ------------------------------------------------------------ */

/*
 * The hook's own part that looks into the image is a child of it: that it hung, or a signal ended
 * it, is in what the hook says.
 */
static bool says_it_failed(int said)
{
    static char words[65536];
    ssize_t n = pread(said, words, sizeof(words) - 1, 0);

    words[n < 0 ? 0 : n] = '\0';
    return n < 0 || strstr(words, "looking into the image has failed") ||
           strstr(words, "not waiting any longer");
}

/* Returns the hook's exit code, 128 and more: it hung, or a signal ended it. */
static int run_hook(pid_t pid)
{
    char state[2048];
    int ends[2], status = 0, said = memfd_create("said", MFD_CLOEXEC);
    int n = snprintf(state, sizeof(state),
                     "{\"ociVersion\":\"1.0\",\"id\":\"race\",\"pid\":%d,\"status\":\"created\","
                     "\"root\":\"%s\",\"bundle\":\"%s\"}",
                     (int)pid, rootfs, dir);

    if (pipe2(ends, O_CLOEXEC) != 0 || write(ends[1], state, (size_t)n) != n)
        die("pipe");
    close(ends[1]);
    pid_t child = fork();
    if (child == 0) {
        char *argv[32] = {(char *)"apir-hook", (char *)stage};
        for (int i = 0; hook_args[i] && i < 29; i++)
            argv[i + 2] = hook_args[i];
        dup2(ends[0], 0);
        if (!once)
            dup2(said, 2);
        alarm_patiently(HOOK_SECONDS);
        execv(hook, argv);
        _exit(127);
    }
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        die("hook");
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (said < 0 || says_it_failed(said))
        code = 255;
    close(said);
    return code;
}

struct outcome {
    int exit_code, mounts, bad;
};

/* The container's process: a mount namespace, the root bound over itself, as runtimes do. */
static void be_container(int from_runner, int to_runner)
{
    struct outcome o = {0};
    char go;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(rootfs, rootfs, NULL, MS_BIND | MS_REC, NULL) != 0 ||
        (getenv("RACE_SHARED") && mount(NULL, rootfs, NULL, MS_SHARED, NULL) != 0))
        die("mount namespace");
    char *before = mounts_of_self();
    if (strcmp(stage, "createContainer") == 0)
        o.exit_code = run_hook(0);
    if (write(to_runner, "r", 1) != 1 || read(from_runner, &go, 1) != 1)
        die("runner");
    char *after = mounts_of_self();
    o.mounts = new_mounts(before, after, &o.bad);
    fflush(stdout);
    if (write(to_runner, &o, sizeof(o)) != sizeof(o))
        die("runner");
    _exit(0);
}

static struct outcome run_once(void)
{
    struct outcome o = {.exit_code = -1};
    int down[2], up[2], code = 0;
    char ready;

    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        die("pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(down[1]);
        close(up[0]);
        be_container(down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    if (child < 0 || read(up[0], &ready, 1) != 1)
        die("container");
    if (strcmp(stage, "createContainer") != 0)
        code = run_hook(child);
    if (write(down[1], "g", 1) != 1 || read(up[0], &o, sizeof(o)) != sizeof(o))
        die("container");
    if (code != 0)
        o.exit_code = code;
    close(down[1]);
    close(up[0]);
    waitpid(child, NULL, 0);
    return o;
}

/* The true folder, before anything is swapped. */
static int open_slot(void)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/" SLOT_DIR, rootfs);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        die(path);
    return fd;
}

/* Whether the hook has placed the plug-in in this folder; it is gone then. */
static bool take_placed(int folder)
{
    struct stat st;

    return fstatat(folder, SLOT, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_size > 0 && unlinkat(folder, SLOT, 0) == 0;
}

int main(int argc, char **argv)
{
    long runs = 0, bad = 0, codes = 0, some = 0, most = 0, placed = 0;

    if (argc < 5) {
        fprintf(stderr, "usage: race HOOK STAGE SECONDS DIR [HOOK-ARG]...\n");
        return 3;
    }
    hook = argv[1];
    stage = argv[2];
    dir = argv[4];
    hook_args = argv + 5;
    snprintf(rootfs, sizeof(rootfs), "%s/rootfs", dir);
    snprintf(outside, sizeof(outside), "%s/outside", dir);
    signal(SIGPIPE, SIG_IGN);
    once = atoi(argv[3]) == 0;
    if (once) {
        struct outcome o = run_once();
        printf("exit %d\n", o.exit_code);
        return o.bad > 0 ? 99 : o.exit_code;
    }
    swaps = mmap(NULL, sizeof(*swaps), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (swaps == MAP_FAILED)
        die("mmap");

    cleanup_free char *files_before = files_of(outside), *mounts_before = mounts_of_self();
    cleanup_fd int slot = open_slot();
    pid_t attacker = fork();
    if (attacker == 0)
        attack(1);
    /* Longer where the machine has so little time for both that nothing was swapped or placed. */
    const int64_t end = now_ms() + atoi(argv[3]) * INT64_C(1000);
    for (int64_t now; (now = now_ms()) < end ||
                      ((*swaps <= runs || placed == 0) && now < end + patient_ms(60000));
         runs++) {
        struct outcome o = run_once();

        bad += o.bad;
        if (o.exit_code != 0) {
            codes++;
            printf("the hook's exit code was %d\n", o.exit_code);
        }
        const long file = take_placed(slot);
        some += o.mounts > 0 || file;
        placed += file;
        most = o.mounts > most ? o.mounts : most;
    }
    kill(attacker, SIGKILL);
    waitpid(attacker, NULL, 0);
    cleanup_free char *files_after = files_of(outside), *mounts_after = mounts_of_self();
    bool changed =
        strcmp(files_before, files_after) != 0 || strcmp(mounts_before, mounts_after) != 0;
    printf("race: %s: %ld runs, %ld swaps; %ld placed a file, %ld that or mounts (up to %ld), "
           "%ld nothing; %ld mounts outside, %ld failed%s\n",
           stage, runs, *swaps, placed, some, most, runs - some, bad, codes,
           changed ? "; files or mounts outside have CHANGED" : "");
    if (bad > 0 || codes > 0 || changed)
        return 1;
    return *swaps > runs && placed > 0 ? 0 : 2;
}
