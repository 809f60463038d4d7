/* SPDX-License-Identifier: Apache-2.0 */
/* apir-bench: measures models on several devices in turn; report.sh judges what came out. */
#include <stdio.h>
#include <string.h>

#include "tests/bench/options.h"

#define ENGINE " model side case out threads verbose "

static const struct command commands[] = {
    {"llama", ENGINE "pairs first pp prompts tg same settle stamp cores swap at-once ",
     "prompt and generation, sides in turn or at once", command_llama},
    {"serve", ENGINE "pp prompts tg settle ", "one side, in turns with a `llama` elsewhere",
     command_serve},
    {"load", ENGINE "pairs cold ", "time to load the model, sides in turn", command_load},
    {"together", ENGINE "pairs processes seconds ", "several processes at once, sides in turn",
     command_together},
    {"soak", ENGINE "tokens server ", "memory over many tokens, one side", command_soak},
    {"idle", ENGINE "seconds server ", "CPU time while nothing happens, one side", command_idle},
    {"link", " case out graphs repeat ", "the way to APIR0: a graph of one node, set and get",
     command_link},
    {"overhead", " case out tokens stamp ", "what APIR0 adds to a token that computes nothing",
     command_overhead},
    {"machine", " out set verbose ", "one line about this machine", command_machine},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char options[] =
    "\n"
    "llama, serve, load, together, soak, idle:\n"
    "  --model FILE          GGUF; together: FILE,FILE..., handed out in turn\n"
    "  --side NAME=DEVICE    CPU, a ggml device such as APIR0 or Vulkan0, or rpc:HOST:PORT;\n"
    "                        several, but one for serve, soak and idle. \"native\" is what the\n"
    "                        report compares with\n"
    "  --threads N           CPU threads of this process (default 1)\n"
    "  --verbose             llama.cpp's own log\n"
    "these, link and overhead:\n"
    "  --case NAME           in the samples (default: the command)\n"
    "  --out FILE            samples are appended to it, one JSON object a line (default:\n"
    "                        stdout; of link and overhead: nowhere)\n"
    "llama, load, together:\n"
    "  --pairs N             each with every side once (default 20)\n"
    "llama, serve:\n"
    "  --pp N --tg N         prompt tokens and generated tokens (default 512 and 64); 0: none\n"
    "  --prompts N           in a turn, and their mean counts (default 1)\n"
    "  --settle              turns begin with a prompt, and up to 50 ms of tokens, not counted\n"
    "llama, overhead:\n"
    "  --stamp FILE          libggml-stamp.so, for a side STAMP0: no side computes, and instead\n"
    "                        of logits what that library leaves in their place is checked\n"
    "load:\n"
    "  --cold                the file is not in the page cache\n"
    "llama:\n"
    "  --side NAME=peer:R,W  an `apir-bench serve`, which answers on descriptor R and is asked on\n"
    "                        W; peer:R,W,PID: and process PID computes for it\n"
    "  --at-once             all sides, peers with a PID, have their turns at the same time on\n"
    "                        one core; what these processes waited for it is not counted, and\n"
    "                        all turns are one sample\n"
    "  --first N             the first pair's number (default 0)\n"
    "  --cores CORE,...      one for each side: where this thread is in its turns. What computes\n"
    "                        for a side in another process is put on a core by whoever starts it\n"
    "  --swap PID,...        pairs are two rounds, whose mean counts: in the second, this thread\n"
    "                        and these processes, with all below them, have changed cores. Each\n"
    "                        of them must be on one of the two in --cores\n"
    "  --same NAME           other greedy tokens of this side than the first one's are an error\n"
    "together:\n"
    "  --processes N         (default 4)\n"
    "  --seconds S           of each round (default 10)\n"
    "soak, idle:\n"
    "  --server PID          of this side, with all below it; without it, this process only\n"
    "soak:\n"
    "  --tokens N            (default 100000)\n"
    "idle:\n"
    "  --seconds S           (default 60)\n"
    "link:\n"
    "  --graphs N            timed computations, in blocks of 100 (default 2000); 0: none\n"
    "  --repeat N            how often 64 MiB are set and got (default 20); 0: never\n"
    "overhead:\n"
    "  --tokens N            timed ones per variant and side (default 200000)\n"
    "machine:\n"
    "  --set KEY=VALUE       more facts, such as the GPU's driver\n"
    "\n"
    "Where APIR0 is comes from the environment: GGML_BACKEND_PATH and APIR_TRANSPORT.\n";

static void usage(FILE *f)
{
    fputs("usage: apir-bench COMMAND [OPTION]...\n\n", f);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].about);
    fputs(options, f);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
        (argc == 3 && strcmp(argv[2], "--help") == 0)) {
        usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        struct options o;
        if (strcmp(commands[i].name, name) != 0)
            continue;
        options_parse(&o, &commands[i], argc - 1, argv + 1);
        commands[i].run(&o);
        if (o.file != stdout && fclose(o.file) != 0)
            fail("--out %s: %m", o.out);
        return 0;
    }
    usage(stderr);
    return 2;
}
