/* SPDX-License-Identifier: Apache-2.0 */
/* What was published against ggml-rpc, which does the same work: the same mistakes, tried here. */
#include "tests/attacks/sheet.h"

#include <limits.h>

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void type_out_of_range(void)
{
    static const uint8_t types[] = {43, 63, 64, 200, 255};
    struct guest g;
    struct sheet s;
    guest_open(&g);
    sheet_square(&s);
    sheet_runs(&g, &s);
    for (size_t i = 0; i < N(types); i++) {
        /* Well-formed: another ggml might have it. */
        s.t[0].type = types[i];
        sheet_not_computed(&g, &s, APIR_E_UNSUPPORTED);
    }
    guest_close(&g);
}

/* As a tensor's data and as the place of a transfer. */
static void data_outside_its_buffer(void)
{
    static const uint64_t offsets[] = {MEMORY - 63, MEMORY, UINT64_C(1) << 46, UINT64_MAX - 15};
    struct guest g;
    struct sheet s;
    guest_open(&g);
    sheet_square(&s)->offset = MEMORY - 64;
    sheet_runs(&g, &s);
    guest_close(&g);
    for (size_t i = 0; i < N(offsets); i++) {
        sheet_square(&s)->offset = offsets[i];
        sheet_fatal(&s, "outside its buffer");
        sheet_square(&s);
        s.t[0].offset = offsets[i];
        sheet_fatal(&s, "outside its buffer");
    }
}

const struct attack_row attack_rows_rpc[] = {
    {"CVE-2024-42477", "tensor type out of range", type_out_of_range, 0, 0},
    {"CVE-2024-42478", "the client chooses where data lies", data_outside_its_buffer, 0, 0},
    {0},
};
