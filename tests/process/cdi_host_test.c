/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of `apir cdi generate`, to the built server and worker; and to a host
 * that answers what no worker of ours would.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cdi/host/host.h"
#include "protocol/atomic.h"
#include "tests/lib/clock.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/processes.h"
#include "tests/lib/unit.h"

#define LAVAPIPE   "/usr/share/vulkan/icd.d/lvp_icd.json"
#define TIMEOUT_MS 15000u

static struct cdi_host_device devices[APIR_DEVICES_MAX];

static int kick_server(void *user)
{
    fixture_doorbell(user, APIR_DOORBELL_KICK, 0, 0);
    return 0;
}

static int ask_worker(const char *names)
{
    struct fixture f;
    struct fixture_context c;
    char config[512];
    struct cdi_host_link link = {.kick = kick_server, .user = &c};

    snprintf(config, sizeof(config),
             "\"worker\": \"%s\", \"stock_server\": false, \"threads\": 1, \"devices\": [%s]",
             process_built("backend/apir-worker"), names);
    fixture_start(&f, config, NULL);
    fixture_open(&f, &c, 1);
    int fd = fixture_create_blob(&c, 1, APIR_RING_BLOB_ID, APIR_RING_SIZE);
    assert_true(fd >= 0);
    void *map = mmap(NULL, APIR_RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    close(fd);
    assert_int_equal(apir_ring_guest_init(&link.ring, map, APIR_RING_SIZE), 0);
    int r = cdi_host_ask(&link, TIMEOUT_MS, devices);
    munmap(map, APIR_RING_SIZE);
    fixture_close(&c);
    fixture_stop(&f);
    return r;
}

static void worker_tells_its_cpu(void **state)
{
    (void)state;
    assert_int_equal(ask_worker("\"CPU\""), 1);
    assert_string_equal(devices[0].id, "cpu");
    assert_string_equal(devices[0].name, "CPU");
    assert_true(devices[0].description[0] != '\0');
}

static void worker_tells_devices_in_the_order_of_its_configuration(void **state)
{
    (void)state;
    if (access(LAVAPIPE, R_OK) != 0)
        unit_skip("no lavapipe here");
    setenv("VK_DRIVER_FILES", LAVAPIPE, 1);
    setenv("FIXTURE_VISIBLE_DEVICES", "0", 1);
    setenv("LP_NUM_THREADS", "1", 1);
    assert_int_equal(ask_worker("\"Vulkan0\", \"CPU\", \"Vulkan0\", \"CPU\""), 2);
    assert_int_equal(strlen(devices[0].id), 36);
    assert_string_equal(devices[1].id, "cpu");
    char id[APIR_ID_SIZE];
    memcpy(id, devices[0].id, sizeof(id));
    assert_int_equal(ask_worker("\"CPU\", \"Vulkan0\""), 2);
    assert_string_equal(devices[0].id, "cpu");
    assert_string_equal(devices[1].id, id);
    unsetenv("FIXTURE_VISIBLE_DEVICES");
}

static void worker_that_fails_is_no_time_out(void **state)
{
    (void)state;
    assert_int_equal(ask_worker("\"None0\""), -EPIPE);
}

/* ---- a host of this test's own ----------------------------------------------------- */

enum fault {
    FAULT_NONE,
    FAULT_OLD,     /* minor 0: what lies where the id would be is none */
    FAULT_NO_ID,   /* no NUL, or what may not be in one */
    FAULT_TWICE,   /* two devices of one id */
    FAULT_REFUSED, /* of another major version */
    FAULT_MANY,    /* more devices than there may be */
    FAULT_STATUS,  /* a device that cannot be described */
    FAULT_SILENT,  /* it never answers */
    FAULT_BELL,    /* it cannot be woken */
    FAULT_CONTROL, /* control characters in its texts */
};

static struct {
    struct apir_ring_host ring;
    uint8_t *blob;
    enum fault fault;
    unsigned state;
} host;

static void answer_hello(uint8_t *reply)
{
    struct apir_reply_hello r = {.major = 1, .minor = 1, .n_devices = 2};

    if (host.fault == FAULT_OLD)
        r.minor = 0;
    if (host.fault == FAULT_REFUSED)
        r.status = APIR_E_VERSION;
    if (host.fault == FAULT_MANY)
        r.n_devices = APIR_DEVICES_MAX + 1;
    memcpy(reply, &r, sizeof(r));
    host.state = APIR_ST_READY;
}

static void answer_device(uint8_t *reply, uint32_t device)
{
    struct apir_reply_device_info r = {.name = "Vulkan0", .description = "A GPU"};

    snprintf(r.id, sizeof(r.id), "id-%u", host.fault == FAULT_TWICE ? 0 : device);
    if (host.fault == FAULT_STATUS)
        r.status = APIR_E_FAILED;
    if (host.fault == FAULT_NO_ID && device == 0)
        memset(r.id, 'a', sizeof(r.id));
    else if (host.fault == FAULT_NO_ID)
        strcpy(r.id, "a\nb");
    if (host.fault == FAULT_CONTROL) {
        memset(r.name, 'n', sizeof(r.name));
        strcpy(r.description, "\033[31mred");
    }
    memcpy(reply, &r, sizeof(r));
}

static int serve(void *user)
{
    uint8_t buf[APIR_MESSAGE_MAX];
    size_t size;

    (void)user;
    if (host.fault == FAULT_BELL)
        return -EIO;
    while (host.fault != FAULT_SILENT &&
           apir_ring_host_take(&host.ring, buf, sizeof(buf), &size) == 0) {
        struct apir_msg msg;
        const char *why = NULL;

        if (apir_msg_decode(buf, size, host.state, &msg, &why) != 0)
            fail_msg("%s", why);
        uint8_t *replies = host.blob + APIR_RING_HEADER_SIZE;
        if (msg.code == APIR_MSG_HELLO)
            answer_hello(replies + msg.u.hello.reply);
        else
            answer_device(replies + msg.u.device_info.reply, msg.u.device_info.device);
        apir_ring_host_done(&host.ring);
        apir_ring_host_show(&host.ring);
    }
    apir_ring_host_prepare_sleep(&host.ring);
    return 0;
}

static int ask_host(enum fault fault)
{
    static _Alignas(4096) uint8_t blob[APIR_RING_SIZE_MIN];
    struct apir_ring_header *h = (struct apir_ring_header *)(void *)blob;
    struct cdi_host_link link = {.kick = serve};

    memset(blob, 0x5a, sizeof(blob)); /* nothing rests on a clean reply area */
    *h = (struct apir_ring_header){
        .magic = APIR_RING_MAGIC,
        .major = 1,
        .blob_size = sizeof(blob),
        .reply_offset = APIR_RING_HEADER_SIZE,
        .reply_size = apir_ring_reply_size(sizeof(blob)),
        .cmd_offset = apir_ring_cmd_offset(sizeof(blob)),
        .cmd_size = sizeof(blob) / 2,
        .state = APIR_STATE_READY,
    };
    host.blob = blob;
    host.fault = fault;
    host.state = APIR_ST_NEW;
    apir_ring_host_init(&host.ring, blob, sizeof(blob));
    apir_ring_host_prepare_sleep(&host.ring);
    assert_int_equal(apir_ring_guest_init(&link.ring, blob, sizeof(blob)), 0);
    return cdi_host_ask(&link, fault == FAULT_SILENT ? 20 : TIMEOUT_MS, devices);
}

static void answers_are_taken_for_what_they_are(void **state)
{
    (void)state;
    assert_int_equal(ask_host(FAULT_NONE), 2);
    assert_string_equal(devices[0].id, "id-0");
    assert_string_equal(devices[1].id, "id-1");
    assert_string_equal(devices[1].name, "Vulkan0");
    assert_string_equal(devices[1].description, "A GPU");
    assert_int_equal(ask_host(FAULT_OLD), 2);
    assert_string_equal(devices[0].id, "");
    assert_string_equal(devices[1].id, "");
    assert_int_equal(ask_host(FAULT_NO_ID), 2);
    assert_string_equal(devices[0].id, "");
    assert_string_equal(devices[1].id, "");
    assert_int_equal(ask_host(FAULT_CONTROL), 2);
    assert_string_equal(devices[0].description, "?[31mred");
    assert_int_equal(strlen(devices[0].name), sizeof(devices[0].name) - 1);
}

static void senseless_answers_are_refused(void **state)
{
    (void)state;
    assert_int_equal(ask_host(FAULT_TWICE), -EPROTO);
    assert_int_equal(ask_host(FAULT_REFUSED), -EPROTO);
    assert_int_equal(ask_host(FAULT_MANY), -EPROTO);
    assert_int_equal(ask_host(FAULT_STATUS), -EPROTO);
    assert_int_equal(ask_host(FAULT_SILENT), -ETIMEDOUT);
    assert_int_equal(ask_host(FAULT_BELL), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worker_tells_its_cpu),
        cmocka_unit_test(worker_tells_devices_in_the_order_of_its_configuration),
        cmocka_unit_test(worker_that_fails_is_no_time_out),
        cmocka_unit_test(answers_are_taken_for_what_they_are),
        cmocka_unit_test(senseless_answers_are_refused),
    };

    return cmocka_run_group_tests_name("cdi_host", tests, NULL, NULL);
}
