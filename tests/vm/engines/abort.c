/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for a backend of the image's own that does not survive a host it was
 * not made for: a libggml-virtgpu.so that ends the program when it is loaded.
 */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void end(void)
{
    fputs("the image's own libggml-virtgpu.so was loaded\n", stderr);
    abort();
}
