/* SPDX-License-Identifier: Apache-2.0 */
/* Who may change what a path leads to. */
#include "tests/lib/unit.h"

#include <sys/stat.h>

#include "cdi/folder.h"
#include "common/error.h"

FOLDER_TEST(a_path_from_where_we_are_is_checked_from_the_root_on)
{
    struct apir_error err = {0};
    char *before = getcwd(NULL, 0);

    if (geteuid() != 0)
        skip();
    assert_int_equal(chdir(unit_folder), 0);
    assert_int_equal(mkdir("ours", 0755), 0);
    assert_int_equal(cdi_folder_check("ours", 0002, &err), 0);
    assert_int_equal(cdi_folder_check("./ours/", 0002, &err), 0);
    assert_int_equal(cdi_folder_check("none", 0002, &err), -ENOENT);
    assert_int_equal(chown(unit_folder, 4321, 4321), 0);
    assert_int_equal(cdi_folder_check("ours", 0002, &err), -EPERM);
    assert_int_equal(chown(unit_folder, 0, 0), 0);
    assert_int_equal(chdir(before), 0);
    free(before);
}
