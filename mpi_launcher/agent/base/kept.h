/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives an agent that is killed. Its parent (agent/restarter.c) keeps the same
 * descriptors open, so that who is connected sees no end, and memory in which the agent
 * notes where it stands. The next agent is a child of the same parent and goes on from
 * there; not when the former one died in the middle of something, for then its notes do
 * not say what was done. What is read here is this agent's own.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_KEPT_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct dlr_kept; /* opaque */
struct dlr_agent_base;

/* --- the parent --- */

/* Before its first child. -errno with text. */
int dlr_kept_new(struct dlr_kept **ret, struct dlr_err *err);
/* Closes all that it keeps. Accepts NULL, returns NULL. */
struct dlr_kept *dlr_kept_free(struct dlr_kept *k);
/* Readable: dlr_kept_take() is due. */
int dlr_kept_inbox(const struct dlr_kept *k);
/* Takes over what the child has handed to us so far. */
void dlr_kept_take(struct dlr_kept *k);
/* The child has died, now. */
void dlr_kept_died(struct dlr_kept *k);

/* --- the child; NULL for k: nobody keeps anything, and nothing is done --- */

/* Before anything else. Until the first dlr_kept_leave() it is in the middle of
 * something.
 */
void dlr_kept_begin(struct dlr_kept *k);
struct dlr_kept_note {
    char *round, *note;
    int64_t lease_ns; /* 0: none */
    int64_t died_ns;  /* when: CLOCK_BOOTTIME */
};
/* What a former agent has noted last; dlr_kept_note_done(). -ENOENT: there was none;
 * -ENODATA: it knew no round; -EIO with text: it did, and its notes do not tell how
 * things are.
 */
int dlr_kept_former(const struct dlr_kept *k, struct dlr_kept_note *ret,
                    struct dlr_err *err);
void dlr_kept_note_done(struct dlr_kept_note *note);
/* A descriptor that the former one kept, now the caller's, and kept still; -1: there is
 * none of this id.
 */
int dlr_kept_claim(struct dlr_kept *k, unsigned id);
/* Closes what was not claimed. */
void dlr_kept_settle(struct dlr_kept *k);
/* The notes are void. */
void dlr_kept_forget(struct dlr_kept *k);

/* fd, still the caller's, is kept: its id; 0: nobody keeps it. */
unsigned dlr_kept_add(struct dlr_kept *k, int fd);
/* Not any more; *id becomes 0. */
void dlr_kept_del(struct dlr_kept *k, unsigned *id);
/* The round as the supervisor told it, and where the agent stands; NULL: nowhere. */
void dlr_kept_put_round(struct dlr_kept *k, const char *text);
void dlr_kept_put_note(struct dlr_kept *k, const char *text);
/* How long the next note should be waited for: it has a line for each rank, and each
 * rank of a round's start has one written. 0: it is short, or there is none.
 */
int64_t dlr_kept_pause_ms(const struct dlr_kept *k);
void dlr_kept_put_lease(struct dlr_kept *k, int64_t until_ns);
/* What happens between the two is one: noted at its end, or not. */
void dlr_kept_enter(struct dlr_kept *k);
void dlr_kept_leave(struct dlr_kept *k);

/* --- of the agent's engines; NULL for base: nobody keeps anything ----------------- */

/* k, which must live as long, is theirs; before anything is watched. NULL, and at first:
 * nobody keeps anything.
 */
void dlr_agent_base_keep(struct dlr_agent_base *base, struct dlr_kept *k);
struct dlr_kept *dlr_agent_kept(const struct dlr_agent_base *base);
/* What the next agent must know has changed: it is noted when what happens now is over,
 * or a pause later (dlr_kept_pause_ms()). Until then this agent is in the middle of it.
 */
void dlr_agent_changed(struct dlr_agent_base *base);

#endif
