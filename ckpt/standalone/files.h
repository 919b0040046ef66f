/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a program that runs without a job: r<rank>-<step>.safetensors in one
 * directory that all ranks share.
 */
#ifndef DLR_CKPT_STANDALONE_FILES_H
#define DLR_CKPT_STANDALONE_FILES_H

#include <stdint.h>

#include "ckpt/slot/meta.h"
#include "common/base/err.h"

#define DLR_STANDALONE_KIN 8

int dlr_standalone_name(int rank, uint64_t step, char *buf, size_t size);

struct dlr_standalone_file {
    int rank;
    uint64_t step;
};

/* The files that there are, by their names: newest step first, each step's in the order
 * of ranks. *ret_files is a heap array owned by the caller; its length is returned.
 */
int dlr_standalone_scan(int dirfd, struct dlr_standalone_file **ret_files,
                        struct dlr_err *err);

/* The steps for which each of world ranks has a file, newest first. *ret_steps is a
 * heap array owned by the caller; its length is returned.
 */
int dlr_standalone_complete(int dirfd, int world, uint64_t **ret_steps,
                            struct dlr_err *err);

/* Whether each of world ranks has a file of step. */
bool dlr_standalone_all(int dirfd, uint32_t world, uint64_t step);

/* Maps the file of rank and step and checks that it says so. -EBADMSG, -errno. *ret may
 * be NULL.
 */
int dlr_standalone_map(int dirfd, int rank, uint64_t step, struct dlr_slot **ret,
                       struct dlr_slot_info *ret_info, struct dlr_err *err);

/* Reads it and verifies every byte, telling alive (or NULL) that it goes on. -EBADMSG,
 * -errno.
 */
int dlr_standalone_check(int dirfd, int rank, uint64_t step,
                         const struct dlr_alive *alive, struct dlr_slot_info *ret_info,
                         struct dlr_err *err);

/* What a file's first bytes say, without the rest of its header: which line of steps it
 * is of, and how many ranks made it. Before there were lines all files were of
 * dlr_slot_key("alone"). -EBADMSG, -errno.
 */
struct dlr_standalone_head {
    uint64_t line, wall_ns; /* when it was sealed */
    uint32_t world;
    char program[DLR_META_PROGRAM_MAX]; /* that has saved it; empty: not known */
};
int dlr_standalone_head(int dirfd, int rank, uint64_t step,
                        struct dlr_standalone_head *ret);

/* Whether each rank that made the version of step has a file of it, and all are of one
 * line.
 */
bool dlr_standalone_same(int dirfd, uint64_t step, struct dlr_standalone_head *ret);

/* Files of steps in [from, to): those of one rank, and of ranks from `beyond` on (0:
 * none), which are no more; rank -1: of all. others: but for those of that line that
 * were sealed from since_ns on, and those of kin. of_lines: only those of that line or
 * its parent.
 */
struct dlr_standalone_which {
    int rank, beyond;
    uint64_t from, to;
    bool others, of_lines;
    uint64_t line, since_ns, parent;
    uint64_t kin[DLR_STANDALONE_KIN]; /* lines; 0: no more */
};

/* Gives them names under which nobody looks for them, with a number higher than all
 * that are there: no file is lost by it. Durable on return.
 */
int dlr_standalone_set_aside(int dirfd, const struct dlr_standalone_which *which,
                             struct dlr_err *err);

/* The same for a file whose name another is about to take: it keeps both until then. */
int dlr_standalone_link_aside(int dirfd, int rank, uint64_t step, struct dlr_err *err);

int dlr_standalone_remove(int dirfd, const struct dlr_standalone_which *which,
                          struct dlr_err *err);

/* The same for one rank's, but that the last of them stays, without its name, for the
 * next file to be written over: dlr_standalone_over_name(), until
 * dlr_standalone_forget_over().
 */
int dlr_standalone_retire(int dirfd, int rank, uint64_t from, uint64_t to,
                          struct dlr_err *err);
void dlr_standalone_over_name(int rank, char *buf, size_t size);
void dlr_standalone_forget_over(int dirfd, int rank);

/* Removes what was set aside of a rank (and of those from `beyond` on), but for what
 * was so last, `keep` files of each; and of those from `beyond` on what they would have
 * written over.
 */
int dlr_standalone_prune(int dirfd, int rank, int beyond, unsigned keep,
                         struct dlr_err *err);

/* Removes what a crash of this rank left half-written. */
int dlr_standalone_sweep(int dirfd, int rank, struct dlr_err *err);

#endif
