/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that was taken over, as far as its log goes: does to its standard error what LOUD says,
 * then prints a line as a driver does, and then becomes the real worker, LOUD_WORKER.
 *   shut      shuts it down
 *   cut       makes it empty
 *   flood     writes a line of 4,095 bytes, and 100,000 more
 *   escape    writes what a terminal would obey, and a line in the server's name
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *what = getenv("LOUD"), *worker = getenv("LOUD_WORKER");
    static char wide[4096];
    (void)argc;
    if (!what || !worker)
        return 2;
    if (strcmp(what, "shut") == 0)
        (void)shutdown(STDERR_FILENO, SHUT_RDWR);
    else if (strcmp(what, "cut") == 0 && ftruncate(STDERR_FILENO, 0) == 0)
        (void)lseek(STDERR_FILENO, 0, SEEK_SET);
    if (strcmp(what, "flood") == 0) {
        memset(wide, 'w', sizeof(wide) - 1);
        dprintf(STDERR_FILENO, "%s\n", wide);
    }
    for (int i = 0; i < 100000 && strcmp(what, "flood") == 0; i++)
        dprintf(STDERR_FILENO, "line %d of a flood\n", i);
    if (strcmp(what, "escape") == 0)
        dprintf(STDERR_FILENO,
                "\033[2Jgone\rhere\napir: context 1 is lost: so it says\nx\xc2\x9by\n");
    dprintf(STDERR_FILENO, "a driver's line\n");
    argv[0] = (char *)(size_t)worker;
    execv(worker, argv);
    return 2;
}
