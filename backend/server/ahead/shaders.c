/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/ahead/shaders.h"

#include <string.h>

#include "common/log.h"

void server_shaders_init(struct server_shaders *shaders, const struct server_worker_setup *setup,
                         const struct apir_config *config, void (*filled)(void *user), void *user)
{
    *shaders = (struct server_shaders){
        .children = setup->children,
        .worker = setup->path,
        .config_path = setup->config_path,
        .left_out = setup->left_out,
        .most_ms = (int64_t)config->shader_seconds * 1000 + SERVER_SHADERS_LATE_MS,
        /* It has no sandbox: what workers may write it must not read. */
        .begun = config->shader_seconds == 0 || config->sandbox_write.n > 0,
        .filled = filled,
        .user = user,
    };
}

void server_shaders_fini(struct server_shaders *shaders)
{
    server_timer_disarm(shaders->children->loop, &shaders->late);
    server_child_kill(&shaders->child);
    server_child_forget(shaders->children, &shaders->child);
}

static void server_shaders_late(void *user)
{
    struct server_shaders *shaders = user;
    apir_log(APIR_LOG_WARN,
             "filling the shader cache takes longer than %lld s and is ended; programs compile "
             "shaders themselves",
             (long long)shaders->most_ms / 1000);
    server_child_kill(&shaders->child);
}

static void server_shaders_changed(void *user, enum server_child_change change, int status)
{
    struct server_shaders *shaders = user;
    if (change != SERVER_CHILD_EXITED && change != SERVER_CHILD_KILLED)
        return;
    server_timer_disarm(shaders->children->loop, &shaders->late);
    if (status)
        apir_log(APIR_LOG_WARN,
                 "filling the shader cache ended with %s %d; programs compile shaders "
                 "themselves",
                 change == SERVER_CHILD_KILLED ? "signal" : "status", status);
    shaders->filled(shaders->user);
}

/* Returns 0 or -errno. */
static int server_shaders_start(struct server_shaders *shaders)
{
    const char *argv[4 + SERVER_LEFT_OUT_ARGS + 1] = {shaders->worker, "--fill-shaders", "--config",
                                                      shaders->config_path};
    const size_t end = shaders->config_path ? 4 : 2;
    argv[end + server_left_out_args(shaders->left_out, &argv[end])] = NULL;
    const struct server_child_spec spec = {.argv = argv, .is_worker = true};
    return server_child_start(shaders->children, &shaders->child, &spec, server_shaders_changed,
                              shaders);
}

bool server_shaders_fill(struct server_shaders *shaders)
{
    if (shaders->begun)
        return shaders->child.pid > 0;
    shaders->begun = true;
    int rc = server_shaders_start(shaders);
    if (rc < 0) {
        apir_log(APIR_LOG_WARN,
                 "cannot fill the shader cache: %s; programs compile shaders themselves",
                 strerror(-rc));
        return false;
    }
    server_timer_arm(shaders->children->loop, &shaders->late, server_now_ms() + shaders->most_ms,
                     server_shaders_late, shaders);
    return true;
}
