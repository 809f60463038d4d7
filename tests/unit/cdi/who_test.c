/* SPDX-License-Identifier: Apache-2.0 */
/* Containers by the control group of a process, as engines name them. */
#include "cdi/top/who.h"

#include "common/clock.h"
#include "tests/lib/unit.h"

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

TEST(engines_by_what_they_call_their_groups)
{
    static const struct {
        const char *cgroup, *engine;
    } rows[] = {
        {"0::/machine.slice/libpod-" ID ".scope/container\n", "podman"},
        {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope\n",
         "podman"},
        {"0::/libpod_parent/libpod-" ID "\n", "podman"},
        {"0::/system.slice/docker-" ID ".scope\n", "docker"},
        {"0::/docker/" ID "\n", "docker"},
        {"0::/docker/" ID, "docker"},
        {"12:pids:/docker/" ID "\n11:cpu:/docker/" ID "\n", "docker"},
        {"0::/../../system.slice/docker-" ID ".scope\n", "docker"},
        {"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope\n", "containerd"},
        {"0::/kubepods.slice/kubepods-pod1.slice/crio-" ID ".scope\n", "cri-o"},
        {"0::/kubepods/besteffort/pod1/" ID "\n", "kubernetes"},
        {"0::/default/nerdctl-" ID ".scope\n", "nerdctl"},
        {"0::/some/" ID "\n", "container"},
        {"1:name=systemd:/\n0::/system.slice/docker-" ID ".scope\n", "docker"},
        /* The innermost. */
        {"0::/system.slice/docker-" ID2 ".scope/libpod-" ID "\n", "podman"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cdi_who who;
        cdi_who_parse(rows[i].cgroup, &who);
        assert_string_equal(who.engine, rows[i].engine);
        assert_string_equal(who.id, ID);
    }
}

TEST(what_is_no_container)
{
    static const char *const rows[] = {
        "",
        "\n",
        "0::/\n",
        "0::/user.slice/user-0.slice/session-1.scope\n",
        "0::/machine.slice/libpod-conmon-" ID ".scope\n",
        "0::/docker/0123456789abcdef\n",
        "0::/docker/" ID "0\n",
        "0::/docker/" ID ".sco\n",
        "0::/docker-" ID ".scope2\n",
        "0::/libpod-\n",
        ID,
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cdi_who who = {.engine = "x", .id = "x"};
        cdi_who_parse(rows[i], &who);
        assert_string_equal(who.engine, "");
        assert_string_equal(who.id, "");
    }
}

TEST(a_process_is_known_only_if_it_was_there_before)
{
    struct cdi_who who;
    assert_true(cdi_who_look(getpid(), (int64_t)apir_now_ms(), &who));
    assert_string_equal(who.name, "who_test");
    /* What a server says may be any number. */
    assert_true(cdi_who_look(getpid(), INT64_MAX, &who));
    /* The number of one that has ended may be another's. */
    assert_false(cdi_who_look(getpid(), -1000000, &who));
    assert_string_equal(who.name, "");
    assert_false(cdi_who_look(0, (int64_t)apir_now_ms(), &who));
    assert_false(cdi_who_look(-1, (int64_t)apir_now_ms(), &who));
}
