/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads as much of an ELF file as the dynamic loader would: program headers, the
 * interpreter, the dynamic section and its symbols. Section headers are never
 * looked at. The file is hostile: it may lie about every size and offset, and may
 * change while it is read. So nothing is mapped, each read is a pread into memory
 * of a fixed size, each number is taken from that copy once, and every read is
 * paid from a budget that all files of an image share.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What looking may still cost: bytes read, and when it must end (CLOCK_MONOTONIC). */
struct image_budget {
    uint64_t bytes;
    uint64_t deadline_ms; /* 0: none */
};

/* Whether there is anything left. */
bool image_budget_left(const struct image_budget *budget);

#define IMAGE_ELF_LOADS_MAX 16

struct image_elf {
    int fd; /* borrowed */
    struct image_budget *budget;
    uint64_t size;
    uint16_t type;    /* ET_EXEC, ET_DYN, … */
    uint16_t machine; /* EM_X86_64, … */
    bool wide;        /* 64 bits, little-endian: what follows is read only then */
    bool dynamic;     /* has a dynamic section */
    bool pie;         /* DF_1_PIE: a program, though its type is ET_DYN */
    char interp[64];  /* the loader's path, "" if none */
    size_t n_loads;
    struct image_elf_load {
        uint64_t offset, vaddr, size; /* within the file: offset + size <= file's size */
        bool exec;
    } loads[IMAGE_ELF_LOADS_MAX];
    /* Addresses out of the dynamic section, as they are there; 0 if missing. */
    uint64_t strtab, strsz, symtab, hash, gnu_hash;
    uint64_t soname; /* an offset into strtab; 0: it has none */
    size_t n_needed;
    uint64_t needed[32]; /* offsets into strtab */
};

/*
 * Reads headers and the dynamic section of the regular file behind fd, which
 * must outlive *ret. Returns 0, -ENOEXEC for what is no ELF file or one whose
 * headers make no sense, or another -errno (-ENOBUFS: the budget is used up).
 */
int image_elf_open(int fd, struct image_budget *budget, struct image_elf *ret);

/* The i-th DT_NEEDED into name, "" where it lies outside of the file. Returns 0 or -errno. */
int image_elf_needed(const struct image_elf *elf, size_t i, char *name, size_t size);

/* The same for DT_SONAME, "" where there is none. */
int image_elf_soname(const struct image_elf *elf, char *name, size_t size);

/*
 * Calls fn for every dynamic symbol with a name until it returns non-zero.
 * Returns fn's last result or -errno. What a file claims beyond
 * IMAGE_ELF_SYMBOLS_MAX symbols or IMAGE_ELF_NAMES_MAX bytes of names is -E2BIG.
 */
#define IMAGE_ELF_SYMBOLS_MAX 200000u
#define IMAGE_ELF_NAMES_MAX   (16u << 20)
int image_elf_symbols(const struct image_elf *elf,
                      int (*fn)(const char *name, bool defined, void *), void *user);

/*
 * Calls fn with one window after the other of what is loaded into memory, either
 * the executable segments or all others, until it returns non-zero. Windows of
 * one segment overlap by IMAGE_ELF_OVERLAP bytes, so that a string of up to this
 * length is seen whole in one of them. Returns fn's last result or -errno.
 */
#define IMAGE_ELF_OVERLAP 256
int image_elf_contents(const struct image_elf *elf, bool exec,
                       int (*fn)(const char *data, size_t size, void *), void *user);

/* "x86-64" and the like, or "machine N" in a static buffer. */
const char *image_elf_machine_name(uint16_t machine);
