/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "cdi/machine.h"

#define X86(flags) "processor\t: 0\nmodel name\t: a hypervisor's\nflags\t\t: " flags "\n\n"

FOLDER_TEST(a_vm_shows_in_the_flags_of_its_processor)
{
    static const struct {
        const char *text;
        enum cdi_machine machine;
    } cases[] = {
        {X86("fpu vme hypervisor lahf_lm"), CDI_MACHINE_VM},
        {X86("fpu vme hypervisor"), CDI_MACHINE_VM},
        {X86("fpu vme lahf_lm") X86("fpu"), CDI_MACHINE_BARE},
        {X86("fpu nohypervisor hypervisors") "bugs\t\t: hypervisor\n", CDI_MACHINE_BARE},
        {"processor\t: 0\nFeatures\t: fp asimd\n", CDI_MACHINE_UNKNOWN},
        {"", CDI_MACHINE_UNKNOWN},
    };
    char path[128];

    snprintf(path, sizeof(path), "%s/cpuinfo", unit_folder);
    assert_int_equal(cdi_machine_read(path), CDI_MACHINE_UNKNOWN); /* not there */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(cases[i].text, f);
        fclose(f);
        assert_int_equal(cdi_machine_read(path), cases[i].machine);
    }
}

TEST(each_kind_of_machine_is_told_what_it_can_do)
{
    const char *vm = cdi_machine_advice(CDI_MACHINE_VM);
    const char *bare = cdi_machine_advice(CDI_MACHINE_BARE);
    const char *unknown = cdi_machine_advice(CDI_MACHINE_UNKNOWN);

    assert_non_null(strstr(bare, "apir host serve"));
    assert_null(strstr(bare, "virtio"));
    assert_non_null(strstr(vm, "virtio-gpu-gl"));
    assert_non_null(strstr(unknown, "apir host serve"));
    assert_non_null(strstr(unknown, "virtio-gpu-gl"));
}
