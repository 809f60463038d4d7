/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files, by Landlock. Right "execute" is given nowhere: it is execve's, loading a
 * library needs none. What is denied shows as EACCES in the driver's own message;
 * `strace -f -e trace=file` on the server, as root, names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/config/mps.h"
#include "backend/worker/sandbox/files.h"
#include "common/cleanup.h"
#include "common/file.h"

/* Of Landlock 9 and 10, where the headers are older. */
#ifndef LANDLOCK_ACCESS_FS_RESOLVE_UNIX
#define LANDLOCK_ACCESS_FS_RESOLVE_UNIX (1ULL << 16)
#endif
#ifndef LANDLOCK_ACCESS_NET_BIND_UDP
#define LANDLOCK_ACCESS_NET_BIND_UDP         (1ULL << 2)
#define LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP (1ULL << 3)
#endif

/* The kernel's struct as of version 6; a kernel takes any length if what it does not
 * know is zero. */
struct ruleset {
    uint64_t fs, net, scoped;
};

#define READ   (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define COMM   (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define DEVICE (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_IOCTL_DEV)
#define SOCKET (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_RESOLVE_UNIX)
#define WRITE                                                                                      \
    (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE |                          \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |  \
     LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REFER)
/* What a rule on something that is not a directory may name. */
#define OF_FILES                                                                                   \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |   \
     LANDLOCK_ACCESS_FS_TRUNCATE | LANDLOCK_ACCESS_FS_IOCTL_DEV | LANDLOCK_ACCESS_FS_RESOLVE_UNIX)

/* Patterns of glob(7); what is not there is passed over. */
static const struct {
    const char *pattern;
    uint64_t rights;
    const char *why;
} rules[] = {
    {"/usr", READ, "libraries, drivers and their data"},
    {"/lib", READ, "the same"},
    {"/lib64", READ, "the same"},
    {"/opt", READ, "vendors' stacks: ROCm, oneAPI"},
    {"/nix/store", READ, "libraries of NixOS"},
    {"/gnu/store", READ, "libraries of Guix"},
    {"/run/opengl-driver", READ, "drivers of NixOS"},
    {"/run/nvidia/driver", READ, "NVIDIA's driver in a container of its own"},
    {"/etc/ld.so.cache", READ, "the loader's"},
    {"/etc/alternatives", READ, "links to libraries"},
    {"/etc/vulkan", READ, "manifests of drivers and layers"},
    {"/etc/egl", READ, "NVIDIA's Vulkan is in its EGL library"},
    {"/etc/glvnd", READ, "the same"},
    {"/etc/OpenCL", READ, "manifests"},
    {"/etc/drirc", READ, "Mesa's settings"},
    {"/etc/nvidia*", READ, "the driver's settings and profiles"},
    {"/etc/localtime", READ, "time stamps of log lines"},

    {"/proc/self", READ, "maps, exe, own threads; of no other process"},
    /* The kernel lets a process write its own threads' comm. All else in there belongs to root, as
     * we are not dumpable; a worker that runs as root can write what is its own anyway. */
    {"/proc/self/task", COMM, "CUDA names its threads (comm), and gives up where it cannot"},
    {"/proc/cpuinfo", READ, "ggml and compilers ask for the CPU's features"},
    {"/proc/meminfo", READ, "memory of a device that is the CPU"},
    {"/proc/stat", READ, "the number of processors"},
    {"/proc/version", READ, "drivers look for their module's version"},
    {"/proc/modules", READ, "the same"},
    {"/proc/devices", READ, "NVIDIA's major numbers"},
    {"/proc/filesystems", READ, "libselinux, which some libraries pull in"},
    {"/proc/driver", READ, "NVIDIA's parameters and capabilities"},
    {"/proc/sys/vm", READ, "overcommit, the number of mappings"},
    {"/proc/sys/kernel", READ, "ids of thread and system"},
    {"/proc/sys/dev", READ, "Intel's performance counters: may they be used"},
    /* Of /sys the GPUs' own folders, which gpus_add finds, and what leads there. */
    {"/sys/class/drm", READ, "links to GPUs"},
    {"/sys/class/accel", READ, "links to accelerators"},
    {"/sys/class/kfd", READ, "a link to ROCm's topology"},
    {"/sys/dev/char", READ, "links from a node's number to its device"},
    {"/sys/bus/pci/devices", READ, "links to devices"},
    {"/sys/devices/system", READ, "processors and nodes of memory"},
    {"/sys/devices/virtual/kfd", READ, "ROCm's topology"},
    {"/sys/devices/soc0", READ, "which chip it is"},
    {"/sys/firmware/devicetree/base/compatible", READ, "the same"},
    {"/sys/firmware/devicetree/base/model", READ, "the same"},
    {"/sys/kernel/mm/transparent_hugepage", READ,
     "the C library, if GLIBC_TUNABLES asks for huge pages"},
    {"/sys/module/nvidia*/version", READ, "drivers look for their module's version"},
    {"/sys/module/nvidia*/initstate", READ, "the same"},
    {"/sys/module/nvidia*/parameters", READ, "the same"},
    {"/sys/module/amdgpu/version", READ, "the same"},
    {"/sys/module/amdgpu/initstate", READ, "the same"},
    {"/sys/module/amdgpu/parameters", READ, "the same"},

    {"/dev/null", DEVICE, ""},
    {"/dev/zero", DEVICE, ""},
    {"/dev/full", DEVICE, ""},
    {"/dev/random", READ, ""},
    {"/dev/urandom", READ, ""},
    {"/dev/dri", LANDLOCK_ACCESS_FS_READ_DIR, "which GPUs of the DRM there are"},
    /* Not card*, where who is first is the screen's master. */
    {"/dev/dri/renderD*", DEVICE, "GPUs of the DRM"},
    {"/dev/nvidia*", DEVICE, "NVIDIA's GPUs, control, memory, capabilities"},
    {"/dev/nvgpu*", DEVICE, "the same on Tegra"},
    {"/dev/nvhost*", DEVICE, "the same on Tegra"},
    {"/dev/nvmap", DEVICE, "the same on Tegra"},
    {"/dev/kfd", DEVICE, "ROCm"},
    {"/dev/accel", DEVICE, "accelerators of the DRM"},
    {"/dev/mali*", DEVICE, "Arm's GPUs"},
    {"/dev/kgsl*", DEVICE, "Qualcomm's GPUs"},
    {"/dev/dxg", DEVICE, "GPUs of WSL"},
    {"/dev/davinci*", DEVICE, "Ascend"},
    {"/dev/devmm_svm", DEVICE, "Ascend"},
    {"/dev/hisi_hdc", DEVICE, "Ascend"},
    {"/dev/mtgpu*", DEVICE, "Moore Threads"},
    {"/dev/udmabuf", DEVICE, "dma-bufs of memory"},
    {"/dev/dma_heap", DEVICE, "the same"},
    {"/run/nvidia-persistenced", SOCKET,
     "keeps NVIDIA's GPUs set up; asked while the driver loads"},
};

