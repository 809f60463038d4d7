/* SPDX-License-Identifier: Apache-2.0 */
/* What apir doctor looks at of installed files, beside the checks that check.h lists. */
#ifndef APIR_CDI_DOCTOR_FILES_H
#define APIR_CDI_DOCTOR_FILES_H

/* 1: fd is an ELF program without an interpreter, 0: with one, -ENOEXEC: no ELF program. */
int doctor_elf_static(int fd);

#endif
