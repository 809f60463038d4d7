/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over its kept corpus, which make has unpacked, or over the files and folders
 * named: the unit test of a target in every MODE, and the way to look at one finding.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        if (f)
            fclose(f);
        return -1;
    }
    /* Of exactly its size, so that ASan sees a read behind it. */
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    int rc = data && fread(data, 1, size, f) == size ? 1 : -1;
    if (rc < 0)
        fprintf(stderr, "%s: cannot read it\n", path);
    else
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    fclose(f);
    return rc;
}

/* The number of inputs, or -1. */
static int replay(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir && errno == ENOTDIR)
        return replay_file(path);
    if (!dir) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    int count = 0;
    for (const struct dirent *e = readdir(dir); e && count >= 0; e = readdir(dir)) {
        if (e->d_name[0] == '.')
            continue;
        char file[4096];
        int n = snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
        int got = n > 0 && (size_t)n < sizeof(file) ? replay_file(file) : -1;
        count = got < 0 ? -1 : count + got;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    char kept[256];
    snprintf(kept, sizeof(kept), FUZZ_CORPUS "/%s", fuzz_corpus);
    for (int i = 1; i < argc || i == 1; i++) {
        int n = replay(argc > 1 ? argv[i] : kept);
        if (n < 0)
            return 1;
        total += n;
    }
    printf("%s: %d inputs\n", fuzz_corpus, total);
    return total > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
