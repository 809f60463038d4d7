/* SPDX-License-Identifier: Apache-2.0 */
/* apir top */
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cdi/commands.h"
#include "cdi/top/sample.h"
#include "cdi/top/table.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/text.h"

struct top {
    bool once, json;
    double seconds;
};

static void print_json(struct json_object *servers)
{
    cleanup_json struct json_object *all = json_object_new_object();

    (void)apir_json_set(all, "at_ms",
                        json_object_new_int64((int64_t)(apir_clock_ns(CLOCK_REALTIME) / 1000000)));
    (void)apir_json_set(all, "servers", json_object_get(servers));
    (void)apir_text_print_json(json_object_to_json_string_ext(
        all, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* So much of the text as the terminal shows: a line that goes on in the next one moves all. */
static void print_screen(const char *text)
{
    struct winsize size = {0};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    if (size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    fputs("\033[H\033[J", stdout);
    for (unsigned row = 1; *text && row < size.ws_row; row++) {
        const size_t length = strcspn(text, "\n");
        size_t shown = length < size.ws_col ? length : size.ws_col;
        while (shown < length && shown > 0 && ((unsigned char)text[shown] & 0xC0) == 0x80)
            shown--;
        printf("%.*s\n", (int)shown, text);
        text += length + (text[length] == '\n');
    }
}

static void print(const struct top *top, struct json_object *servers)
{
    cleanup_free char *text = NULL;
    size_t size = 0;

    if (top->json) {
        print_json(servers);
    } else if (top->once || !isatty(STDOUT_FILENO)) {
        cdi_top_table(stdout, servers);
    } else {
        FILE *out = open_memstream(&text, &size);
        if (!out)
            return;
        cdi_top_table(out, servers);
        fclose(out);
        print_screen(text);
    }
    fflush(stdout);
}

static int show(const struct top *top, struct apir_error *err)
{
    const struct timespec pause = {.tv_sec = (time_t)top->seconds,
                                   .tv_nsec =
                                       (long)((top->seconds - (double)(time_t)top->seconds) * 1e9)};
    cleanup_json struct json_object *before = cdi_top_sample(err);

    while (before) {
        (void)nanosleep(&pause, NULL);
        struct json_object *now = cdi_top_sample(err);
        if (!now)
            break;
        cdi_top_rates(now, before);
        json_object_put(before);
        before = now;
        print(top, now);
        if (top->once || ferror(stdout))
            return cdi_top_code(now);
    }
    return CDI_EXIT_FAILED;
}

static bool parse_seconds(const char *text, double *ret_seconds)
{
    char *end;
    const double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds >= 0.1 && seconds <= 3600))
        return false;
    *ret_seconds = seconds;
    return true;
}

int cdi_top_main(const struct cdi_args *args)
{
    struct top top = {.once = args->once, .json = args->json, .seconds = 1};
    struct apir_error err = {0};

    if (args->interval && !parse_seconds(args->interval, &top.seconds))
        return cdi_usage_error(args->command, "--interval wants 0.1 to 3600 seconds, not ",
                               args->interval);
    return cdi_top_end(args->command, show(&top, &err), &err);
}
