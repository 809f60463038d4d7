/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `apir cdi generate` and `apir doctor` ask a host, by the plug-in's own way: of the built
 * server and worker; and of a host that answers what none of ours would.
 */
#include "tests/lib/unit.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cdi/host/session.h"
#include "protocol/messages.h"
#include "protocol/ring.h"
#include "tests/lib/lying_host.h"
#include "tests/lib/processes.h"
#include "tests/lib/server_fixture.h"
#include "tests/lib/unix_client.h"

#define LAVAPIPE   "/usr/share/vulkan/icd.d/lvp_icd.json"
#define TIMEOUT_MS ((unsigned)patient_ms(15000))

static struct cdi_session session;

/* Over the socket of unix_host. */
static void ask(unsigned timeout_ms)
{
    char transport[100];

    snprintf(transport, sizeof(transport), "unix:%s", unix_host.path);
    cdi_session_run(transport, timeout_ms, &session);
    if (session.passed != CDI_SESSION_DEVICES)
        printf("passed %d, error %d: %s\n", (int)session.passed, session.code, session.text);
}

static void ask_worker(const char *names)
{
    char config[512];

    snprintf(config, sizeof(config), "\"worker\": \"%s\", \"threads\": 1, \"devices\": [%s]",
             process_built("backend/apir-worker"), names);
    unix_start(config, NULL);
    ask(TIMEOUT_MS);
    unix_tear_down(NULL);
}

TEST(worker_tells_its_cpu)
{
    ask_worker("\"CPU\"");
    assert_int_equal(session.passed, CDI_SESSION_DEVICES);
    assert_int_equal(session.n_devices, 1);
    assert_string_equal(session.devices[0].id, "cpu");
    assert_string_equal(session.devices[0].name, "CPU");
    assert_true(session.devices[0].description[0] != '\0');
    assert_true(session.devices[0].memory_total > 0);
    assert_int_equal(session.major, APIR_PROTOCOL_MAJOR);
    assert_int_equal(session.minor, APIR_PROTOCOL_MINOR);
    assert_non_null(strstr(session.host_ggml, "ggml"));
}

TEST(worker_tells_devices_in_the_order_of_its_configuration)
{
    if (access(LAVAPIPE, R_OK) != 0)
        unit_skip("no lavapipe here");
    setenv("VK_DRIVER_FILES", LAVAPIPE, 1);
    setenv("FIXTURE_VISIBLE_DEVICES", "0", 1);
    setenv("LP_NUM_THREADS", "1", 1);
    ask_worker("\"Vulkan0\", \"CPU\", \"Vulkan0\", \"CPU\"");
    assert_int_equal(session.n_devices, 2);
    assert_int_equal(strlen(session.devices[0].id), 36);
    assert_string_equal(session.devices[1].id, "cpu");
    char id[APIR_ID_SIZE];
    memcpy(id, session.devices[0].id, sizeof(id));
    ask_worker("\"CPU\", \"Vulkan0\"");
    assert_int_equal(session.n_devices, 2);
    assert_string_equal(session.devices[0].id, "cpu");
    assert_string_equal(session.devices[1].id, id);
    unsetenv("FIXTURE_VISIBLE_DEVICES");
}

TEST(worker_that_fails_is_no_time_out)
{
    ask_worker("\"None0\"");
    assert_int_equal(session.passed, CDI_SESSION_HOST);
    assert_int_not_equal(session.code, ETIMEDOUT);
    assert_non_null(strstr(session.text, "the host's worker failed: "));
}

/* ---- a host of this test's own ----------------------------------------------------- */

enum fault {
    FAULT_NONE,
    FAULT_NO_ID,   /* no NUL, or what may not be in one */
    FAULT_TWICE,   /* two devices of one id */
    FAULT_REFUSED, /* of another major version */
    FAULT_MANY,    /* more devices than there may be */
    FAULT_STATUS,  /* a device that cannot be described */
    FAULT_SILENT,  /* it never answers */
    FAULT_DIES,    /* its worker does, and it says of what */
    FAULT_REFUSES, /* it has no context for us */
    FAULT_FULL,    /* it has no memory for us */
    FAULT_NO_ROOM, /* none but for the ring */
    FAULT_NO_RING, /* its memory is of another kind */
    FAULT_CONTROL, /* control characters in its texts */
};

static enum fault fault; /* of the host */

static void lie_hello(struct apir_reply_hello *r, const struct apir_msg_hello *m)
{
    struct apir_ring_header *h = lying_host_ring();

    /* Over this transport a client is always in its host's kernel. */
    if (m->features != APIR_HELLO_ONE_KERNEL)
        _exit(3);
    if (fault == FAULT_DIES)
        apir_ring_set_state(h, APIR_STATE_LOST, "a test\033[31m");
    if (fault == FAULT_DIES || fault == FAULT_SILENT)
        lying_host_falls_silent();
    /* Nothing rests on a clean reply area. */
    memset((uint8_t *)h + h->reply_offset, 0x5a, h->reply_size);
    r->n_devices = fault == FAULT_MANY ? APIR_DEVICES_MAX + 1 : 2;
    if (fault == FAULT_REFUSED)
        r->status = APIR_E_VERSION;
}