/* Variables of the server's environment, so of the host's operator, that name places to
 * read: absolute paths, with colons in between. */
static const char *const variables[] = {
    "LD_LIBRARY_PATH",
    "APIR_DRIVER_PATH",
    "GGML_BACKEND_DIR",
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_ADD_DRIVER_FILES",
    "VK_LAYER_PATH",
    "VK_ADD_LAYER_PATH",
    "VK_IMPLICIT_LAYER_PATH",
    "VK_ADD_IMPLICIT_LAYER_PATH",
    "__EGL_VENDOR_LIBRARY_DIRS",
    "__EGL_VENDOR_LIBRARY_FILENAMES",
    "OCL_ICD_VENDORS",
    "ROCM_PATH",
    "HIP_PATH",
    "CUDA_PATH",
};

struct restriction {
    int fd;
    uint64_t handled;
};

/* What is not there needs no rule. */
static int rule_add(const struct restriction *r, const char *path, uint64_t rights)
{
    cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    rights &= S_ISDIR(st.st_mode) ? r->handled : r->handled & OF_FILES;
    const struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    return syscall(SYS_landlock_add_rule, r->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno
                                                                                           : 0;
}

static int rules_add_listed(const struct restriction *r)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && !rc; i++) {
        if (!strchr(rules[i].pattern, '*')) {
            rc = rule_add(r, rules[i].pattern, rules[i].rights);
            continue;
        }
        glob_t found = {0};
        if (glob(rules[i].pattern, GLOB_NOSORT, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc && !rc; k++)
                rc = rule_add(r, found.gl_pathv[k], rules[i].rights);
        }
        globfree(&found);
    }
    return rc;
}

/* Display controllers (3), and accelerators (0x12): the class's upper byte, in hex after "0x". */
static bool pci_is_gpu(const char *device)
{
    char path[PATH_MAX], class[16];
    snprintf(path, sizeof(path), "%s/class", device);
    (void)apir_file_begin(path, class, sizeof(class));
    return strncmp(class, "0x03", 4) == 0 || strncmp(class, "0x12", 4) == 0;
}

