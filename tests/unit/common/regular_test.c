/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "backend/config/config.h"
#include "cdi/file.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

/* All that reads what a path of somebody else's leads to. */
static int read_json(const char *path)
{
    cleanup_json struct json_object *object = NULL;
    return apir_json_load(path, 100, &object, NULL);
}

static int read_text(const char *path)
{
    cleanup_free char *text = NULL;
    return cdi_file_read(path, &text, NULL, NULL);
}

static int load_text(const char *path)
{
    cleanup_free char *text = NULL;
    return cdi_file_load(path, &text, NULL);
}

static int read_config(const char *path)
{
    struct apir_config config;
    int rc = apir_config_load(path, &config, NULL);
    apir_config_fini(&config);
    return rc;
}

static int (*const readers[])(const char *) = {read_json, read_text, load_text, read_config};

/* To open a device can be an action: a watchdog begins to count. A fifo tells of it, too. */
FOLDER_TEST(what_is_no_regular_file_is_not_opened)
{
    char fifo[128], link[128], event[512];
    cleanup_fd int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    snprintf(fifo, sizeof(fifo), "%s/fifo", unit_folder);
    snprintf(link, sizeof(link), "%s/link", unit_folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("fifo", link), 0);
    assert_true(inotify_add_watch(watch, fifo, IN_OPEN) >= 0);
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        assert_true(readers[i](fifo) < 0);
        assert_true(readers[i](link) < 0);
        assert_int_equal(read(watch, event, sizeof(event)), -1);
    }
    /* And it would have been told. */
    cleanup_fd int fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(watch, event, sizeof(event)) > 0);
}
