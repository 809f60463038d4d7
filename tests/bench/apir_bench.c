/* SPDX-License-Identifier: Apache-2.0 */
/* apir-bench: measures models on several devices in turn, and judges what came out. */
#include <stdio.h>
#include <string.h>

#include "tests/bench/options.h"

#define ENGINE " model side case out threads verbose "

static const struct command commands[] = {
    {"llama", ENGINE "pairs first pp prompts tg same settle stamp cores swap at-once ",
     "prompt and generation, sides in turn or at once", command_llama},
    {"serve", ENGINE "pp prompts tg settle ", "one side, in turns with a `llama` elsewhere",
     command_serve},
    {"load", ENGINE "pairs ", "time to load the model, sides in turn", command_load},
    {"together", ENGINE "pairs processes seconds ", "several processes at once, sides in turn",
     command_together},
    {"soak", ENGINE "tokens worker-pid-of ", "memory over many tokens, one side", command_soak},
    {"idle", ENGINE "seconds pids ", "CPU time while nothing happens, one side", command_idle},
    {"machine", " out set verbose ", "one line about this machine", command_machine},
    {"report", " samples out targets ", "statistics, chart and verdicts", command_report},
};

static void usage(FILE *f)
{
    fputs("usage: apir-bench COMMAND [OPTION]...\n\n", f);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].about);
    fputs(
        "\n"
        "llama, serve, load, together, soak, idle:\n"
        "  --model FILE          GGUF; together: FILE,FILE..., handed out in turn\n"
        "  --side NAME=DEVICE    CPU, a ggml device such as APIR0 or Vulkan0, or rpc:HOST:PORT;\n"
        "                        several, but one for serve, soak and idle. \"native\" is what the "
        "report\n"
        "                        compares with\n"
        "  --case NAME           in the samples (default: the command)\n"
        "  --out FILE            samples are appended to it, one JSON object a line (default: "
        "stdout)\n"
        "  --threads N           CPU threads of this process (default 1)\n"
        "  --verbose             llama.cpp's own log\n"
        "llama, load, together:\n"
        "  --pairs N             each with every side once (default 20)\n"
        "llama, serve:\n"
        "  --pp N --tg N         prompt tokens and generated tokens (default 512 and 64); 0: none\n"
        "  --prompts N           in a turn, and their mean counts (default 1)\n"
        "  --settle              turns begin with a prompt, and up to 50 ms of tokens, not "
        "counted\n"
        "llama:\n"
        "  --stamp FILE          libggml-stamp.so, for a side STAMP0: no side computes, and "
        "instead of\n"
        "                        logits what that library leaves in their place is checked\n"
        "  --side NAME=peer:R,W  an `apir-bench serve`, which answers on descriptor R and is asked "
        "on W;\n"
        "                        peer:R,W,PID: and process PID computes for it\n"
        "  --at-once             all sides, peers with a PID, have their turns at the same time on "
        "one\n"
        "                        core; what these processes waited for it is not counted, and all\n"
        "                        turns are one sample\n"
        "  --first N             the first pair's number (default 0)\n"
        "  --cores CORE,...      one for each side: where this thread is in its turns. What "
        "computes\n"
        "                        for a side in another process is put on a core by whoever starts "
        "it\n"
        "  --swap PID,...        pairs are two rounds, whose mean counts: in the second, this "
        "thread\n"
        "                        and these processes, with all below them, have changed cores. "
        "Each\n"
        "                        of them must be on one of the two in --cores\n"
        "  --same                other greedy tokens than the first side's are an error\n"
        "together:\n"
        "  --processes N         (default 4)\n"
        "  --seconds S           of each round (default 10)\n"
        "soak:\n"
        "  --tokens N            (default 100000)\n"
        "  --worker-pid-of PID   the server of this side; without it, this process only\n"
        "idle:\n"
        "  --seconds S           (default 60)\n"
        "  --pids PID            the server of this side, counted with all below it\n"
        "machine:\n"
        "  --set KEY=VALUE       more facts, such as the GPU's driver\n"
        "report:\n"
        "  --samples FILE...     all files of one run\n"
        "  --out DIR             for results.json, table.md, chart.svg\n"
        "  --targets PREFIX      only targets whose names begin so\n"
        "\n"
        "Where APIR0 is comes from the environment: GGML_BACKEND_PATH and APIR_TRANSPORT.\n",
        f);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
        (argc == 3 && strcmp(argv[2], "--help") == 0)) {
        usage(stdout);
        return 0;
    }
    const struct command *command = NULL;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) == 0)
            command = &commands[i];
    }
    if (!command) {
        usage(stderr);
        return 2;
    }
    struct options o;
    struct apir_error err = {0};
    if (options_parse(&o, command, argc - 1, argv + 1, &err) < 0) {
        fprintf(stderr, "apir-bench: %s\n", err.msg);
        return 2;
    }
    if (command->run(&o, &err) < 0) {
        fprintf(stderr, "apir-bench: %s: %s\n", o.name, err.msg);
        return 1;
    }
    return 0;
}
