/* SPDX-License-Identifier: Apache-2.0 */
/* What apir host run says of a command line of QEMU. */
#include "cdi/host/qemu.h"
#include "tests/lib/unit.h"

#define GPU  "-device virtio-gpu-gl-pci,blob=on,venus=on,hostmem=2G "
#define MEM  "-object memory-backend-memfd,id=m,size=4G,share=on -machine q35,memory-backend=m "
#define SHOW "-display sdl,gl=on "

#define WORDS_MAX 24

/* A command line with blanks between words, none within; what is expected to fail, and to warn. */
static const struct {
    const char *line, *fails, *warns;
} lines[] = {
    {GPU MEM SHOW, "", ""},
    {"-m 4G " GPU MEM SHOW "-serial stdio", "", ""},
    {"", "device display", "memory"},
    {SHOW MEM "-device virtio-gpu-pci,blob=on,venus=on,hostmem=2G", "device", ""},
    {SHOW MEM "-vga virtio", "device", ""},
    /* the device's own flags */
    {SHOW MEM "-device virtio-gpu-gl-pci", "blob venus hostmem", ""},
    {SHOW MEM "-device virtio-vga-gl,venus=on,hostmem=2G", "blob", ""},
    {SHOW MEM "-device virtio-gpu-gl,blob=true,venus=yes,hostmem=2G", "", ""},
    {SHOW MEM "-device virtio-gpu-gl,blob=on,venus=off,hostmem=2G", "venus", ""},
    {SHOW MEM "-device virtio-gpu-gl,blob=off,blob=on,venus=on,hostmem=2G", "", ""},
    {SHOW MEM "-device virtio-gpu-gl,blob,venus,hostmem=2G", "", ""},
    {SHOW MEM "--device virtio-gpu-gl,id=a,,b,blob=on,venus=on,hostmem=2G", "", ""},
    {SHOW MEM "-device driver=virtio-gpu-gl,blob=on,venus=on,hostmem=2G", "", ""},
    {SHOW MEM "-device virtio-blk,drive=d " GPU, "", ""},
    {SHOW MEM "-device virtio-gpu-gl,max_hostmem=2G,blob=on,venus=on", "hostmem", ""},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=3G,blob=on,venus=on", "hostmem", ""},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=-2G,blob=on,venus=on", "hostmem", ""},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=2X,blob=on,venus=on", "hostmem", ""},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=99999999999E,blob=on,venus=on", "hostmem", ""},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=64m,blob=on,venus=on", "", "hostmem"},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=2147483648,blob=on,venus=on", "", ""},
    /* as libvirt writes devices */
    {SHOW MEM "-device "
              "{\"driver\":\"virtio-gpu-gl-pci\",\"blob\":true,\"venus\":true,\"hostmem\":"
              "2147483648}",
     "", ""},
    {SHOW MEM "-device {\"driver\":\"virtio-vga-gl\",\"blob\":true,\"hostmem\":2147483648}",
     "venus", ""},
    {SHOW MEM "-device {\"driver\":", "device", ""},
    /* displays */
    {GPU MEM "-display egl-headless", "", ""},
    {GPU MEM "-display egl-headless,rendernode=/dev/dri/renderD129", "", ""},
    {GPU MEM "-display gtk,gl=es", "", ""},
    {GPU MEM "-display gtk", "display", ""},
    {GPU MEM "-display sdl,gl=off", "display", ""},
    {GPU MEM "-display sdl,gl=on -display none", "display", ""},
    {GPU MEM "-nographic", "display", ""},
    {GPU MEM "-nographic -display egl-headless", "", ""},
    {GPU MEM "-spice gl=on,disable-ticketing=on", "", ""},
    {GPU MEM "-vnc :0", "display", ""},
    {GPU MEM "-vnc :0 -display egl-headless", "", ""},
    /* memory */
    {GPU SHOW "-m 4G", "", "memory"},
    {GPU SHOW "-object memory-backend-ram,id=m,size=4G,share=on -machine memory-backend=m", "",
     "memory"},
    {GPU SHOW "-object memory-backend-memfd,id=m,size=4G -M q35,memory-backend=m", "", ""},
    {GPU SHOW "-object memory-backend-memfd,id=m,size=4G,share=off -M memory-backend=m", "",
     "memory"},
    {GPU SHOW "-object memory-backend-memfd,id=m,size=4G -M memory-backend=other", "", "memory"},
    {GPU SHOW "-object memory-backend-memfd,id=m,size=4G -numa node,memdev=m", "", ""},
    /* what QEMU denies itself */
    {GPU MEM SHOW "-sandbox on,obsolete=deny,spawn=deny", "sandbox", ""},
    {GPU MEM SHOW "-sandbox on,spawn=allow", "sandbox", ""},
    {GPU MEM SHOW "-sandbox off,spawn=deny", "", ""},
    /* what may be set elsewhere is no failure */
    {"-readconfig vm.conf", "", "device display memory other"},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=2G,blob=on -global virtio-gpu-gl-pci.venus=on", "",
     "venus other"},
    {SHOW MEM "-device virtio-gpu-gl,hostmem=2G,blob=on -global ICH9-LPC.disable_s3=1", "venus",
     ""},
};

static void names_of(const struct qemu_finding *findings, int n, enum qemu_status status,
                     char names[256])
{
    names[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (findings[i].status != status)
            continue;
        if (names[0])
            strcat(names, " ");
        strcat(names, findings[i].name);
    }
}

TEST(what_is_missing_is_found)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[512], names[256];
        char *words[WORDS_MAX] = {0};
        struct qemu_finding findings[QEMU_FINDINGS_MAX];
        int n = 0;

        snprintf(text, sizeof(text), "%s", lines[i].line);
        for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
            words[n++] = word;
        const int found = qemu_check(n, words, findings);
        assert_int_in_range(found, 1, QEMU_FINDINGS_MAX);
        print_message("%s\n", lines[i].line);
        names_of(findings, found, QEMU_FAIL, names);
        assert_string_equal(names, lines[i].fails);
        names_of(findings, found, QEMU_WARN, names);
        assert_string_equal(names, lines[i].warns);
        /* Who is told that something is missing is told what to add. */
        for (int k = 0; k < found; k++) {
            assert_true(findings[k].text[0] != '\0');
            assert_true(findings[k].status != QEMU_FAIL || findings[k].add[0] != '\0');
        }
    }
}

TEST(an_option_without_its_value_is_none)
{
    static const char *const options[] = {"-device", "-display", "-object", "-machine", "-sandbox"};
    struct qemu_finding findings[QEMU_FINDINGS_MAX];

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        char *words[] = {(char *)(size_t)options[i]};
        assert_int_in_range(qemu_check(1, words, findings), 3, QEMU_FINDINGS_MAX);
    }
}

TEST(qemu_is_known_by_its_name)
{
    assert_true(qemu_is("qemu-system-x86_64"));
    assert_true(qemu_is("/usr/bin/qemu-system-aarch64"));
    assert_true(qemu_is("/usr/libexec/qemu-kvm"));
    assert_false(qemu_is("qemu-img"));
    assert_false(qemu_is("crosvm"));
    assert_false(qemu_is("/opt/qemu-system-x86_64/run"));
}

TEST(sdl_is_told_from_other_displays)
{
    char *sdl[] = {"-display", "sdl,gl=on"}, *gtk[] = {"-display", "gtk,gl=on"};

    assert_true(qemu_draws_by_sdl(2, sdl));
    assert_false(qemu_draws_by_sdl(2, gtk));
    assert_false(qemu_draws_by_sdl(0, NULL));
}
