/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a program that runs without a job: r<rank>-<step>.safetensors in one directory that
 * all ranks share.
 */
#ifndef DLR_CKPT_ALONE_FILES_H
#define DLR_CKPT_ALONE_FILES_H

#include <stdint.h>

#include "ckpt/slot.h"
#include "common/err.h"

int dlr_alone_name(int rank, uint64_t step, char *buf, size_t size);

struct dlr_alone_file {
    int rank;
    uint64_t step;
};

/* The files that there are, by their names: newest step first, each step's in the order of ranks.
 * *ret_files is a heap array owned by the caller; its length is returned.
 */
int dlr_alone_scan(int dirfd, struct dlr_alone_file **ret_files, struct dlr_err *err);

/* The steps for which each of world ranks has a file, newest first. *ret_steps is a heap
 * array owned by the caller; its length is returned.
 */
int dlr_alone_complete(int dirfd, int world, uint64_t **ret_steps, struct dlr_err *err);

/* Whether each of world ranks has a file of step. */
bool dlr_alone_all(int dirfd, uint32_t world, uint64_t step);

/* Maps the file of rank and step and checks that it says so. -EBADMSG, -errno. *ret may be NULL. */
int dlr_alone_map(int dirfd, int rank, uint64_t step, struct dlr_slot **ret,
                  struct dlr_slot_info *ret_info, struct dlr_err *err);

/* Reads it and verifies every byte, telling alive (or NULL) that it goes on. -EBADMSG, -errno. */
int dlr_alone_check(int dirfd, int rank, uint64_t step, const struct dlr_alive *alive,
                    struct dlr_slot_info *ret_info, struct dlr_err *err);

/* Gives rank's files of steps from `from` on (those of all: -1) names under which nobody looks for them. Durable on
 * return. They stay until rank 0 removes something.
 */
int dlr_alone_set_aside(int dirfd, int rank, uint64_t from, struct dlr_err *err);

/* Removes this rank's files of steps in [from, to), and what a crash left half-written. Rank 0's
 * are also those of ranks that are no more, as the world was larger before, and all that was set aside.
 */
int dlr_alone_remove(int dirfd, int rank, int world, uint64_t from, uint64_t to,
                     struct dlr_err *err);

#endif
