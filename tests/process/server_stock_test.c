/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign contexts: the stock server in all its moods never touches one of ours. */
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "backend/server/vmm/render_protocol.h"
#include "common/fdsock.h"
#include "tests/lib/clock.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/processes.h"
#include "tests/lib/unit.h"

static void use_as_stock(struct fixture *f, const char *path)
{
    char config[PATH_MAX + 64];
    snprintf(config, sizeof(config), "\"stock_server\": \"%s\"", path);
    fixture_start(f, config, NULL);
}

CONTEXT_TEST(foreign_context_reaches_the_stock_server, "", NULL)
{
    unsigned count = 0;
    fixture_child(f, "virgl_render_server", &count);
    assert_int_equal(count, 0); /* lazily */

    int first = fixture_create_context(f, 2, "llama-server");
    assert_true(first >= 0);
    pid_t stock = fixture_child(f, "virgl_render_server", &count);
    assert_int_equal(count, 1);
    int second = fixture_create_context(f, 3, "vulkaninfo");
    assert_true(second >= 0);
    fixture_child(f, "virgl_render_server", &count);
    assert_int_equal(count, 1);
    fixture_destroy_context(f, 3);
    fixture_wait_hangup(second);
    close(second);
    fixture_expect_alive(c);

    kill(stock, SIGKILL);
    fixture_wait_gone(stock);
    fixture_expect_alive(c);
    int third = fixture_create_context(f, 4, "again");
    assert_true(third >= 0);
    fixture_expect_alive(c);
    close(first);
    close(third);
}

TEST(stock_server_ends_with_us)
{
    struct fixture f;
    fixture_start(&f, "", NULL);
    int context = fixture_create_context(&f, 2, "venus");
    assert_true(context >= 0);
    pid_t stock = fixture_child(&f, "virgl_render_server", NULL);
    assert_true(stock > 0);
    kill(f.pid, SIGKILL);
    assert_int_equal(waitpid(f.pid, NULL, 0), f.pid);
    fixture_wait_gone(stock);
    close(context);
    close(f.client);
    unlink(f.config);
}

TEST(stock_server_that_is_missing_refuses)
{
    static const char *const paths[] = {"/no/such/server", "/bin/false", "/bin", "/etc/passwd"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct fixture f;
        struct fixture_context c;
        use_as_stock(&f, paths[i]);
        fixture_open_ready(&f, &c, 1);
        for (uint32_t n = 0; n < 20; n++) /* and is not started again and again */
            assert_int_equal(fixture_create_context(&f, 2 + n, "foreign"), -1);
        fixture_expect_alive(&c);
        fixture_close(&c);
        fixture_stop(&f);
    }
}

TEST(stock_server_that_is_ourselves_refuses)
{
    struct fixture f;
    use_as_stock(&f, process_built("backend/apir-render-server"));
    assert_int_equal(fixture_create_context(&f, 2, "foreign"), -1);
    assert_int_equal(fixture_child(&f, "", NULL), -1);
    fixture_stop(&f);
}

TEST(stock_server_that_never_answers_stops_none_of_ours)
{
    struct fixture f;
    struct fixture_context c;
    use_as_stock(&f, process_built("tests/process/fake_worker"));
    fixture_open_ready(&f, &c, 1);
    const struct render_client_create_context req = {
        .op = RENDER_CLIENT_CREATE_CONTEXT,
        .context_id = 2,
        .name = "foreign",
    };
    fixture_send(f.client, &req, sizeof(req), NULL, 0);
    /* Requests behind it wait; contexts do not. */
    const struct render_client_destroy_context destroy = {
        .op = RENDER_CLIENT_DESTROY_CONTEXT,
        .context_id = 1,
    };
    for (uint32_t i = 1; i <= 100; i++) {
        fixture_expect_alive(&c);
        fixture_fence(&c, 1, i);
        fixture_wait_timeline(&c, 1, i);
    }
    fixture_send(f.client, &destroy, sizeof(destroy), NULL, 0);
    fixture_expect_alive(&c);

    pid_t stock = -1;
    unsigned count = 0;
    while (stock < 0) /* not exec'ed yet, perhaps */
        stock = fixture_child(&f, "--socket-fd", &count);
    kill(stock, SIGKILL);
    struct render_client_create_context_reply reply = {.ok = 1};
    size_t got = 0;
    assert_int_equal(apir_fdsock_recv(f.client, &reply, sizeof(reply), &got, NULL, 0, NULL, 0), 0);
    assert_int_equal(reply.ok, 0);
    fixture_wait_hangup(c.fd); /* and only now the second request */
    fixture_close(&c);
    fixture_stop(&f);
}
