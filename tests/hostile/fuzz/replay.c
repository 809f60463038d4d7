/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over its kept corpus, which make has unpacked, or over the files and folders
 * named: the unit test of a target in every MODE, and the way to look at one finding.
 */
#define _GNU_SOURCE
#include "tests/hostile/fuzz/fuzz.h"

#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

static int total;

static int replay_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    /* Of exactly its size, so that ASan sees a read behind it. */
    size_t size = (size_t)st->st_size;
    if (type != FTW_F || path[ftw->base] == '.')
        return 0;
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    if (!f || !data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "%s: %s\n", path, f ? "cannot read it" : strerror(errno));
        exit(1);
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    fclose(f);
    total++;
    return 0;
}

int main(int argc, char **argv)
{
    char kept[256];
    snprintf(kept, sizeof(kept), FUZZ_CORPUS "/%s", fuzz_corpus);
    for (int i = 1; i < argc || i == 1; i++) {
        const char *path = argc > 1 ? argv[i] : kept;
        if (nftw(path, replay_file, 16, 0) != 0) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
            return 1;
        }
    }
    printf("%s: %d inputs\n", fuzz_corpus, total);
    return total > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
