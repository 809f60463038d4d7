/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes: to start them, to wait for them, and what /proc says of them. */
#ifndef APIR_TEST_PROCESSES_H
#define APIR_TEST_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* For what no test is about and no test can go on without: prints it and ends the program with 2.
 */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct process {
    pid_t pid;
    pid_t parent;
    uint64_t started; /* in clock ticks since boot */
    char state;       /* R, S, T, Z ...; 0: there is none */
    char name[16];
};

enum { PROCESSES_MAX = 512 };

struct process process_look(pid_t pid);
/* There, and not a zombie. */
bool process_lives(pid_t pid);
/* The children of a process, zombies too, by pid; returns how many. */
size_t process_children(pid_t parent, struct process all[PROCESSES_MAX]);
/* Those that live and whose command line holds `text`: the youngest, or -1, and how many. */
pid_t process_child(pid_t parent, const char *text, unsigned *ret_count);

/*
 * Starts argv[0] with `env` (NAME=VALUE, up to NULL; may be NULL) added to the environment. Before
 * that the child calls prepare(user), if there is one. Ends with the thread that calls this.
 */
pid_t process_spawn(const char *const argv[], const char *const env[], void (*prepare)(void *user),
                    void *user);
/* The same with stdin empty and both outputs to the end of the file `log` (NULL: nowhere). */
pid_t process_start(const char *const argv[], const char *const env[], const char *log);
/* Its wait status once it has ended, or -1: it runs on after `limit_ms`. */
int process_end(pid_t pid, int64_t limit_ms);
/* Kills and reaps. */
void process_kill(pid_t pid);

/* The path of what was built beside this program (which is tests/FOLDER/PROGRAM), from its name in
 * the build's output folder. Static memory, until the next call. */
const char *process_built(const char *name);

#endif
