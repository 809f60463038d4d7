/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built against musl: loads the plug-in as a program would whose libc is not glibc. Nobody here
 * has a ggml, so it must decline.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2)
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
    return dlclose(handle);
}
