/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/commands.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cdi/engine/engine.h"
#include "common/text.h"

#define WIDTH 90 /* of what --help prints */

int cdi_usage_error(const char *command, const char *what, const char *word)
{
    if (what)
        apir_text_print(stderr, "%s: %s%s\n", command, what, word);
    apir_text_print(stderr, "Try '%s --help'.\n", command);
    return CDI_EXIT_USAGE;
}

int cdi_become(const char *command, char *const *words)
{
    execvp(words[0], words);
    const int error = errno;
    apir_text_print(stderr, "%s: %s: %s\n", command, words[0], strerror(error));
    return error == ENOENT ? CDI_EXIT_NOT_FOUND : CDI_EXIT_NOT_EXECUTABLE;
}

/* ---- --help ------------------------------------------------------------------------ */

/* Words, from column `at` on, in lines that begin at `indent`; a line end is a paragraph. */
static void print_words(const char *text, int at, int indent)
{
    bool first = true;

    for (; *text != '\0'; first = false) {
        const int n = (int)strcspn(text, " \n");

        if (!first && at > indent && at + 1 + n > WIDTH)
            printf("\n%*s", at = indent, "");
        else if (!first && at > indent)
            at += printf(" ");
        at += printf("%.*s", n, text);
        text += n;
        if (*text == '\n')
            printf("\n\n%*s", at = indent, "");
        text += *text != '\0';
    }
    putchar('\n');
}

static void print_option(const struct cdi_option *o, int width)
{
    printf("  --%s%s%-*s  ", o->name, o->value ? " " : "",
           width - (int)strlen(o->name) - (o->value ? 1 : 0), o->value ? o->value : "");
    print_words(o->help, width + 6, width + 6);
}

static void print_help(const struct cdi_command *c, const char *command)
{
    int width = (int)strlen("help") + 4; /* behind "-h, " */

    for (const struct cdi_option *o = c->options; o->name; o++) {
        const int n = (int)(strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0));
        width = n > width ? n : width;
    }
    printf("Usage: %s [OPTION]...%s%s\n\n", command,
           !c->operands ? ""
           : c->runs    ? " [--] "
                        : " ",
           c->operands ? c->operands : "");
    print_words(c->about, 0, 0);
    putchar('\n');
    for (const struct cdi_option *o = c->options; o->name; o++)
        print_option(o, width);
    printf("  -h, --help%*s  this text\n\n", width - 8, "");
    if (c->operands && strcmp(c->operands, "ENGINE") == 0)
        printf("ENGINE: %s\n\n", cdi_engine_names());
    if (c->print_kinds)
        c->print_kinds();
    if (c->notes) {
        print_words(c->notes, 0, 0);
        putchar('\n');
    }
    print_words(c->codes, printf("Exit codes: "), 0);
}

/* ---- what was given ------------------------------------------------------------------ */

/* False: given too often. */
static bool take(struct cdi_args *args, const struct cdi_option *o, const char *value)
{
    char *member = (char *)args + o->member;

    if (o->lists) {
        const size_t used = strlen(args->devices), room = sizeof(args->devices) - used;
        if ((size_t)snprintf(args->devices + used, room, "%s%s", used > 0 ? "," : "", value) >=
            room)
            return false;
        value = args->devices;
    }
    if (o->repeats) {
        struct cdi_repeats *all = (void *)member;
        if (all->n == CDI_REPEATS_MAX)
            return false;
        all->items[all->n++] = value;
    } else if (o->value) {
        memcpy(member, &value, sizeof(value));
    } else {
        *(bool *)(void *)member = true;
    }
    return true;
}

int cdi_command_run(const struct cdi_command *c, int argc, char **argv)
{
    struct option options[CDI_OPTIONS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
    struct cdi_args args = {.command = argv[0]};
    char what[128];

    for (int i = 0; c->options[i].name; i++)
        options[i + 1] =
            (struct option){c->options[i].name,
                            c->options[i].value ? required_argument : no_argument, NULL, 256 + i};
    for (int o; (o = getopt_long(argc, argv, c->runs ? "+h" : "h", options, NULL)) != -1;) {
        if (o == 'h') {
            print_help(c, argv[0]);
            return CDI_EXIT_OK;
        }
        if (o < 256)
            return cdi_usage_error(argv[0], NULL, NULL);
        if (!take(&args, &c->options[o - 256], optarg))
            return cdi_usage_error(argv[0], "too many of --", c->options[o - 256].name);
    }
    args.n = argc - optind;
    args.words = argv + optind;
    if (args.n == 0 && c->operands && !c->may_lack) {
        snprintf(what, sizeof(what), "no %.*s", (int)strcspn(c->operands, " ."), c->operands);
        return cdi_usage_error(argv[0], what, "");
    }
    const int most = !c->operands ? 0 : c->one_operand ? 1 : args.n;
    return args.n > most ? cdi_usage_error(argv[0], "unexpected: ", args.words[most])
                         : c->run(&args);
}
