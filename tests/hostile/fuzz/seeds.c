/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seeds DIR: writes the well-formed inputs that the fuzzers start from to
 * DIR/messages, DIR/graph and DIR/elf. `make fuzz-seeds` after a change to the
 * protocol.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/graph_write.h"
#include "tests/lib/elf_write.h"
#include "tests/lib/message_table.h"

static const char *out_dir;
static uint8_t buf[64 << 10];

static void write_seed(const char *corpus, const char *name, size_t size)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", out_dir, corpus);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    snprintf(path, sizeof(path), "%s/%s/%s", out_dir, corpus, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(buf, 1, size, f) != size || fclose(f) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
}

/* ---- messages ------------------------------------------------------------------- */

/* Small seeds make fast fuzzers: the size of a payload is mutated soon enough. */
static void shrink_payload(const struct message_field *f, void *user)
{
    (void)user;
    if (strcmp(f->name, "size") == 0)
        message_field_put(f, 64);
}

static size_t put_message(size_t at, const struct message_row *row, bool high)
{
    static uint8_t payload[APIR_INLINE_MAX];
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)i;
    struct apir_msg msg;
    message_extreme(&msg, row, high, payload);
    if (row->tail)
        message_walk(&msg, shrink_payload, NULL);
    int64_t n = apir_msg_encode(&msg, buf + at, sizeof(buf) - at);
    if (n < 0) {
        fprintf(stderr, "%s: cannot encode it\n", row->name);
        exit(1);
    }
    return at + (size_t)n;
}

static size_t put_front(uint32_t start, int32_t skew)
{
    memcpy(buf, &start, sizeof(start));
    memcpy(buf + 4, &skew, sizeof(skew));
    return 8;
}

static void message_seeds(void)
{
    const struct message_row *hello = &message_table[0];
    const uint32_t ring = APIR_RING_SIZE_MIN / 2;
    /* Each message alone at its highest; all of them at their lowest, in one. */
    for (size_t i = 0; i < MESSAGE_ROWS; i++) {
        size_t n = put_front(0, 0);
        if (message_table[i].states & APIR_ST_READY)
            n = put_message(n, hello, false);
        n = put_message(n, &message_table[i], true);
        write_seed("messages", message_table[i].name, n);
    }
    static const struct {
        const char *name;
        uint32_t start;
        int32_t skew;
    } all[] = {
        {"all", 0, 0},
        {"all-over-the-end", 0u - 64, 0},
        {"all-straddling", ring - 200, 0},
        {"all-tail-short", 0, -4},
        {"all-tail-back", 4096, INT32_MIN},
        {"all-tail-far", 0, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        size_t n = put_front(all[i].start, all[i].skew);
        for (size_t k = 0; k < MESSAGE_ROWS; k++)
            n = put_message(n, &message_table[k], false);
        write_seed("messages", all[i].name, n);
    }
}

/* ---- graphs --------------------------------------------------------------------- */

static void graph_seed(const char *name, const struct apir_graph *g)
{
    size_t size = graph_write(g, buf, sizeof(buf));
    if (size == 0)
        exit(1);
    write_seed("graph", name, size);
}

static void graph_seeds(void)
{
    graph_seed("sample", sample_graph());

    /* The form of OP_QUERY: one op, no buffers. */
    struct apir_name names[2] = {{APIR_NAME_OP, "GLU"}, {APIR_NAME_GLU, "SWIGLU"}};
    struct apir_tensor t[2] = {sample_tensor(0, APIR_NO_NAME), sample_tensor(APIR_TENSOR_NODE, 0)};
    t[1].sub = 1;
    t[1].n_src = 1;
    t[1].src[0] = 0;
    const struct apir_graph query = {
        .n_names = 2, .names = names, .n_tensors = 2, .n_nodes = 1, .tensors = t};
    graph_seed("query", &query);

    /* The least there can be. */
    struct apir_name none = {APIR_NAME_OP, "NONE"};
    struct apir_tensor only = sample_tensor(APIR_TENSOR_NODE, 0);
    const struct apir_graph least = {
        .n_names = 1, .names = &none, .n_tensors = 1, .n_nodes = 1, .tensors = &only};
    graph_seed("least", &least);
}

/* ---- ELF files of an image -------------------------------------------------------- */

static void elf_seeds(void)
{
    static const char *const functions[] = {"ggml_backend_load_all", "ggml_backend_buffer_init",
                                            "ggml_op_name", NULL};
    static const char data[] =
        "\0GGML_BACKEND_PATH\0metal\0sycl\0virtgpu\0/usr/lib/ggml/b\0ackends0";
    const struct elf_spec library = {
        .machine = EM_X86_64,
        .type = ET_DYN,
        .needed = {"libggml-base.so.0", "libc.so.6"},
        .defined = functions,
        .undefined = {"getenv"},
        .data = data,
        .data_size = sizeof(data),
    };
    struct elf_spec specs[] = {library, library, library, library};
    static const char *const names[] = {"library", "library-gnu-hash", "program", "static"};
    struct elf_out out;

    specs[1].gnu_hash = true;
    specs[2].interp = "/lib/ld-musl-x86_64.so.1";
    specs[2].pie = true;
    specs[3].type = ET_EXEC;
    specs[3].no_dynamic = true;
    for (size_t i = 0; i < 4; i++) {
        elf_write(&specs[i], &out);
        memcpy(buf, out.bytes, out.n);
        write_seed("elf", names[i], out.n);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: seeds DIR\n");
        return 2;
    }
    out_dir = argv[1];
    message_seeds();
    graph_seeds();
    elf_seeds();
    return 0;
}
