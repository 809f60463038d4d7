/* SPDX-License-Identifier: Apache-2.0 */
/* apir doctor: NVIDIA's MPS, where the configuration of this machine's server asks for it. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/config/config.h"
#include "backend/config/mps.h"
#include "cdi/doctor/check.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#define MPS_PROGRAM "nvidia-cuda-mps-control"
#define MPS_PARENT  "apir-render-ser" /* as the kernel has its name */

/* ---- what the system shows -------------------------------------------------------- */

/* The first bytes of a file below the root, ended by a NUL; false: there is none. */
static bool mps_read(const struct doctor *d, const char *path, char *text, size_t size)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", d->root, path);
    return apir_file_begin(full, text, size) >= 0;
}

static size_t mps_count(const struct doctor *d, const char *pattern)
{
    char full[PATH_MAX];
    glob_t found = {0};
    snprintf(full, sizeof(full), "%s%s", d->root, pattern);
    const size_t n = glob(full, GLOB_NOSORT, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

/* The number behind `name` in /proc/PID/status, or -1. */
static long mps_status(const struct doctor *d, long pid, const char *name)
{
    char path[64], text[4096];
    snprintf(path, sizeof(path), "/proc/%ld/status", pid);
    const char *at = mps_read(d, path, text, sizeof(text)) ? strstr(text, name) : NULL;
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/* A control daemon that no server of ours has started. */
static bool mps_is_others(const struct doctor *d, long pid)
{
    char path[64], text[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
    if (!mps_read(d, path, text, sizeof(text)))
        return false;
    const char *slash = strrchr(text, '/');
    if (strcmp(slash ? slash + 1 : text, MPS_PROGRAM) != 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%ld/comm", mps_status(d, pid, "PPid:"));
    return !mps_read(d, path, text, sizeof(text)) ||
           strncmp(text, MPS_PARENT, strlen(MPS_PARENT)) != 0;
}

/* The pid of such a one, or 0. */
static long mps_others(const struct doctor *d)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s/proc", d->root);
    cleanup_dir DIR *dir = opendir(full);
    long found = 0;
    for (const struct dirent *e; dir && !found && (e = readdir(dir));) {
        const long pid = strtol(e->d_name, NULL, 10);
        if (pid > 0 && mps_is_others(d, pid))
            found = pid;
    }
    return found;
}

static bool mps_offers_cuda(const struct doctor *d)
{
    for (unsigned i = 0; i < d->session.n_devices; i++) {
        if (strncmp(d->session.devices[i].name, "CUDA", 4) == 0)
            return true;
    }
    return false;
}

/* ---- the check --------------------------------------------------------------------- */

/* What follows from there being no MPS. */
static enum doctor_status mps_cannot(struct doctor_outcome *o, const struct apir_config *config,
                                     const char *why)
{
    return config->mps == APIR_CONFIG_REQUIRED
               ? doctor_say(o, DOCTOR_FAIL, "required, so no program computes: %.400s", why)
               : doctor_say(o, DOCTOR_WARN, "auto, so programs compute without: %.400s", why);
}

static enum doctor_status mps_judge(const struct doctor *d, struct doctor_outcome *o,
                                    const struct apir_config *config)
{
    struct apir_error err = {0};
    char program[PATH_MAX], version[64];
    const size_t gpus = mps_count(d, "/dev/nvidia[0-9]*");

    doctor_todo(o, "Install NVIDIA's driver and a ggml with a CUDA backend, or set \"mps\" to "
                   "\"off\".");
    if (!mps_read(d, "/proc/driver/nvidia/version", version, sizeof(version)))
        return mps_cannot(o, config, "this machine has no NVIDIA driver, and MPS is CUDA's");
    if (gpus == 0)
        return mps_cannot(o, config, "NVIDIA's driver has no GPU here (/dev/nvidia0)");
    if (d->socket && d->session.passed >= CDI_SESSION_DEVICES && !mps_offers_cuda(d))
        return mps_cannot(o, config, "none of the host's devices is CUDA's");
    doctor_todo(o, "Install " MPS_PROGRAM " (a package of NVIDIA's driver has it), or name it with "
                   "\"mps_control\".");
    if (apir_config_mps_find(config, program, sizeof(program), &err) < 0)
        return mps_cannot(o, config, err.msg);
    if (mps_count(d, "/proc/driver/nvidia/capabilities/gpu*/mig/gi*") > 0) {
        doctor_todo(o, "nvidia-smi -mig 0, as root, switches MIG off; to keep it, set \"mps\" to "
                       "\"off\".");
        return doctor_say(o, DOCTOR_WARN,
                          "MIG divides a GPU of this machine; apir was not run with both");
    }
    const long others = mps_others(d);
    if (others) {
        doctor_todo(o, "End the other one (echo quit | " MPS_PROGRAM ", as its user): its programs "
                       "and ours get slices of the GPU in turn.");
        return doctor_say(o, DOCTOR_WARN,
                          "another " MPS_PROGRAM " than our server's runs: process %ld, user %ld",
                          others, mps_status(d, others, "Uid:"));
    }
    return doctor_say(o, DOCTOR_PASS, "%s: %.300s, %zu GPU%s of NVIDIA's driver",
                      config->mps == APIR_CONFIG_REQUIRED ? "required" : "auto", program, gpus,
                      gpus == 1 ? "" : "s");
}

enum doctor_status doctor_check_mps(struct doctor *d, struct doctor_outcome *o)
{
    struct apir_config config;
    struct apir_error err = {0};
    const char *path = apir_config_find();
    enum doctor_status status = DOCTOR_ABSENT;

    if (!path)
        return DOCTOR_ABSENT;
    const int rc = apir_config_load(path, &config, &err);
    if (rc == -EACCES) {
        status = doctor_say(o, DOCTOR_SKIP, "%.400s", err.msg);
    } else if (rc < 0) {
        doctor_todo(o, "apir config check says what is wrong with the configuration.");
        status = doctor_say(o, DOCTOR_FAIL, "%.400s", err.msg);
    } else if (config.mps != APIR_CONFIG_OFF) {
        status = mps_judge(d, o, &config);
    }
    apir_config_fini(&config);
    return status;
}
