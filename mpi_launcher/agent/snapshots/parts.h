/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources of the engine call of each other. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_PARTS_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_PARTS_H

#include "mpi_launcher/agent/snapshots/snapshots_state.h"

/* --- ranks.c */
/* The rank's entry; with make, a new one when there is none (NULL: out of memory). */
struct dlr_agent_rank *dlr_agent_rank(struct dlr_agent_snapshots *s, int32_t rank,
                                      bool make);
/* The slot of rank that holds version whole, or -1. */
int dlr_agent_rank_holding(const struct dlr_agent_rank *r, struct dlr_version version);
/* Maps the slot files of the rank that are there. Their number. */
int dlr_agent_rank_open_slots(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r);
/* A worker that died while it wrote leaves its slot OPEN; nobody else will end it. */
void dlr_agent_rank_discard_open(struct dlr_agent_rank *r);
void dlr_agent_rank_close_page(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r);
/* Which ranks of the round are on this node, into a page. */
void dlr_agent_rank_mates(const struct dlr_agent_snapshots *s, struct dlr_page *page);
void dlr_agent_ranks_turn(struct dlr_agent_snapshots *s);
void dlr_agent_ranks_stop(struct dlr_agent_snapshots *s);

/* --- welcome.c, reserve.c */
void dlr_agent_rank_send_restored(struct dlr_agent_snapshots *s,
                                  struct dlr_agent_rank *r, const char *why);
void dlr_agent_rank_send_ready(struct dlr_agent_snapshots *s,
                               const struct dlr_agent_rank *r);
/* Those that are being reserved are asked of a new data process. */
void dlr_agent_ranks_reserve_again(struct dlr_agent_snapshots *s);
void dlr_agent_ranks_reserved(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                              const char *why);

/* --- slot_marks.c */
bool dlr_agent_save_is_open(const struct dlr_agent_snapshots *s, uint64_t step);
bool dlr_agent_save_knows_newest(const struct dlr_agent_snapshots *s);
/* Nothing reads a slot of r any more that did: what was decided of it meanwhile is
 * marked.
 */
void dlr_agent_save_settle(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r);

/* --- save.c */
void dlr_agent_save_forget(struct dlr_agent_snapshots *s); /* what is open is void */
/* A data process was started again: it may have missed what was decided meanwhile. */
void dlr_agent_save_resend(struct dlr_agent_snapshots *s);
/* To a supervisor that may not have heard it. */
void dlr_agent_save_wanted_resend(struct dlr_agent_snapshots *s);

/* --- bad_versions.c */
/* A version of any round is missed, when it is of this one. */
void dlr_agent_save_lost(struct dlr_agent_snapshots *s, int32_t rank,
                         struct dlr_version version, const char *why);
void dlr_agent_save_torn_resend(struct dlr_agent_snapshots *s);
void dlr_agent_bad_resend(struct dlr_agent_snapshots *s);

/* --- space.c: what slots take of the node's memory, and may */
unsigned dlr_agent_slots_of(const struct dlr_agent_snapshots *s,
                            const struct dlr_agent_rank *r);
/* Bytes of the slots of all ranks here but one (-1: of all); of how many. */
uint64_t dlr_space_taken(const struct dlr_agent_snapshots *s, int32_t but,
                         unsigned *ret_n);
/* Of all, if none had a third. */
uint64_t dlr_space_least(const struct dlr_agent_snapshots *s);
/* Whose slots this round has here: own ranks first, then those whose copies are kept,
 * or parity shards.
 */
unsigned dlr_space_slots(const struct dlr_agent_snapshots *s);
int32_t dlr_space_slot(const struct dlr_agent_snapshots *s, unsigned i);
/* Before anything is written: is there room for the rank's slots of so many bytes,
 * beside what all others here have? One slot is of a copy that is fetched. -EDQUOT with
 * the arithmetic.
 */
int dlr_space_check(struct dlr_agent_snapshots *s, int32_t rank, unsigned slots,
                    uint64_t bytes, struct dlr_err *err);
/* The same of one that is made here before a round, beside all that is here and beside
 * the slots that the round will ask for, as large as this one.
 */
int dlr_space_beside(struct dlr_agent_snapshots *s, int32_t rank, uint64_t bytes,
                     struct dlr_err *err);