/* What these links lead to is one device's folder: its memory, its clocks, its identity. */
static int gpus_add(const struct restriction *r)
{
    static const struct {
        const char *links;
        bool pci;
    } of[] = {
        {"/sys/bus/pci/devices/*", true},
        {"/sys/class/drm/*/device", false},
        {"/sys/class/accel/*/device", false},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]) && !rc; i++) {
        glob_t found = {0};
        if (glob(of[i].links, GLOB_NOSORT, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc && !rc; k++) {
                if (!of[i].pci || pci_is_gpu(found.gl_pathv[k]))
                    rc = rule_add(r, found.gl_pathv[k], READ);
            }
        }
        globfree(&found);
    }
    return rc;
}

static int rules_add_from_environment(const struct restriction *r)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);
        cleanup_free char *list = value ? strdup(value) : NULL;
        char *rest = list;
        for (char *path; !rc && rest && (path = strsep(&rest, ":"));) {
            if (path[0] == '/' && path[strspn(path, "/")])
                rc = rule_add(r, path, READ);
        }
    }
    return rc;
}

/* The folder that a file lies in: libraries have others beside them. */
static int rule_add_folder_of(const struct restriction *r, const char *file)
{
    cleanup_free char *path = file ? realpath(file, NULL) : NULL;
    char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash || slash == path)
        return 0;
    *slash = '\0';
    return rule_add(r, path, READ);
}

/* Of MPS the one socket where a client asks for a server, and not that of its operator beside it.
 * Before Landlock 9 there is no rule for sockets, and none is needed. */
static int rule_add_mps(const struct restriction *r, const struct apir_config *config)
{
    const char *folder = config->mps == APIR_CONFIG_OFF ? NULL : getenv(APIR_MPS_FOLDER_VARIABLE);
    char path[PATH_MAX];
    if (!folder || !(r->handled & LANDLOCK_ACCESS_FS_RESOLVE_UNIX) ||
        snprintf(path, sizeof(path), "%s/" APIR_MPS_SOCKET, folder) >= (int)sizeof(path))
        return 0;
    return rule_add(r, path, LANDLOCK_ACCESS_FS_RESOLVE_UNIX);
}

static int rules_add(const struct restriction *r, const struct apir_config *config,
                     const struct worker_caches *caches)
{
    int rc = rules_add_listed(r);
    if (!rc)
        rc = gpus_add(r);
    if (!rc)
        rc = rules_add_from_environment(r);
    /* The program, or the loader that has loaded it: an unpacked bundle is one folder. */
    if (!rc)
        rc = rule_add_folder_of(r, "/proc/self/exe");
    if (!rc)
        rc = rule_add_mps(r, config);
    if (!rc)
        rc = rule_add_folder_of(r, config->ggml);
    if (!rc && config->ggml_backends_dir)
        rc = rule_add(r, config->ggml_backends_dir, READ);
    for (size_t i = 0; i < config->sandbox_read.n && !rc; i++)
        rc = rule_add(r, config->sandbox_read.names[i], READ);
    for (size_t i = 0; i < config->sandbox_write.n && !rc; i++)
        rc = rule_add(r, config->sandbox_write.names[i], WRITE);
    for (size_t i = 0; i < caches->n && !rc; i++)
        rc = rule_add(r, caches->path[i], WRITE);
    return rc;
}

/* All that this version knows is denied, but for what a rule allows. */
static struct ruleset ruleset_for(int version)
{
    struct ruleset a = {.fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};
    if (version >= 2)
        a.fs |= LANDLOCK_ACCESS_FS_REFER;
    if (version >= 3)
        a.fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
    if (version >= 4)
        a.net |= LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP;
    if (version >= 5)
        a.fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
    if (version >= 6)
        a.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
    if (version >= 9)
        a.fs |= LANDLOCK_ACCESS_FS_RESOLVE_UNIX;
    if (version >= 10)
        a.net |= LANDLOCK_ACCESS_NET_BIND_UDP | LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP;
    return a;
}

int worker_files_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
        return 0;
    return version < 1 ? -errno : (int)version;
}

int worker_files_restrict(const struct apir_config *config, const struct worker_caches *caches,
                          struct apir_error *err)
{
    const int version = worker_files_version();
    if (version == 0)
        return 0;
    if (version < 0)
        return apir_error_sys(err, -version, "Landlock");
    const struct ruleset a = ruleset_for(version);
    cleanup_fd int fd = (int)syscall(SYS_landlock_create_ruleset, &a, sizeof(a), 0);
    if (fd < 0)
        return apir_error_sys(err, errno, "Landlock's ruleset");
    const struct restriction r = {.fd = fd, .handled = a.fs};
    int rc = rules_add(&r, config, caches);
    if (rc)
        return apir_error_sys(err, -rc, "Landlock's rules");
    if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return apir_error_sys(err, errno, "Landlock");
    return version;
}
