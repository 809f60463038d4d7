/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/hostile/soak/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/processes.h"

struct board *board_make(const char *folder, char setting[128])
{
    char path[96];
    snprintf(path, sizeof(path), "%s/board", folder);
    snprintf(setting, 128, "%s=%s", BOARD_ENV, path);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct board)) < 0)
        die("%s: %s", path, strerror(errno));
    struct board *board =
        mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (board == MAP_FAILED)
        die("%s: %s", path, strerror(errno));
    atomic_store(&board->phase, BOARD_NO_PHASE);
    return board;
}

double board_share(const struct board *board, enum board_phase phase, double share)
{
    uint64_t n = 0, seen = 0;
    double end = 1;
    for (int i = 0; i < BOARD_BUCKETS; i++)
        n += atomic_load(&board->requests[phase][i]);
    for (int i = 0; i < BOARD_BUCKETS; i++, end *= BOARD_STEP) {
        seen += atomic_load(&board->requests[phase][i]);
        if (seen > 0 && (double)seen >= share * (double)n)
            return end / 1000;
    }
    return 0;
}

void board_print_log(const char *path)
{
    char line[512];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        fprintf(stderr, "    %s", line);
    if (f)
        fclose(f);
}
