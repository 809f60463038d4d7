/* SPDX-License-Identifier: Apache-2.0 */
/* What was sampled, for people. */
#pragma once

#include <stdio.h>

struct json_object;

/* A row for each context, below it one for each device, the servers that do not answer, and the
 * last refusals and losses. Cleaned of what a terminal would obey. */
void cdi_top_table(FILE *out, struct json_object *servers);

/* An event as a line. */
void cdi_top_event_line(FILE *out, struct json_object *server, struct json_object *event);
