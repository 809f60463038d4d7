/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apir: what an administrator runs on the machine that runs the containers (the
 * VM). It needs no daemon, and asks for no more rights than opening a render node;
 * what a command writes is the file that its name and its --help say.
 *
 * The table has its commands in the order of apir(1), with all that they take.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backend/config/config.h"
#include "cdi/commands.h"
#include "cdi/sandbox/formats.h"
#include "cdi/spec/spec.h"

#define FLAG(name, member, help)                                                                   \
    {name, NULL, help, offsetof(struct cdi_args, member), .lists = false}
#define TEXT(name, value, member, help)                                                            \
    {name, value, help, offsetof(struct cdi_args, member), .lists = false}
#define LIST(name, value, member, help)                                                            \
    {name, value, help, offsetof(struct cdi_args, member), .repeats = true}

#define DEVICE(help_default)                                                                       \
    {"device", "NAME",                                                                             \
     "a device of the CDI spec, as `apir cdi list` names them; more by one option each, or "       \
     "commas (default: " help_default ")",                                                         \
     offsetof(struct cdi_args, device), .lists = true}
#define SPEC                                                                                       \
    TEXT("spec", "FILE", spec,                                                                     \
         "the CDI spec (default: the one that engines take; " CDI_SPEC_PATH ")")

#define BESIDE "(default: beside this program's installation)"

