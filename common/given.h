/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container was given, for every process in it. A variable does not reach what an engine
 * starts later (exec, a health check), nor what sudo or cron start; a mount does. So the CDI spec
 * mounts the plug-in a second time for each device, and the mount point's name says which it is:
 *
 *   gpu2=ID       the device of the host whose id is ID, as number 2; by a virtio-gpu node
 *   host0         all devices of the host behind the socket
 *   host0-1=ID    that one of them, as number 1
 *
 * ID has letters, digits and ". _ : -" as they are, each other byte as % and two digits (0 to 9,
 * A to F). Only a mount of the plug-in itself counts: an image can bring files of such names, and
 * an engine leaves an empty one where a mount was, but neither can be the host's file.
 */
#pragma once

#define APIR_GIVEN_PLUGIN "/usr/lib/apir/libggml-apir.so"
#define APIR_GIVEN_FOLDER "/usr/lib/apir/devices"

#define APIR_GIVEN_GPU         "gpu"
#define APIR_GIVEN_HOST        "host0"
#define APIR_GIVEN_HOST_DEVICE "host0-"

/* The variable of host0-N is APIR_DEVICE_<this + N>: gpuN has APIR_DEVICE_N, and both may be
 * given. A number is below it. */
#define APIR_GIVEN_HOST_FIRST 10000u

/*
 * What helps a program of an exec whose ggml lies where nothing could be placed, on a volume say.
 * The hook's log, apir doctor, docs/troubleshooting.md and docs/engines.md have it in these words.
 */
#define APIR_GIVEN_EXEC_ADVICE                                                                     \
    "exec and health checks get no variable of the spec: give run, or exec, "                      \
    "-e GGML_BACKEND_PATH=" APIR_GIVEN_PLUGIN " -e GGML_VK_VISIBLE_DEVICES="