/* --- foreign_slots.c */
struct dlr_agent_fetch *dlr_agent_fetch_find(const struct dlr_agent_snapshots *s,
                                             int32_t rank);
/* Bytes of slots here that no rank of this round uses: of former ranks, and fetched. */
uint64_t dlr_agent_fetch_others(const struct dlr_agent_snapshots *s, int32_t but);

/* --- extra_slots.c: whether rank gets one more slot of bytes here beside the two, and
 * what for
 */
/* spare_slot, write_slot or both. Where auto finds no room for the older version the
 * supervisor is told.
 */
void dlr_agent_reserve_extra_slots(struct dlr_agent_snapshots *s,
                                   struct dlr_agent_rank *r, uint64_t bytes);
/* The slots could not be had: true when auto does without it, to be asked again. */
bool dlr_agent_release_extra_slots(struct dlr_agent_snapshots *s,
                                   struct dlr_agent_rank *r, int rc, const char *why);
/* A rank that runs here has no slot to spare while one is written to the disk. */
bool dlr_agent_is_tight(const struct dlr_agent_snapshots *s,
                        const struct dlr_agent_rank *r);
/* The older version's alone, as above. */
bool dlr_agent_vetted_slot(struct dlr_agent_snapshots *s, int32_t rank, uint64_t bytes);

/* --- slot_lookup.c */
/* A descriptor for reading of the slot here that holds the rank's version to restore,
 * or -1.
 */
int dlr_agent_held_open(const struct dlr_agent_snapshots *s, int32_t rank);
/* rc < 0: text is why; else the path of a file, or "": it is in this node's memory. */
void dlr_agent_peek_answer(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c,
                           int32_t rank, int rc, const char *text);
/* A worker found the copy corrupt that it got here, its own or one of these: the slot
 * is dead, or will be when nobody reads it. Where it lay a good one may come: one that
 * is whole by its head is not sent there.
 */
void dlr_agent_peek_discard_slot(struct dlr_agent_snapshots *s, int32_t rank);

/* --- fetch.c */
/* Has the copy fetched here; c is answered in the end. */
void dlr_agent_fetch(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c,
                     int32_t rank);
void dlr_agent_fetch_resend(struct dlr_agent_snapshots *s);
/* Of those that other nodes can send once more: nobody reads them any more. */
void dlr_agent_fetch_go(struct dlr_agent_snapshots *s, const char *why);
/* Slots of this round failed with rc, why: what was made here goes, if that is for want
 * of room and go was heard. True: it may be tried again.
 */
bool dlr_agent_fetch_give_way(struct dlr_agent_snapshots *s, int rc, const char *why);
/* The data process has gone: room that was asked of it will not be made. */
void dlr_agent_fetch_fail(struct dlr_agent_snapshots *s, const char *why);
void dlr_agent_fetch_reserved(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                              const char *why);

/* --- cpu_advice.c */
/* Writes into r and its page, which the worker pid will have, which of our CPUs no task
 * here is bound to; none when the tasks are not bound, or take all.
 */
void dlr_agent_helpers_advise(const struct dlr_agent_snapshots *s, pid_t pid,
                              struct dlr_agent_rank *r);
/* A copy is about to be sent: dlr_agent_helpers_uses() once more in a round with other
 * tasks.
 */
void dlr_agent_helpers_round(struct dlr_agent_snapshots *s);

/* --- pace.c */
void dlr_agent_pace_start(
    struct dlr_agent_snapshots *s); /* the data process is there */
void dlr_agent_pace_begin(
    struct dlr_agent_snapshots *s); /* a save's copy is sent off */
void dlr_agent_pace_end(struct dlr_agent_snapshots *s, int rc, uint64_t bytes);

/* --- rebuild.c */
void dlr_agent_rebuild_stop(struct dlr_agent_snapshots *s);

/* --- slot_requests.c: requests to the data process, so that what one reads is not
 * marked before its end
 */
/* q and from are as they were given, but for what was to be read at once: NULL. */
typedef void dlr_agent_ended_fn(struct dlr_agent_snapshots *s,
                                const struct dlr_agent_request *q,
                                const struct dlr_agent_origin *from, int rc,
                                const char *why);
/* ended is told once, perhaps at once; q's done and arg are not used. */
void dlr_agent_request(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q,
                       const struct dlr_agent_origin *from, dlr_agent_ended_fn *ended);

#endif
