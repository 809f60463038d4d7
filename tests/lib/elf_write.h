/* SPDX-License-Identifier: Apache-2.0 */
/* Writes small, sound ELF files of 64 bits, for tests to look at or to spoil. */
#ifndef APIR_TEST_HOOK_ELF_WRITE_H
#define APIR_TEST_HOOK_ELF_WRITE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ELF_WRITE_MAX 16384

struct elf_spec {
    uint16_t machine, type;
    const char *interp, *soname;
    const char *needed[8];
    const char *const *defined; /* NULL-terminated, or NULL */
    const char *undefined[4];
    const char *data; /* constants */
    size_t data_size;
    bool pie, gnu_hash, no_dynamic;
};

struct elf_out {
    _Alignas(16) unsigned char bytes[ELF_WRITE_MAX];
    size_t n;
};

static inline size_t elf_put(struct elf_out *o, const void *data, size_t size)
{
    size_t at = (o->n + 15) & ~(size_t)15;

    if (at + size > sizeof(o->bytes))
        abort();
    if (size > 0)
        memcpy(o->bytes + at, data, size);
    o->n = at + size;
    return at;
}

static inline Elf64_Ehdr elf_header(const struct elf_spec *spec)
{
    return (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                        .e_type = spec->type,
                        .e_machine = spec->machine,
                        .e_version = EV_CURRENT,
                        .e_phoff = sizeof(Elf64_Ehdr),
                        .e_ehsize = sizeof(Elf64_Ehdr),
                        .e_phentsize = sizeof(Elf64_Phdr)};
}

/* Addresses are offsets: one segment holds the whole file. */
static inline void elf_write(const struct elf_spec *spec, struct elf_out *o)
{
    char names[2048] = "";
    size_t names_size = 1, n_symbols = 1, n_dynamic = 0, n_headers = 1;
    Elf64_Sym symbols[64] = {0};
    Elf64_Dyn dynamic[32] = {0};
    Elf64_Phdr ph[3] = {0};
    Elf64_Ehdr header = elf_header(spec);

    memset(o, 0, sizeof(*o));
    o->n = sizeof(header) + sizeof(ph);
#define ELF_NAME(s) (strcpy(names + names_size, (s)), names_size += strlen(s) + 1)
    for (size_t i = 0; i < 4 && spec->undefined[i]; i++) {
        symbols[n_symbols++].st_name = (uint32_t)names_size;
        ELF_NAME(spec->undefined[i]);
    }
    uint32_t first = (uint32_t)n_symbols;
    for (size_t i = 0; spec->defined && spec->defined[i]; i++) {
        symbols[n_symbols].st_name = (uint32_t)names_size;
        symbols[n_symbols++].st_shndx = 1;
        ELF_NAME(spec->defined[i]);
    }
    for (size_t i = 0; i < 9; i++) {
        const char *name = i < 8 ? spec->needed[i] : spec->soname;
        if (!name)
            continue;
        dynamic[n_dynamic++] =
            (Elf64_Dyn){.d_tag = i < 8 ? DT_NEEDED : DT_SONAME, .d_un.d_val = names_size};
        ELF_NAME(name);
    }
#undef ELF_NAME
    if (spec->data_size > 0)
        elf_put(o, spec->data, spec->data_size);
    if (spec->interp) {
        size_t at = elf_put(o, spec->interp, strlen(spec->interp) + 1);
        ph[n_headers++] =
            (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = at, .p_filesz = strlen(spec->interp) + 1};
    }
    if (!spec->no_dynamic) {
        uint32_t hash[4] = {1, (uint32_t)n_symbols, 0, 0};
        /* One bucket, no bloom words, one chain that ends with the last symbol. */
        uint32_t gnu[64] = {1, first, 0, 0, n_symbols > first ? first : 0};

        if (n_symbols > first)
            gnu[5 + n_symbols - 1 - first] = 1;
        uint64_t names_at = elf_put(o, names, names_size);
        uint64_t symbols_at = elf_put(o, symbols, n_symbols * sizeof(symbols[0]));
        uint64_t hash_at = spec->gnu_hash
                               ? elf_put(o, gnu, (5 + n_symbols - first) * sizeof(gnu[0]))
                               : elf_put(o, hash, sizeof(hash));
        const Elf64_Dyn rest[] = {
            {.d_tag = DT_STRTAB, .d_un.d_val = names_at},
            {.d_tag = DT_STRSZ, .d_un.d_val = names_size},
            {.d_tag = DT_SYMTAB, .d_un.d_val = symbols_at},
            {.d_tag = spec->gnu_hash ? DT_GNU_HASH : DT_HASH, .d_un.d_val = hash_at},
            {.d_tag = DT_FLAGS_1, .d_un.d_val = spec->pie ? DF_1_PIE : 0},
            {.d_tag = DT_NULL},
        };
        memcpy(dynamic + n_dynamic, rest, sizeof(rest));
        n_dynamic += 6;
        size_t at = elf_put(o, dynamic, n_dynamic * sizeof(dynamic[0]));
        ph[n_headers++] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
                                       .p_offset = at,
                                       .p_vaddr = at,
                                       .p_filesz = n_dynamic * sizeof(dynamic[0])};
    }
    ph[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = o->n, .p_memsz = o->n};
    header.e_phnum = (uint16_t)n_headers;
    memcpy(o->bytes, &header, sizeof(header));
    memcpy(o->bytes + sizeof(header), ph, sizeof(ph));
}

#endif
