/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>

#include "common/json.h"
#include "common/oci/state.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "tests/lib/unit.h"

static const char crun[] =
    "{\"ociVersion\":\"1.0\",\"id\":\"c1\",\"pid\":0,\"root\":\"\\/var\\/lib\\/x\\/merged\","
    "\"bundle\":\"\\/run\\/b\",\"status\":\"created\",\"owner\":\"\",\"annotations\":{"
    "\"apir.device\":\"gpu0\",\"io.container.manager\":\"libpod\"}}";
static const char runc[] = "{\"ociVersion\":\"1.2.1\",\"id\":\"c2\",\"status\":\"creating\","
                           "\"pid\":4711,\"bundle\":\"/run/b\"}";

static int parse(const char *text, struct oci_state *s)
{
    return oci_state_parse(text, strlen(text), s, NULL);
}

TEST(parse_takes_crun)
{
    cleanup_state struct oci_state s = {0};

    assert_int_equal(parse(crun, &s), 0);
    assert_string_equal(s.id, "c1");
    assert_string_equal(s.root, "/var/lib/x/merged");
    assert_string_equal(s.bundle, "/run/b");
    assert_string_equal(s.device, "gpu0");
    assert_int_equal(s.pid, 0);
}

TEST(parse_takes_runc)
{
    cleanup_state struct oci_state s = {0};

    assert_int_equal(parse(runc, &s), 0);
    assert_string_equal(s.id, "c2");
    assert_null(s.root);
    assert_null(s.device);
    assert_int_equal(s.pid, 4711);
}

TEST(parse_refuses_wrong_members)
{
    static const char *const bad[] = {
        "{}",
        "{\"id\":\"\"}",
        "{\"id\":7}",
        "{\"id\":null,\"bundle\":\"/b\"}",
        "{\"id\":\"a\\u0000b\"}",
        "{\"id\":\"a\",\"pid\":-1}",
        "{\"id\":\"a\",\"pid\":4194305}",
        "{\"id\":\"a\",\"pid\":99999999999999999999}",
        "{\"id\":\"a\",\"pid\":1.5}",
        "{\"id\":\"a\",\"pid\":\"1\"}",
        "{\"id\":\"a\",\"bundle\":\"b\"}",
        "{\"id\":\"a\",\"bundle\":[]}",
        "{\"id\":\"a\",\"root\":\"/a\\u0000b\"}",
        "{\"id\":\"a\",\"root\":1}",
        "{\"id\":\"a\",\"annotations\":[]}",
        "{\"id\":\"a\",\"annotations\":{\"apir.device\":1}}",
        "[\"id\"]",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct oci_state s;
        struct apir_error err = {0};

        if (oci_state_parse(bad[i], strlen(bad[i]), &s, &err) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
        assert_memory_equal(err.msg, "container state: ", 17);
        assert_null(s.id);
    }
}

FOLDER_TEST(root_comes_from_state_or_config)
{
    static const struct {
        const char *root, *bundle, *config, *want; /* want NULL: refused */
    } cases[] = {
        {"/r", "/b", NULL, "/r"},
        {"r", "/b", NULL, "/b/r"},
        {"r", NULL, NULL, NULL},
        {"", "/b", NULL, NULL},
        {NULL, NULL, NULL, NULL},
        {NULL, "", "{\"root\":{\"path\":\"/abs\"}}", "/abs"},
        {NULL, "", "{\"root\":{\"path\":\"rootfs\"}}", "BUNDLE/rootfs"},
        {NULL, "", "{\"root\":{\"path\":\"\"}}", NULL},
        {NULL, "", "{\"root\":{}}", NULL},
        {NULL, "", "{\"root\":\"/abs\"}", NULL},
        {NULL, "", "{\"root\":{\"path\":\"/a\"}", NULL},
        {NULL, "", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char config[64], want[128], *root = NULL;
        const char *bundle = cases[i].bundle;

        snprintf(config, sizeof(config), "%s/config.json", unit_folder);
        unlink(config);
        if (cases[i].config) {
            FILE *f = fopen(config, "w");
            assert_non_null(f);
            fputs(cases[i].config, f);
            fclose(f);
        }
        struct oci_state s = {
            .root = cases[i].root ? strdup(cases[i].root) : NULL,
            .bundle = !bundle ? NULL : strdup(bundle[0] == '\0' ? unit_folder : bundle),
        };
        int rc = oci_state_root(&s, &root, NULL);
        if (!cases[i].want) {
            assert_true(rc < 0);
            assert_null(root);
        } else {
            const char *rest = strchr(cases[i].want, '/');
            snprintf(want, sizeof(want), "%s%s", cases[i].want[0] == 'B' ? unit_folder : "",
                     cases[i].want[0] == 'B' ? rest : cases[i].want);
            assert_int_equal(rc, 0);
            assert_string_equal(root, want);
        }
        free(root);
        oci_state_fini(&s);
    }
}
