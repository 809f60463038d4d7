/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the container's cgroup lets its processes open a device.
 *
 * The answer is the kernel's own: a child of ours joins the container's cgroup,
 * tries to open the node, and ends. Rules read out of config.json would be a guess
 * (runtimes add some, systemd others), and those of version 2, a program, cannot be
 * read at all.
 */
#pragma once

/*
 * proc is /proc/PID of the container's process, node a path on the host. Returns 1
 * (it may), 0 (the cgroup forbids it) or -errno where that could not be found out:
 * rootless, where the cgroup is not ours to enter and holds no device rules.
 */
int hook_cgroup_may_open(int proc, const char *node);
