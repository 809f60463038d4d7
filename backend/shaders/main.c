/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir-shaders: fills the shader cache that workers read, without anything of a guest's: a
 * program of the host's that computes what models compute, on zeros, as its own llama.cpp would.
 * Workers keep nothing of what they compile (backend/worker/sandbox/cache.h), so without this each
 * program of a container waits for the same shaders again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backend/config/config.h"
#include "backend/shaders/model.h"
#include "backend/worker/ggml/vulkan.h"
#include "common/log.h"

static const char usage[] =
    "usage: apir-shaders [--config FILE] [--all]\n"
    "Fills the shader cache of this user's GPU drivers with what language models need, so that\n"
    "no program of a container has to wait for it. apir-render-server does so by itself.\n"
    "\n"
    "  --config FILE  as of apir-render-server (default APIR_CONFIG, or " APIR_CONFIG_DEFAULT_PATH
    ")\n"
    "  --all          also for drivers that compute on the CPU\n"
    "  --help         this text\n"
    "\n"
    "APIR_LOG     error, warn (default), info or debug, to stderr\n";

static int ggml_load(struct host_ggml *hg, const struct apir_config *config, struct apir_error *err)
{
    const char *devices[APIR_CONFIG_DEVICES_MAX + 1] = {NULL};
    for (size_t i = 0; i < config->devices.n && i < APIR_CONFIG_DEVICES_MAX; i++)
        devices[i] = config->devices.names[i];
    const struct host_ggml_options options = {
        .library = config->ggml,
        .backends_dir = config->ggml_backends_dir,
        .devices = config->devices.n ? devices : NULL,
    };
    return host_ggml_load(hg, &options, err);
}

/* A driver that computes on the CPU compiles for minutes what it then computes for minutes. */
static bool is_software(const struct host_device *d)
{
    static struct worker_vulkan_gpu gpus[WORKER_VULKAN_MAX];
    const uint32_t n = worker_vulkan_list(gpus);
    for (uint32_t i = 0; i < n; i++) {
        if (gpus[i].is_software && strcmp(gpus[i].name, d->description) == 0)
            return true;
    }
    return false;
}

static int fill(const struct apir_config *config, bool all, struct apir_error *err)
{
    static struct host_ggml hg; /* large */
    const uint64_t began = shaders_now_ms();
    int rc = ggml_load(&hg, config, err);
    if (rc)
        return rc;
    const struct shaders_ggml *gg = shaders_ggml_load(&hg, err);
    if (!gg)
        return -ENOTSUP;
    for (uint32_t i = 0; i < hg.n_devices; i++) {
        const struct host_device *d = &hg.devices[i];
        unsigned n = 0;
        if (!d->is_gpu || (!all && is_software(d))) {
            apir_log(APIR_LOG_INFO, "%s (%s): left out, it is the CPU", d->name, d->description);
            continue;
        }
        const bool through =
            shaders_models_compute(&hg, gg, d, began + (uint64_t)config->shader_seconds * 1000, &n);
        apir_log(APIR_LOG_INFO, "%s (%s): computed %u graphs in %.1f s%s", d->name, d->description,
                 n, (double)(shaders_now_ms() - began) / 1000.0,
                 through ? "" : "; what is left, the next time");
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'f'},
        {"all", no_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    bool all = false;
    const char *config_path = NULL;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (o == 'f') {
            config_path = optarg;
        } else if (o == 'a') {
            all = true;
        } else {
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind != argc) {
        fputs(usage, stderr);
        return 2;
    }
    enum apir_log_level level;
    if (apir_log_parse_level(getenv("APIR_LOG"), &level) == 0)
        apir_log_set_level(level);
    /* Behind everybody who waits for something. */
    (void)setpriority(PRIO_PROCESS, 0, 19);
    struct apir_error err = {0};
    struct apir_config config;
    int rc = apir_config_load(config_path ? config_path : apir_config_find(), &config, &err);
    if (!rc) {
        rc = fill(&config, all, &err);
        apir_config_fini(&config);
    }
    if (rc)
        apir_log(APIR_LOG_ERROR, "%s", err.msg);
    return rc ? 1 : 0;
}
