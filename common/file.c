/* SPDX-License-Identifier: Apache-2.0 */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

int apir_file_read(int fd, size_t max, char **ret_data, size_t *ret_size, struct apir_error *err)
{
    cleanup_free char *data = NULL;
    size_t size = 0, cap = 0;

    for (;;) {
        if (size + 1 >= cap) {
            cap = cap == 0 ? 4096 : cap * 2;
            char *grown = realloc(data, cap);
            if (!grown)
                return apir_error_sys(err, ENOMEM, "read");
            data = grown;
        }
        ssize_t n = read(fd, data + size, cap - size - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return apir_error_sys(err, errno, "read");
        if (n == 0)
            break;
        size += (size_t)n;
        if (size > max)
            return apir_error_set(err, EFBIG, "larger than %zu bytes", max);
    }
    data[size] = '\0';
    *ret_data = steal_pointer(&data);
    *ret_size = size;
    return 0;
}

ssize_t apir_file_begin(const char *path, char *text, size_t size)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    text[n > 0 ? n : 0] = '\0';
    return n < 0 ? -errno : n;
}

int apir_file_write(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}