static const struct cdi_command commands[] = {
    {
        .group = "cdi",
        .name = "generate",
        .brief = "write the CDI spec for this machine's devices",
        .run = cdi_generate_main,
        .about =
            "Finds the virtio-gpu render nodes of this machine, asks the host behind each for its "
            "devices, and writes a CDI spec with a device gpu0, gpu1, … for each of them. Where "
            "apir-render-server listens on this machine itself, the spec has the device host0, all "
            "that it offers, and host0-0, host0-1, … for each of that by itself.\n"
            "A device that the file named before keeps its number, whatever order devices come in; "
            "a new one gets the lowest free number; one that is gone is dropped. Where the host "
            "behind a node does not answer, the devices that the file has for that node stay; "
            "where none answers at all, the file stays as it is.",
        .options =
            {
                TEXT("output", "FILE", output,
                     "write to FILE (default " CDI_SPEC_PATH
                     ", for a user that is not root ~/.config/cdi/" CDI_SPEC_FILE
                     "; - is standard output)"),
                TEXT("vendor", "NAME", vendor,
                     "the vendor in VENDOR/CLASS=gpu0 (default " CDI_SPEC_VENDOR ")"),
                TEXT("class", "NAME", class_name, "the class (default " CDI_SPEC_CLASS ")"),
                TEXT("plugin", "PATH", plugin, "the plug-in " BESIDE),
                TEXT("hook", "PATH", hook, "the hook program " BESIDE),
                FLAG("no-hook", no_hook,
                     "a spec without the hook: device, plug-in and variables only"),
                FLAG("no-handshake", no_handshake,
                     "take nodes on the kernel's word: a device for each, which stands for "
                     "whatever its host offers"),
                TEXT("host-socket", "DIR", host_socket,
                     "add host0 with the socket DIR/" CDI_SOCKET_NAME
                     " (default: with " CDI_SOCKET_DIR ", where that socket is there)"),
                TEXT("dev-root", "DIR", dev_root,
                     "look for nodes under DIR/dev/dri; the spec names them without DIR"),
                FLAG("dry-run", dry_run, "print the spec, write nothing"),
            },
        .notes = "The spec is JSON, which is YAML too. The file is replaced at once (mode 0644).",
        .codes = "0 written, 1 failed (no host answered, or a file is missing), 2 wrong usage, 3 "
                 "nothing to write: neither a virtio-gpu node nor the socket is there.",
    },
    {
        .group = "cdi",
        .name = "list",
        .brief = "list the devices of the installed CDI specs",
        .run = cdi_list_main,
        .about =
            "Lists the devices of the CDI specs that the engines read: a line each, with its "
            "nodes, the id of the host's device where the spec tells it, and the file. Of a device "
            "that two files have it is said which of them engines take, if any.",
        .options =
            {
                FLAG("json", json, "as a JSON list: name, nodes, id, spec"),
                LIST("spec-dir", "DIR", spec_dir,
                     "read DIR instead of the folders that engines read; may be repeated, of two "
                     "folders the later one wins"),
            },
        .codes = "0 listed, 1 a spec could not be read, engines refuse a device that is there "
                 "twice, or no device was found, 2 wrong usage.",
    },
    {
        .group = "cdi",
        .name = "validate",
        .brief = "check CDI specs",
        .run = cdi_validate_main,
        .operands = "FILE...",
        .about = "Checks CDI specs (JSON) as strictly as the engines' own parsers do, and then "
                 "warns of what those take but some engine or runtime trips over.",
        .options =
            {
                FLAG("strict", strict, "a warning fails too"),
                FLAG("no-host", no_host,
                     "do not ask whether nodes, mount sources and hooks exist here"),
                FLAG("json", json, "a JSON list: file, valid, findings (each with grade and text)"),
            },
        .codes = "0 all files are valid, 1 one is not, 2 wrong usage, 3 a file could not be read "
                 "(and no other is invalid).",
    },
    {
        .name = "doctor",
        .brief = "walk the chain from device node to a computed result",
        .run = cdi_doctor_main,
        .about = "Walks the chain from the device node to a computed result and says, at the first "
                 "broken link, what to do.",
        .options =
            {
                TEXT("image", "IMAGE", image,
                     "only: what ggml is in this image (or folder), and where the hook would place "
                     "the plug-in"),
                TEXT("container", "NAME", container,
                     "only: what this running container of podman or docker was given, and whether "
                     "what exec starts in it finds it"),
                FLAG("json", json, "machine-readable; apir(1) says what is in it"),
                TEXT("spec", "FILE", spec,
                     "the CDI spec to look at (default: the one that engines take)"),
                TEXT("plugin", "PATH", plugin, "the plug-in " BESIDE),
            },
        .notes = "Each link is PASS, WARN (works here, but not for every container), FAIL, SKIP "
                 "(there is nothing here to try it with), or ---- (not checked: it rests on a "
                 "broken one). With APIR_TRANSPORT in the environment that one is walked, as the "
                 "plug-in would.",
        .codes = "0 no link is broken, 1 one is, 2 wrong usage.",
    },
    {
        .group = "engine",
        .name = "configure",
        .brief = "set what a container engine needs for CDI",
        .run = cdi_engine_configure_main,
        .operands = "ENGINE",
        .one_operand = true,
        .about = "Sets what ENGINE needs so that --device virtgpu/apir=gpu0 works, and changes "
                 "nothing where it needs nothing. As root for the whole machine, else for the "
                 "user. The engine is not restarted; the command for it is printed. containerd's "
                 "files are left alone: the lines that are missing are printed.",
        .options =
            {
                FLAG("dry-run", dry_run, "print what would change, write nothing"),
                TEXT("config", "FILE", config,
                     "the file to change, instead of the engine's usual one"),
                TEXT("engine-version", "V", engine_version,
                     "take MAJOR.MINOR[.PATCH] as its version, instead of asking it"),
                TEXT("state-dir", "DIR", state_dir,
                     "where to keep the record for `apir engine reset`"),
            },
        .codes = "0 done, or nothing to do, 1 failed (nothing is changed then), or there are lines "
                 "for you to add, 2 wrong usage.",
    },
    {
        .group = "engine",
        .name = "reset",
        .brief = "take that back",
        .run = cdi_engine_reset_main,
        .operands = "ENGINE",
        .one_operand = true,
        .about = "Takes back what `apir engine configure ENGINE` changed. What somebody else "
                 "changed in the same file since then stays.",
        .options =
            {
                FLAG("dry-run", dry_run, "print what would change, write nothing"),
                TEXT("state-dir", "DIR", state_dir, "where the record is"),
            },
        .codes = "0 done, or nothing to do, 1 failed, 2 wrong usage.",
    },
    {
        .group = "config",
        .name = "check",
        .brief = "check the host's configuration, show what holds",
        .run = cdi_config_check_main,
        .operands = "[FILE]",
        .one_operand = true,
        .may_lack = true,
        .about = "Checks the configuration of apir-render-server on the machine with the GPU, and "
                 "prints what holds: every key, its value, and whether that is the file's or the "
                 "default. Without FILE it is what a server started from here would read: "
                 "APIR_CONFIG, else " APIR_CONFIG_DEFAULT_PATH "; where there is none, defaults "
                 "hold.",
        .options = {FLAG("json", json, "one JSON object: file, valid, and error or keys")},
        .codes = "0 the configuration is valid, 1 it is not, 2 wrong usage, 3 the file could not "
                 "be read.",
    },
    {
        .group = "host",
        .name = "run",
        .brief = "run a hypervisor whose guests find APIR0",
        .run = cdi_host_run_main,
        .operands = "VMM [ARG]...",
        .runs = true,
        .about = "Runs a hypervisor whose guests find APIR0: sets RENDER_SERVER_EXEC_PATH to the "
                 "installed apir-render-server, and becomes it. What it needs besides, QEMU's "
                 "flags among it, is in docs/hypervisors.md.",
        .options = {TEXT("server", "FILE", server, "the server, instead of the installed one")},
        .codes = "the VMM's own; 2 wrong usage, 125 there is no server that could be run, 126 the "
                 "VMM cannot be run, 127 it is not found.",
    },
    {
        .group = "host",
        .name = "serve",
        .brief = "let containers of this very machine use its GPU",
        .run = cdi_host_serve_main,
        .about = "Lets containers of this very machine use its GPU, without a VM, for as long as "
                 "it runs. (As a service: systemctl enable --now apir-host.socket.)",
        .options =
            {
                TEXT("socket-dir", "DIR", socket_dir,
                     "the folder of the socket " CDI_SOCKET_NAME " (default " CDI_SOCKET_DIR
                     "); it is made where it is missing"),
                TEXT("group", "GROUP", group,
                     "who is in it may connect (default: " CDI_SOCKET_GROUP
                     ", where that group exists and root runs this)"),
            },
        .codes = "0 ended by Ctrl-C or SIGTERM, 1 failed, 2 wrong usage.",
    },
    {
        .name = "run",
        .brief = "run a program on APIR0 without a container",
        .run = cdi_run_main,
        .operands = "COMMAND [ARG]...",
        .may_lack = true,
        .runs = true,
        .about = "Runs a program on APIR0 without a container: in a VM on the GPU of its host, on "
                 "a machine without a VM on its own (`apir host serve`). COMMAND may be a sandbox "
                 "that keeps its environment, as bwrap and firejail do: it must let the plug-in's "
                 "folder through, and /dev/dri or the folder of the host's socket.",
        .options =
            {
                DEVICE("the first render node of virtio-gpu, and where there is none the host's "
                       "socket"),
                SPEC,
                FLAG("print", print,
                     "runs nothing: prints the variables, NAME=VALUE, a line each, as systemd's "
                     "EnvironmentFile= takes them"),
            },
        .codes = "the command's own; 125 no such device, or nothing to reach a host by, 126 the "
                 "command cannot be run, 127 it is not found, 2 wrong usage.",
    },
    {
        .name = "spec",
        .brief = "print what a sandbox or an engine is told for a device",
        .run = cdi_spec_main,
        .about = "Prints what a sandbox or an engine is told so that programs in it find APIR0, as "
                 "the CDI spec has it: device, plug-in, variables. Where that goes, and what is "
                 "missing for who is to open the device, is said on standard error.",
        .options =
            {
                TEXT("format", "FORMAT", format, "what it is for, one of those below (required)"),
                DEVICE("the spec's first"),
                SPEC,
                TEXT("name", "NAME", name,
                     "of the container, or of the service of compose, where the text has it "
                     "(default: CONTAINER)"),
            },
        .print_kinds = sandbox_formats_print,
        .codes = "0 printed, 1 no such device, what the spec names is not here, or the format has "
                 "no way to say it, 2 wrong usage.",
    },
    {
        .name = "top",
        .brief = "show who computes on this machine's GPUs",
        .run = cdi_top_main,
        .about = "Shows who computes on this machine's GPUs through apir, as long as it runs: a "
                 "row for each program, with its class, container, device memory, share of the "
                 "time at work, graphs and calls in a second, and what waits; below, each device, "
                 "and what was refused or lost last. Root sees all servers, any other user its "
                 "own.",
        .options =
            {
                FLAG("once", once, "once, of one interval"),
                TEXT("interval", "SECONDS", interval,
                     "of how long a time each is: 0.1 to 3600 (default 1)"),
                FLAG("json", json, "each time one JSON object, in a line"),
            },
        .codes = "0 all is well, 1 a server does not answer, 2 wrong usage, 3 there is no server "
                 "to look at.",
    },
    {
        .name = "events",
        .brief = "show what was refused and lost, and why",
        .run = cdi_events_main,
        .about =
            "Prints what servers of apir have refused and lost lately, and why: contexts refused, "
            "contexts lost, memory not given for a limit, faults of what contexts share, devices "
            "that do not compute. A server keeps the last 256 of its life. Root sees all servers, "
            "any other user its own.",
        .options =
            {
                FLAG("follow", follow, "goes on with what happens from now on"),
                FLAG("json", json, "each event as a JSON object, in a line"),
            },
        .codes = "0 all is well, 1 a server does not answer, 2 wrong usage, 3 there is no server "
                 "to look at.",
    },
    {
        .name = "metrics",
        .brief = "print the same for Prometheus",
        .run = cdi_metrics_main,
        .about = "Prints what `apir top` knows as OpenMetrics text, once: for the textfile "
                 "collector of Prometheus' node_exporter, say from a timer. Counters are since "
                 "each program's start.",
        .codes = "0 all is well, 1 a server does not answer (its apir_server_up is 0), 2 wrong "
                 "usage.",
    },
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(void)
{
    puts("Usage: apir COMMAND [OPTION]...\n"
         "\n"
         "GPU acceleration for any llama.cpp container, through virtio-gpu.\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const struct cdi_command *c = &commands[i];

        printf("  apir %s%s%-*s %s\n", c->group ? c->group : "", c->group ? " " : "",
               20 - (c->group ? (int)strlen(c->group) + 1 : 0), c->name, c->brief);
    }
    puts("\n"
         "  -h, --help                this text; `apir COMMAND --help` for a command's own\n"
         "      --version             the version\n"
         "\n"
         "Exit codes: 0 all is well, 1 something failed, 2 wrong usage.");
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 || strcmp(arg, "help") == 0;
}

static bool is_group(const char *arg)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].group && strcmp(commands[i].group, arg) == 0)
            return true;
    return false;
}

