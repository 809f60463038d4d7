/* SPDX-License-Identifier: Apache-2.0 */
/* What the reference implementation of this kind of remoting would have fallen for. */
#include "tests/attacks/sheet.h"

static void no_nodes(void)
{
    struct guest g;
    struct sheet s;
    guest_open(&g);
    sheet_square(&s);
    sheet_runs(&g, &s);
    guest_close(&g);
    s.g.n_nodes = 0;
    sheet_fatal(&s, "node count");
    sheet_new(&s, "SQR");
    sheet_leaf(&s, F32, 4, 4, 1, 1);
    s.g.n_nodes = 0;
    sheet_fatal(&s, "node count");
}

const struct attack_row attack_rows_reference[] = {
    {"ref-no-nodes", "a graph of no nodes", no_nodes, 0, 0},
    {0},
};
