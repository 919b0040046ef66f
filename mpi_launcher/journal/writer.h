/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's writer, a process apart, and what it is told: journal.c's alone. */
#ifndef DLR_MPI_LAUNCHER_JOURNAL_WRITER_H
#define DLR_MPI_LAUNCHER_JOURNAL_WRITER_H

#include <stdint.h>

enum dlr_journal_kind {
    DLR_JOURNAL_OPEN, /* the first; with the descriptor of whose turn it is, or none */
    DLR_JOURNAL_LINE,
    DLR_JOURNAL_LAST,
    DLR_JOURNAL_REPLACE,
    DLR_JOURNAL_APPEND,
};

/* To the writer: this, path with its NUL, text. Both sides are one program. */
struct dlr_journal_frame {
    uint32_t kind, path_size; /* path: of OPEN, REPLACE and APPEND; else 0 bytes */
    uint64_t text_size;
};

/* From the writer: first how OPEN has ended, then what is not written. */
struct dlr_journal_word {
    int rc;
    char text[252];
};

void dlr_journal_write(int fd); /* of dlr_apart_fn */

#endif
