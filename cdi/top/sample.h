/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all servers say, with what this machine knows of it besides. All of it is JSON of others:
 * what is not there, or is of another type, counts as 0 or nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct json_object;

/* Longer than this no server is waited for: it does not answer. */
#define CDI_TOP_PATIENCE_MS 2000u

/*
 * A list of servers, as cdi_top_ask has it, each with "class", and each of its contexts and events
 * with "who": the container ("engine" and "id"), the program's "name", or no more than "vm" or
 * "pid", and "text", a short one for people. The caller's to put; NULL with *err.
 */
struct json_object *cdi_top_sample(struct apir_error *err);

/* Gives each context of `now` that is in `before`, too, its "rates" in between: "busy" (0 to 1),
 * "graphs", "calls" (each in a second) and "us_per_call". */
void cdi_top_rates(struct json_object *now, struct json_object *before);

/* The exit code of a command that shows them: whether there are any, and all have answered. */
int cdi_top_code(struct json_object *servers);
/* Says why there is nothing to show, where there is nothing. Returns code. */
int cdi_top_end(const char *command, int code, const struct apir_error *err);

/* The one of `servers` that this one was then; NULL: it was not there. */
struct json_object *cdi_top_same_server(struct json_object *servers, struct json_object *server);

/* The number; 0: there is none. A number below 0 is none. */
int64_t cdi_top_number(struct json_object *object, const char *key);
double cdi_top_rate(struct json_object *context, const char *key);
/* The text; "": there is none. */
const char *cdi_top_text(struct json_object *object, const char *key);
/* The i-th of a member that is a list, for what takes any type; NULL: it has ended. */
struct json_object *cdi_top_item(struct json_object *object, const char *key, size_t i);
