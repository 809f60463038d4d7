/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/worker/ggml/device.h"

#include "tests/lib/unit.h"

static const int vulkan_reg, cuda_reg, cpu_reg;

static const struct worker_vulkan_gpu gpus[] = {
    {.uuid = {0xaa, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x0f},
     .pci = "0000:01:00.0",
     .name = "Big GPU"},
    {.uuid = {0xbb}, .pci = "0000:c1:00.0", .name = "Big GPU"},
    {.uuid = {0xcc}, .pci = "", .name = "llvmpipe"},
};
#define UUID_A "aa010203-0405-0607-0809-0a0b0c0d0e0f"
#define UUID_B "bb000000-0000-0000-0000-000000000000"
#define UUID_C "cc000000-0000-0000-0000-000000000000"

static struct host_device device(const char *name, const void *reg, const char *description,
                                 const char *pci)
{
    struct host_device d = {.reg = reg, .is_gpu = reg != &cpu_reg};
    strcpy(d.name, name);
    strcpy(d.description, description);
    strcpy(d.device_id, pci);
    return d;
}

TEST(gpu_has_the_uuid_of_its_address)
{
    struct host_device d[] = {device("Vulkan0", &vulkan_reg, "Big GPU", "0000:c1:00.0"),
                              device("Vulkan1", &vulkan_reg, "Big GPU", "0000:01:00.0"),
                              device("CPU", &cpu_reg, "Big GPU", "")};
    worker_devices_identify(d, 3, gpus, 3);
    assert_string_equal(d[0].id, UUID_B);
    assert_string_equal(d[1].id, UUID_A);
    assert_string_equal(d[2].id, "cpu"); /* whatever its name is */
    /* Case of the address does not matter. */
    d[0] = device("Vulkan0", &vulkan_reg, "x", "0000:C1:00.0");
    worker_devices_identify(d, 1, gpus, 3);
    assert_string_equal(d[0].id, UUID_B);
}

TEST(gpu_without_address_goes_by_its_name_if_that_is_the_only_one)
{
    struct host_device d[] = {device("Vulkan0", &vulkan_reg, "llvmpipe", ""),
                              device("Vulkan1", &vulkan_reg, "Big GPU", "")};
    worker_devices_identify(d, 2, gpus, 3);
    assert_string_equal(d[0].id, UUID_C);
    assert_string_equal(d[1].id, "vulkan1"); /* two of that name */
    /* Two devices that one Vulkan device may be. */
    struct host_device twice[] = {device("Vulkan0", &vulkan_reg, "llvmpipe", ""),
                                  device("Vulkan1", &vulkan_reg, "llvmpipe", "")};
    worker_devices_identify(twice, 2, gpus, 3);
    assert_string_equal(twice[0].id, "vulkan0");
    assert_string_equal(twice[1].id, "vulkan1");
}

TEST(name_at_another_address_is_another_gpu)
{
    struct host_device d[] = {device("CUDA0", &cuda_reg, "Big GPU", "0000:77:00.0")};
    worker_devices_identify(d, 1, gpus, 1);
    assert_string_equal(d[0].id, "0000:77:00.0");
    /* A driver that tells no address does not contradict. */
    d[0] = device("CUDA0", &cuda_reg, "llvmpipe", "0000:77:00.0");
    worker_devices_identify(d, 1, gpus, 3);
    assert_string_equal(d[0].id, UUID_C);
}

TEST(without_vulkan_the_address_is_the_id)
{
    struct host_device d[] = {device("CUDA0", &cuda_reg, "Big GPU", "0000:01:00.0"),
                              device("MTL 0/\n", &cuda_reg, "x", "")};
    worker_devices_identify(d, 2, NULL, 0);
    assert_string_equal(d[0].id, "0000:01:00.0");
    assert_string_equal(d[1].id, "mtl_0__");
}

TEST(same_gpu_through_two_backends_is_one)
{
    struct host_device d[] = {device("CUDA0", &cuda_reg, "Big GPU", "0000:01:00.0"),
                              device("CUDA1", &cuda_reg, "Big GPU", "0000:c1:00.0"),
                              device("Vulkan0", &vulkan_reg, "Big GPU", "0000:01:00.0"),
                              device("Vulkan1", &vulkan_reg, "Big GPU", "0000:c1:00.0"),
                              device("CPU", &cpu_reg, "c", "")};
    worker_devices_identify(d, 5, gpus, 3);
    assert_false(d[0].twin || d[1].twin || d[4].twin);
    assert_true(d[2].twin && d[3].twin);
    assert_string_equal(d[2].id, UUID_A "@vulkan0");
    assert_string_equal(d[3].id, UUID_B "@vulkan1");
    assert_int_equal(worker_devices_drop_twins(d, 5), 3);
    assert_string_equal(d[0].name, "CUDA0");
    assert_string_equal(d[1].name, "CUDA1");
    assert_string_equal(d[2].name, "CPU");
}
