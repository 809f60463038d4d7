/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that share one MPS: who owns it, who is told, and what there is no room for. */
#include "backend/server/share/group.h"

#include <stdlib.h>

#include "tests/lib/unit.h"

#define SERVERS (SERVER_GROUP_MEMBERS + 2u) /* the owner, its members, and one too many */

struct server {
    struct server_group group;
    unsigned owned, told[SERVER_MPS_ENDED + 1];
};

static struct server_loop loop;
static struct server servers[SERVERS];

static void own(void *user)
{
    struct server *server = user;
    server->owned++;
}

static void told(void *user, enum server_mps_news news)
{
    struct server *server = user;
    server->told[news]++;
    server_group_tell(&server->group, news);
}

static const struct server_group_events events = {.own = own, .told = told};

static int setup(void **state)
{
    memset(servers, 0, sizeof(servers));
    return unit_folder_setup(state) || setenv("XDG_RUNTIME_DIR", unit_folder, 1) ||
           unsetenv("RUNTIME_DIRECTORY") || server_loop_init(&loop);
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < SERVERS; i++)
        server_group_fini(&servers[i].group);
    server_loop_fini(&loop);
    /* A group's folder stays where others may be in it. */
    char path[SERVER_GROUP_FOLDER_MAX];
    snprintf(path, sizeof(path), "%s/apir-group-g/apir.lock", unit_folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/apir-group-g", unit_folder);
    rmdir(path);
    return unit_folder_teardown(state);
}

#define GROUP_TEST(name) TEST_WITHIN(name, setup, teardown)

static struct server *join(unsigned i, const char *name)
{
    struct apir_error err = {0};
    assert_int_equal(server_group_init(&servers[i].group, &loop, name, &events, &servers[i], &err),
                     0);
    server_group_join(&servers[i].group);
    return &servers[i];
}

/* All that is to be done now. It has an end, whatever becomes due later. */
static void settle(void)
{
    int rc = 1;
    for (unsigned turn = 0; rc == 1; turn++) {
        assert_true(turn < 100 * SERVERS);
        rc = server_loop_turn(&loop, 0);
    }
    assert_int_equal(rc, 0);
}

GROUP_TEST(who_finds_no_room_neither_spins_nor_disturbs)
{
    for (unsigned i = 0; i < SERVERS; i++)
        join(i, "g");
    settle();
    unsigned in = 0;
    for (unsigned i = 0; i < SERVER_GROUP_MEMBERS; i++)
        in += servers[0].group.members[i].source.added;
    assert_int_equal(in, SERVER_GROUP_MEMBERS);
    /* One that leaves makes room for it. */
    server_group_fini(&servers[1].group);
    struct server *last = &servers[SERVERS - 1];
    server_group_tell(&servers[0].group, SERVER_MPS_USED);
    while (!last->told[SERVER_MPS_USED])
        assert_true(server_loop_turn(&loop, 1000) >= 0);
}
