/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stay SOCKET: a client of the test server that asks for nothing and stays as long as the server
 * does. While it is there, others may come and leave: the test server kills its render server with
 * the last one, and with it what that was about to write to its log.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc != 2 || strlen(argv[1]) >= sizeof address.sun_path) {
        fputs("usage: stay SOCKET\n", stderr);
        return 2;
    }
    memcpy(address.sun_path, argv[1], strlen(argv[1]));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror(argv[1]);
        return 1;
    }
    /* The test server takes its clients in their order: whoever comes after this line comes after
     * us. */
    puts("here");
    fflush(stdout);
    char none;
    return read(fd, &none, 1) != 0;
}
