/* SPDX-License-Identifier: Apache-2.0 */
/* Without a job: by what ranks of one start of a program are told from those of
 * another, as far as launchers say it.
 */
#ifndef DLR_CKPT_STANDALONE_LAUNCH_ID_H
#define DLR_CKPT_STANDALONE_LAUNCH_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/slot/meta.h"

#define DLR_STANDALONE_START_MAX 192 /* of its text, with the NUL */

/* What all ranks of a start have alike; -1 and 0: not known. */
struct dlr_standalone_start {
    int64_t job;    /* Slurm's */
    int64_t step;   /* Slurm's, where it has a task for each rank */
    int64_t port;   /* at which PyTorch's ranks meet */
    uint64_t space; /* a hash of the name that Open MPI's mpirun gave to all ranks */
    /* a hash of its name: counts where no launcher says that it is one start */
    uint64_t program;
    uint32_t world;
};

/* This process's, by its environment and its words. */
void dlr_standalone_start_get(int world, struct dlr_standalone_start *ret);

/* True: what is known of both tells that they are of two starts. */
bool dlr_standalone_start_differs(const struct dlr_standalone_start *a,
                                  const struct dlr_standalone_start *b);

/* As it stands in a lock's file. parse: 0, or -EBADMSG for any other text. */
void dlr_standalone_start_text(const struct dlr_standalone_start *start,
                               char buf[DLR_STANDALONE_START_MAX]);
/* Foreign bytes: fuzz target start. */
int dlr_standalone_start_parse(const char *text, struct dlr_standalone_start *ret);

/* Whether a program's name is one word of letters that can be printed between quotes.
 */
static inline bool dlr_standalone_is_plain(const char *name)
{
    for (; *name; name++)
        if (*name <= ' ' || *name > '~' || *name == '\'')
            return false;
    return true;
}

/* What a program is called, of the words it was started with, each with its NUL: the
 * file's name of Python's script, or its module, else that of its first word. Empty
 * where that tells no program from another (python -c), or is no plain word.
 */
void dlr_standalone_program_of(const char *words, size_t bytes,
                               char ret[DLR_META_PROGRAM_MAX]);
/* This process's. */
void dlr_standalone_program(char ret[DLR_META_PROGRAM_MAX]);

#endif