static bool is_command(const struct cdi_command *c, const char *group, const char *name)
{
    return !group == !c->group && (!group || strcmp(group, c->group) == 0) &&
           strcmp(c->name, name) == 0;
}

static int finish(int code)
{
    /* A full disk or a closed pipe must not pass for success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("apir: standard output");
        return code == CDI_EXIT_OK ? CDI_EXIT_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv)
{
    int skip = 1;
    const char *group = NULL;

    if (argc < 2)
        return cdi_usage_error("apir", "no command", "");
    if (strcmp(argv[1], "--version") == 0) {
        puts("apir " APIR_VERSION);
        return finish(CDI_EXIT_OK);
    }
    if (is_group(argv[1])) {
        group = argv[1];
        skip = 2;
        if (argc < 3)
            return cdi_usage_error("apir", "no command behind it: ", group);
    }
    if (is_help(argv[skip])) {
        print_usage();
        return finish(CDI_EXIT_OK);
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (!is_command(&commands[i], group, argv[skip]))
            continue;
        /* What getopt complains under. */
        char full[64];
        snprintf(full, sizeof(full), "apir %s%s%s", group ? group : "", group ? " " : "",
                 commands[i].name);
        argv[skip] = full;
        return finish(cdi_command_run(&commands[i], argc - skip, argv + skip));
    }
    return cdi_usage_error("apir", "no such command: ", argv[skip]);
}
