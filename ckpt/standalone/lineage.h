/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a directory is, without a job: which program saves there now, and by which
 * number its files are told from those of others.
 *
 * Each file has the number of its line in its head, and a version is whole when all its
 * files have the same one. What goes on from a version has a number that follows from
 * it; a program of one rank that goes on from nothing has a random one. Several ranks
 * that go on from nothing cannot agree on one: they have that of dlr_slot_key("alone"),
 * as all files had before there were lines.
 */
#ifndef DLR_CKPT_STANDALONE_LINEAGE_H
#define DLR_CKPT_STANDALONE_LINEAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* No other process saves in dirfd as rank from now on, until each *ret_fd that was
 * given for it is given back or this process ends; a forked child has no part in it.
 * Waits limit_ms at most for one that does, and for ranks of a start that is known to
 * be another one (ckpt/standalone/launch_id.h), among which rank 0 looks for all and
 * the others for rank 0: -EBUSY, with text. *ret_fd is -1 where the directory cannot be
 * written or its file system has no locks; of these one line tells.
 */
int dlr_standalone_lock(int dirfd, int rank, int world, unsigned limit_ms, int *ret_fd,
                        struct dlr_err *err);

/* Whether the last one that had the lock of rank has ended without giving it back. */
bool dlr_standalone_was_killed(int dirfd, int rank);

/* Gives *ret_fd back. -1 is accepted. */
void dlr_standalone_unlock(int fd);

/* Handles of this process that save as one rank share its lock: who says this last
 * saves. -1: there is none to share.
 */
void dlr_standalone_lock_use(int fd, const void *handle);
bool dlr_standalone_lock_is_used_by(int fd, const void *handle);

/* What ranks go on from that have not restored it: a rank that has says it in the file
 * of its lock (-1: it has none, and says nothing), where it counts for as long as the
 * lock is held.
 */
void dlr_standalone_line_say(int fd, uint64_t step, uint64_t line);

/* What rank of a start that lives has said; false: nothing, or it has no lock. */
bool dlr_standalone_line_said(int dirfd, int rank, uint64_t *ret_step,
                              uint64_t *ret_line);

/* A number that is nobody else's. */
int dlr_standalone_line_new(uint64_t *ret, struct dlr_err *err);

/* That of what goes on from a version: ranks that have restored it come to the same
 * without a word.
 */
uint64_t dlr_standalone_line_after(uint64_t line, uint64_t step);

#endif
