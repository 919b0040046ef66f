/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the back end under a job share: the socket to the agent. */
#ifndef DLR_CKPT_SUPERVISED_SUPERVISED_H
#define DLR_CKPT_SUPERVISED_SUPERVISED_H

#include <pthread.h>

#include "ckpt/client/client.h"
#include "common/local/message.h"

extern const struct dlr_backend dlr_backend_supervised;

#define DLR_CONNECT_MS 5000 /* to the agent, and for its answer to a question */
#define DLR_FETCH_MS 600000 /* for another rank's copy, which other nodes may have */

#define MISSED_MAX 16 /* more than can be ordered at a time */

struct missed {
    uint64_t step;
    bool torn; /* it was saved, and is not of one moment */
    char why[256];
};

struct supervised {
    int sock;
    uint32_t round;
    struct dlr_local_msg msg; /* scratch of who uses the socket now */

    bool offered; /* a version to restore, not yet asked for */
    struct dlr_version offer;
    uint32_t offer_world; /* ranks that made it */
    /* NULL when they were not as many as now: the slots are asked for one by one */
    struct dlr_slot *offer_slot;
    bool offer_elsewhere; /* this rank's own may be on another node: it is asked for */
    char offer_fault[DLR_ERR_TEXT];    /* why there is no offer_slot */
    struct dlr_slot_file_heads *heads; /* of files, while they are read; else NULL */

    pthread_mutex_t lock; /* the helper's word to the program's thread and back */
    struct dlr_slot *slots[DLR_LOCAL_FDS];
    unsigned nslots;
    uint64_t want_bytes;              /* of a slot: the layout's */
    bool asked;                       /* RESERVE is not answered yet */
    struct missed missed[MISSED_MAX]; /* not told yet */
    unsigned nmissed;
    atomic_bool gone;

    unsigned slot; /* in use by the snapshot under way */
    struct dlr_version version;
};

/* Nothing is sent any more, which is said once. */
void dlr_supervised_gone(struct supervised *sup, const char *why);

/* Sends sup->msg; the socket does not block, the wait for room in it is limited. */
int dlr_supervised_tell(struct supervised *sup);

/* Begins a message about this rank in sup->msg. */
struct dlr_local_msg *dlr_supervised_compose(struct dlr_ckpt *ck,
                                             enum dlr_local_type type, uint64_t step);

/* Waits for a message of this type; others are passed over. Its descriptors are the
 * caller's.
 */
int dlr_supervised_await(struct dlr_ckpt *ck, enum dlr_local_type type,
                         int fds[DLR_LOCAL_FDS], unsigned *ret_nfds);

/* Calls of the back end: see ckpt/client/client.h. */
int dlr_supervised_list(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret,
                        unsigned max);
int dlr_supervised_offer(struct dlr_ckpt *ck, uint32_t *ret_world);
int dlr_supervised_restore(struct dlr_ckpt *ck, uint64_t *ret_step);
int dlr_supervised_mark_bad(struct dlr_ckpt *ck, uint64_t step);
int dlr_supervised_peek(struct dlr_ckpt *ck, int rank, struct dlr_slot **ret_slot);

#endif
