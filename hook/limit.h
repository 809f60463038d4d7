/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A time limit from outside. Reading an image can block for as long as its file system likes (one
 * that is pulled while it is read, a server that is gone), in a call that no check of a clock
 * between two reads can end. And an engine whose hook is late kills it and fails the container.
 */
#pragma once

/*
 * Calls work(arg) in a child process and returns what it returned, an exit code. What the child
 * writes to its standard output and error goes to our standard error.
 *
 * After limit_ms the kernel ends the child (SIGALRM). One that cannot be ended, since it hangs in
 * the kernel, is left to itself half a second later: it holds none of our descriptors 0 to 2,
 * nobody waits for it, and it ends before its next instruction. Returns -ETIMEDOUT in both cases,
 * -ECHILD where the child was ended by another signal. Where no process can be had work runs in
 * this one, without a limit.
 */
int hook_limit_run(int (*work)(const void *arg), const void *arg, int limit_ms);
