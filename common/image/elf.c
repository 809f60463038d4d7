/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image/elf.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

#define HEADERS_MAX 64
#define WINDOW      65536

bool image_budget_left(const struct image_budget *budget)
{
    return budget->bytes > 0 && (budget->deadline_ms == 0 || apir_now_ms() < budget->deadline_ms);
}

/* Reads up to size bytes; returns how many there were, or -errno. */
static ssize_t read_some(const struct image_elf *elf, void *out, size_t size, uint64_t offset)
{
    size_t done = 0;

    if (offset >= elf->size)
        return 0;
    if (size > elf->size - offset)
        size = (size_t)(elf->size - offset);
    if (!image_budget_left(elf->budget) || elf->budget->bytes < size)
        return -ENOBUFS;
    elf->budget->bytes -= size;
    while (done < size) {
        ssize_t n = pread(elf->fd, (char *)out + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break; /* cut off meanwhile */
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int read_all(const struct image_elf *elf, void *out, size_t size, uint64_t offset)
{
    ssize_t n = read_some(elf, out, size, offset);

    if (n < 0)
        return (int)n;
    return (size_t)n == size ? 0 : -ENOEXEC;
}

/*
 * Where [address, address + *ret_size) lies in the file; *ret_size is how far it
 * goes on there.
 */
static int locate(const struct image_elf *elf, uint64_t address, uint64_t *ret_offset,
                  uint64_t *ret_size)
{
    for (size_t i = 0; i < elf->n_loads; i++) {
        const struct image_elf_load *load = &elf->loads[i];

        if (address >= load->vaddr && address - load->vaddr < load->size) {
            uint64_t in = address - load->vaddr;

            *ret_offset = load->offset + in;
            *ret_size = load->size - in;
            return 0;
        }
    }
    return -ENOEXEC;
}

static void add_load(struct image_elf *elf, const Elf64_Phdr *ph)
{
    uint64_t offset = le64toh(ph->p_offset), size = le64toh(ph->p_filesz);

    if (elf->n_loads == IMAGE_ELF_LOADS_MAX || offset >= elf->size)
        return;
    if (size > elf->size - offset)
        size = elf->size - offset;
    elf->loads[elf->n_loads++] = (struct image_elf_load){
        .offset = offset,
        .size = size,
        .vaddr = le64toh(ph->p_vaddr),
        .exec = (le32toh(ph->p_flags) & PF_X) != 0,
    };
}

static void add_dynamic(struct image_elf *elf, const Elf64_Dyn *entry)
{
    uint64_t value = le64toh(entry->d_un.d_val);

    switch ((int64_t)le64toh((uint64_t)entry->d_tag)) {
    case DT_NEEDED:
        if (elf->n_needed < sizeof(elf->needed) / sizeof(elf->needed[0]))
            elf->needed[elf->n_needed++] = value;
        break;
    case DT_SONAME:
        elf->soname = value;
        break;
    case DT_STRTAB:
        elf->strtab = value;
        break;
    case DT_STRSZ:
        elf->strsz = value;
        break;
    case DT_SYMTAB:
        elf->symtab = value;
        break;
    case DT_HASH:
        elf->hash = value;
        break;
    case DT_GNU_HASH:
        elf->gnu_hash = value;
        break;
    case DT_FLAGS_1:
        elf->pie = (value & DF_1_PIE) != 0;
        break;
    default:
        break;
    }
}

static int read_dynamic(struct image_elf *elf, const Elf64_Phdr *ph)
{
    Elf64_Dyn entries[512];
    uint64_t size = le64toh(ph->p_filesz);

    if (size > sizeof(entries))
        size = sizeof(entries);
    ssize_t n = read_some(elf, entries, (size_t)size, le64toh(ph->p_offset));
    if (n < 0)
        return (int)n;
    for (size_t i = 0; i < (size_t)n / sizeof(entries[0]); i++) {
        if (entries[i].d_tag == DT_NULL)
            break;
        add_dynamic(elf, &entries[i]);
    }
    elf->dynamic = true;
    return 0;
}

static int read_interp(struct image_elf *elf, const Elf64_Phdr *ph)
{
    uint64_t size = le64toh(ph->p_filesz);

    if (size > sizeof(elf->interp) - 1)
        size = sizeof(elf->interp) - 1;
    ssize_t n = read_some(elf, elf->interp, (size_t)size, le64toh(ph->p_offset));
    elf->interp[n > 0 ? n : 0] = '\0';
    return n < 0 ? (int)n : 0;
}

static int read_headers(struct image_elf *elf, const Elf64_Ehdr *header)
{
    Elf64_Phdr ph[HEADERS_MAX];
    uint16_t n = le16toh(header->e_phnum);

    if (le16toh(header->e_phentsize) != sizeof(ph[0]) || n == 0 || n > HEADERS_MAX)
        return -ENOEXEC;
    int rc = read_all(elf, ph, n * sizeof(ph[0]), le64toh(header->e_phoff));
    for (uint16_t i = 0; rc == 0 && i < n; i++) {
        uint32_t type = le32toh(ph[i].p_type);

        if (type == PT_LOAD)
            add_load(elf, &ph[i]);
        else if (type == PT_DYNAMIC && !elf->dynamic)
            rc = read_dynamic(elf, &ph[i]);
        else if (type == PT_INTERP && elf->interp[0] == '\0')
            rc = read_interp(elf, &ph[i]);
    }
    return rc;
}

int image_elf_open(int fd, struct image_budget *budget, struct image_elf *ret)
{
    Elf64_Ehdr header;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0)
        return -ENOEXEC;
    struct image_elf elf = {.fd = fd, .budget = budget, .size = (uint64_t)st.st_size};
    int rc = read_all(&elf, &header, sizeof(header), 0);
    if (rc < 0)
        return rc;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    /* The first fields are where they are in every class; the order of bytes is not. */
    bool little = header.e_ident[EI_DATA] == ELFDATA2LSB;
    elf.type = little ? le16toh(header.e_type) : be16toh(header.e_type);
    elf.machine = little ? le16toh(header.e_machine) : be16toh(header.e_machine);
    elf.wide = little && header.e_ident[EI_CLASS] == ELFCLASS64;
    if (elf.wide)
        rc = read_headers(&elf, &header);
    if (rc < 0)
        return rc;
    *ret = elf;
    return 0;
}

static int read_name(const struct image_elf *elf, uint64_t at, char *name, size_t size)
{
    uint64_t offset, rest;

    name[0] = '\0';
    if (locate(elf, elf->strtab, &offset, &rest) < 0 || at >= rest)
        return 0;
    rest -= at;
    ssize_t n = read_some(elf, name, size - 1 < rest ? size - 1 : (size_t)rest, offset + at);
    name[n > 0 ? n : 0] = '\0';
    return n < 0 ? (int)n : 0;
}

int image_elf_needed(const struct image_elf *elf, size_t i, char *name, size_t size)
{
    name[0] = '\0';
    return i < elf->n_needed ? read_name(elf, elf->needed[i], name, size) : -EINVAL;
}

int image_elf_soname(const struct image_elf *elf, char *name, size_t size)
{
    name[0] = '\0';
    return elf->soname != 0 ? read_name(elf, elf->soname, name, size) : 0;
}

/* ---- symbols ------------------------------------------------------------------- */

/*
 * How many there are is written nowhere: with DT_HASH it is the number of chains,
 * with DT_GNU_HASH the end of the chain that begins last.
 */
static int count_by_gnu_hash(const struct image_elf *elf, uint64_t *ret)
{
    uint32_t head[4], words[1024], last = 0;
    uint64_t offset, rest, at = 0;
    int rc = locate(elf, elf->gnu_hash, &offset, &rest);

    if (rc == 0)
        rc = read_all(elf, head, sizeof(head), offset);
    if (rc < 0)
        return rc;
    uint64_t buckets = le32toh(head[0]), first = le32toh(head[1]), bloom = le32toh(head[2]);
    if (buckets > IMAGE_ELF_SYMBOLS_MAX || first > IMAGE_ELF_SYMBOLS_MAX ||
        bloom > IMAGE_ELF_SYMBOLS_MAX)
        return -E2BIG;
    offset += sizeof(head) + bloom * 8;
    while (at < buckets) {
        size_t n = buckets - at < 1024 ? (size_t)(buckets - at) : 1024;

        rc = read_all(elf, words, n * 4, offset + at * 4);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < n; i++)
            if (le32toh(words[i]) > last)
                last = le32toh(words[i]);
        at += n;
    }
    if (last < first) {
        *ret = first;
        return 0;
    }
    for (uint64_t i = last; i < IMAGE_ELF_SYMBOLS_MAX;) {
        ssize_t n = read_some(elf, words, sizeof(words), offset + (buckets + i - first) * 4);
        if (n < 0)
            return (int)n;
        if (n < 4)
            return -ENOEXEC;
        for (size_t k = 0; k < (size_t)n / 4; k++, i++)
            if ((le32toh(words[k]) & 1) != 0) {
                *ret = i + 1;
                return 0;
            }
    }
    return -E2BIG;
}

static int count_symbols(const struct image_elf *elf, uint64_t *ret)
{
    uint32_t head[2];
    uint64_t offset, rest;

    if (elf->gnu_hash != 0)
        return count_by_gnu_hash(elf, ret);
    int rc = locate(elf, elf->hash, &offset, &rest);
    if (rc == 0)
        rc = read_all(elf, head, sizeof(head), offset);
    if (rc == 0)
        *ret = le32toh(head[1]);
    return rc;
}

static int read_names(const struct image_elf *elf, char **ret, size_t *ret_size)
{
    uint64_t offset, rest, size = elf->strsz;
    int rc = locate(elf, elf->strtab, &offset, &rest);

    if (rc < 0)
        return rc;
    if (size > rest)
        size = rest;
    if (size > IMAGE_ELF_NAMES_MAX)
        return -E2BIG;
    cleanup_free char *names = malloc((size_t)size + 1);
    if (!names)
        return -ENOMEM;
    ssize_t n = read_some(elf, names, (size_t)size, offset);
    if (n < 0)
        return (int)n;
    names[n] = '\0'; /* whatever offset is named, its string ends in here */
    *ret = steal_pointer(&names);
    *ret_size = (size_t)n;
    return 0;
}

int image_elf_symbols(const struct image_elf *elf,
                      int (*fn)(const char *name, bool defined, void *), void *user)
{
    Elf64_Sym symbols[512];
    cleanup_free char *names = NULL;
    size_t names_size = 0;
    uint64_t offset, rest, count = 0;

    if (!elf->wide || !elf->dynamic)
        return 0;
    int rc = locate(elf, elf->symtab, &offset, &rest);
    if (rc == 0)
        rc = count_symbols(elf, &count);
    if (rc == 0)
        rc = read_names(elf, &names, &names_size);
    if (rc < 0)
        return rc;
    if (count > rest / sizeof(symbols[0]))
        count = rest / sizeof(symbols[0]);
    if (count > IMAGE_ELF_SYMBOLS_MAX)
        return -E2BIG;
    for (uint64_t at = 0; at < count;) {
        size_t n = count - at < 512 ? (size_t)(count - at) : 512;

        rc = read_all(elf, symbols, n * sizeof(symbols[0]), offset + at * sizeof(symbols[0]));
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < n; i++) {
            uint32_t name = le32toh(symbols[i].st_name);

            if (name == 0 || name >= names_size)
                continue;
            rc = fn(names + name, le16toh(symbols[i].st_shndx) != SHN_UNDEF, user);
            if (rc != 0)
                return rc;
        }
        at += n;
    }
    return 0;
}