static void lie_device(struct apir_reply_device_info *r, uint32_t device)
{
    snprintf(r->id, sizeof(r->id), "id-%u", fault == FAULT_TWICE ? 0 : device);
    if (fault == FAULT_STATUS)
        r->status = APIR_E_FAILED;
    if (fault == FAULT_NO_ID && device == 0)
        memset(r->id, 'a', sizeof(r->id));
    else if (fault == FAULT_NO_ID)
        strcpy(r->id, "a\nb");
    if (fault == FAULT_CONTROL) {
        memset(r->name, 'n', sizeof(r->name));
        strcpy(r->description, "\033[31mred");
    }
}

static void tell(enum lie_step step, struct lie_data *d)
{
    struct apir_unix_welcome *welcome = d->answer;
    struct apir_unix_answer *memory = d->answer;
    struct apir_ring_header *ring = d->answer;

    if (step == LIE_WELCOME && fault == FAULT_REFUSES) {
        welcome->status = APIR_UNIX_REFUSED;
        strcpy(welcome->text, "no more contexts");
    } else if (step == LIE_MEMORY &&
               (fault == FAULT_FULL || (fault == FAULT_NO_ROOM && d->blob_id != 0))) {
        memory->status = ENOSPC;
        close(d->fds[--d->n_fds]);
    } else if (step == LIE_READY && fault == FAULT_NO_RING) {
        ring->magic = 0;
    } else if (step == (enum lie_step)APIR_MSG_HELLO) {
        lie_hello(d->answer, &d->msg->u.hello);
    } else if (step == (enum lie_step)APIR_MSG_DEVICE_INFO) {
        lie_device(d->answer, d->msg->u.device_info.device);
    }
}

static void ask_host(enum fault how, enum cdi_session_step passed)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), status;

    unix_make_dir();
    strcpy(address.sun_path, unix_host.path);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    fault = how;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lying_host_serve(listener, tell);
    }
    close(listener);
    ask(fault == FAULT_SILENT ? 3000 : TIMEOUT_MS);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    unlink(unix_host.path);
    rmdir(unix_host.dir);
    assert_int_equal(session.passed, passed);
}

TEST(answers_are_taken_for_what_they_are)
{
    const struct cdi_session_device *devices = session.devices;

    ask_host(FAULT_NONE, CDI_SESSION_DEVICES);
    assert_int_equal(session.n_devices, 2);
    assert_string_equal(devices[0].id, "id-0");
    assert_string_equal(devices[1].id, "id-1");
    assert_string_equal(devices[1].name, "GPU0");
    assert_string_equal(devices[1].description, "A GPU");
    ask_host(FAULT_NO_ID, CDI_SESSION_DEVICES);
    assert_string_equal(devices[0].id, "");
    assert_string_equal(devices[1].id, "");
    ask_host(FAULT_CONTROL, CDI_SESSION_DEVICES);
    assert_string_equal(devices[0].description, "?[31mred");
    assert_int_equal(strlen(devices[0].name), sizeof(devices[0].name) - 1);
}

TEST(senseless_answers_are_refused)
{
    ask_host(FAULT_TWICE, CDI_SESSION_WORKER);
    assert_int_equal(session.code, EPROTO);
    ask_host(FAULT_STATUS, CDI_SESSION_WORKER);
    assert_int_equal(session.code, EPROTO);
    ask_host(FAULT_REFUSED, CDI_SESSION_MEMORY);
    assert_int_equal(session.code, EPROTONOSUPPORT);
    ask_host(FAULT_MANY, CDI_SESSION_HOST);
    assert_int_equal(session.code, EPROTO);
    ask_host(FAULT_SILENT, CDI_SESSION_HOST);
    assert_int_equal(session.code, ETIMEDOUT);
}

TEST(what_ends_a_session_is_told)
{
    ask_host(FAULT_DIES, CDI_SESSION_HOST);
    assert_string_equal(session.text, "the host's worker failed: a test?[31m");
    ask_host(FAULT_REFUSES, CDI_SESSION_NONE);
    assert_non_null(strstr(session.text, "no more contexts"));
    ask_host(FAULT_FULL, CDI_SESSION_CONTEXT);
    assert_non_null(strstr(session.text, "the host gives no shared memory"));
    ask_host(FAULT_NO_ROOM, CDI_SESSION_CONTEXT);
    assert_non_null(strstr(session.text, "no room for 8 MiB"));
    ask_host(FAULT_NO_RING, CDI_SESSION_MEMORY);
    assert_non_null(strstr(session.text, "apir-render-server"));
}
