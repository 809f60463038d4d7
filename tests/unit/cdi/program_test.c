/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <limits.h>
#include <sys/stat.h>

#include "cdi/program.h"

static int shell(const char *script, unsigned timeout_ms, char *text, size_t size)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    return cdi_program_run(argv, true, timeout_ms, text, size);
}

TEST(what_a_program_says_first_is_kept_and_its_exit_code)
{
    char text[8];

    assert_int_equal(shell("echo a; echo b; exit 3", 60000, text, sizeof(text)), 3);
    assert_string_equal(text, "a\nb\n");
    /* All of it is read. */
    assert_int_equal(shell("head -c 200000 /dev/zero | tr '\\0' x; exit 4", 60000, text, 8), 4);
    assert_string_equal(text, "xxxxxxx");
    assert_int_equal(shell("kill -KILL $$", 60000, text, sizeof(text)), -ECHILD);
    const char *const none[] = {"no-such-program", NULL};
    assert_int_equal(cdi_program_run(none, true, 60000, text, sizeof(text)), -ENOENT);
    assert_string_equal(text, "");
}

TEST(a_program_without_an_end_is_ended)
{
    static const char *const scripts[] = {
        "exec sleep 1000",
        "exec >&- sleep 1000", /* its output ends */
        "exec yes",            /* its output never does */
    };
    char text[8];

    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        assert_int_equal(shell(scripts[i], 50, text, sizeof(text)), -ETIMEDOUT);
}

FOLDER_TEST(as_root_a_program_that_another_user_can_replace_is_none)
{
    char file[128], all[256], path[PATH_MAX];

    if (geteuid() != 0)
        skip();
    snprintf(file, sizeof(file), "%s/sh", unit_folder);
    assert_int_equal(symlink("/bin/true", file), 0);
    snprintf(all, sizeof(all), "bin::%s", unit_folder);
    assert_int_equal(setenv("PATH", all, 1), 0);
    assert_int_equal(cdi_program_find("sh", path), 0);
    assert_string_equal(path, file);
    assert_int_equal(chmod(unit_folder, 0777), 0);
    assert_int_equal(cdi_program_find("sh", path), -EPERM);
    assert_int_equal(chmod(unit_folder, 0755), 0);
    assert_int_equal(lchown(file, 4321, 4321), 0);
    assert_int_equal(cdi_program_find("sh", path), -EPERM);
    snprintf(all, sizeof(all), "%s:%s", unit_folder, "/usr/bin");
    assert_int_equal(setenv("PATH", all, 1), 0);
    assert_int_equal(cdi_program_find("sh", path), 0);
    assert_string_equal(path, "/usr/bin/sh");
}

FOLDER_TEST(as_root_a_link_through_what_is_another_users_leads_to_no_program)
{
    char folder[64], theirs[128], ours[128], path[PATH_MAX];

    if (geteuid() != 0)
        skip();
    snprintf(folder, sizeof(folder), "%s/theirs", unit_folder);
    snprintf(theirs, sizeof(theirs), "%s/now", folder);
    snprintf(ours, sizeof(ours), "%s/sh", unit_folder);
    assert_int_equal(setenv("PATH", unit_folder, 1), 0);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(symlink("/bin/true", theirs), 0);
    assert_int_equal(symlink("theirs/now", ours), 0);
    assert_int_equal(cdi_program_find("sh", path), 0);
    assert_int_equal(lchown(theirs, 4321, 4321), 0);
    assert_int_equal(cdi_program_find("sh", path), -EPERM);
    assert_int_equal(lchown(theirs, 0, 0), 0);
    assert_int_equal(chown(folder, 4321, 4321), 0);
    assert_int_equal(cdi_program_find("sh", path), -EPERM);
    assert_int_equal(chown(folder, 0, 0), 0);
    assert_int_equal(unlink(theirs), 0);
    assert_int_equal(symlink("../sh", theirs), 0);
    assert_int_equal(cdi_program_find("sh", path), -ENOENT); /* a circle */
}