int image_elf_contents(const struct image_elf *elf, bool exec,
                       int (*fn)(const char *data, size_t size, void *), void *user)
{
    cleanup_free char *window = malloc(WINDOW);

    if (!window)
        return -ENOMEM;
    for (size_t i = 0; i < elf->n_loads; i++) {
        const struct image_elf_load *load = &elf->loads[i];

        if (load->exec != exec)
            continue;
        for (uint64_t at = 0; at < load->size; at += WINDOW - IMAGE_ELF_OVERLAP) {
            uint64_t left = load->size - at;
            ssize_t n =
                read_some(elf, window, left < WINDOW ? (size_t)left : WINDOW, load->offset + at);
            if (n < 0)
                return (int)n;
            int rc = fn(window, (size_t)n, user);
            if (rc != 0)
                return rc;
            if (left <= WINDOW)
                break;
        }
    }
    return 0;
}

const char *image_elf_machine_name(uint16_t machine)
{
    static char other[16];

    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    case EM_386:
        return "i386";
    case EM_ARM:
        return "arm";
    case EM_PPC64:
        return "ppc64";
    case EM_RISCV:
        return "riscv";
    case EM_S390:
        return "s390";
    case 258: /* EM_LOONGARCH; not in every elf.h */
        return "loongarch";
    default:
        snprintf(other, sizeof(other), "machine %u", machine);
        return other;
    }
}
