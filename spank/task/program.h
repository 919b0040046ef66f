/* SPDX-License-Identifier: Apache-2.0 */
/* What a program file says of how it is loaded: its ELF header and dynamic section. */
#ifndef DLR_SPANK_TASK_PROGRAM_H
#define DLR_SPANK_TASK_PROGRAM_H

#include <stdbool.h>

#define DLR_PROGRAM_LOADER 256

struct dlr_program {
    char loader[DLR_PROGRAM_LOADER]; /* the path that it names (PT_INTERP) */
    bool mpi;                        /* needs a library of MPI itself */
    bool sanitizer; /* needs one of a sanitizer, which has to be loaded first */
};

/* Reads an executable of this machine's word size and byte order that a loader starts.
 * -ENOEXEC: it is none, or is linked statically, or is damaged; -errno of a read. Reads
 * at most 100 KiB. fd is of a regular file. Foreign bytes: fuzz target program.
 */
int dlr_program_read(int fd, struct dlr_program *ret);

#endif
