/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built against musl: loads the plug-in as a program would whose libc is not glibc. Nobody here
 * has a ggml, so it must decline. The second path leads to the same file.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        printf("dlopen: %s\n", dlerror());
        return 1;
    }
    int (*score)(void) = (int (*)(void))dlsym(handle, "ggml_backend_score");
    void *(*init)(void) = (void *(*)(void))dlsym(handle, "ggml_backend_init");
    if (!score || !init) {
        printf("dlsym: %s\n", dlerror());
        return 1;
    }
    printf("score %d\n", score());
    for (int i = 0; i < 2; i++) {
        if (init()) {
            printf("serves a program without ggml\n");
            return 1;
        }
    }
    printf("declined\n");
    /* Another path to the same file: state of our own, and what is listed, are there once. */
    void *again = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (again != handle) {
        printf("loaded twice\n");
        return 1;
    }
    return dlclose(handle);
}
