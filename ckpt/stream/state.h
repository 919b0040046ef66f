/* SPDX-License-Identifier: Apache-2.0 */
/* The data process: what its parts share. One loop owns all of it, driven by one of two
 * threads (idle_thread.h); others see only their jobs. */
#ifndef DLR_CKPT_STREAM_STATE_H
#define DLR_CKPT_STREAM_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/pace.h"
#include "ckpt/stream/core_use.h"
#include "ckpt/stream/fill_wait.h"
#include "ckpt/stream/idle_thread.h"
#include "ckpt/stream/slot_table.h"
#include "ckpt/stream/work.h"
#include "ckpt/transport/mac.h"
#include "ckpt/transport/net.h"
#include "ckpt/transport/wire.h"
#include "common/local/message.h"
#include "common/local/split.h"

#define DLR_DATA_NEVER INT64_MAX
/* requests of an ended transfer, before its connection is cut */
#define DLR_DATA_FLUSH_MS 200
/* and after: UCX has lost them, only a new process helps */
#define DLR_DATA_STUCK_MS 5000

/* beyond the answer's limit: a connection on which nothing moves is given up */
#define DLR_DATA_SILENT_MS 2000
#define DLR_DATA_HURRY 4 /* past 1/4 of its limit a copy is as urgent as a restart's */
/* a block of a version that is decided against, before its slot is freed */
#define DLR_DATA_REJECTED_MS 1000

struct dlr_data_conf {
    int64_t transfer_timeout_ms; /* one transfer, from its beginning to its end */
    unsigned threads;            /* that check what comes in */
    unsigned full_core; /* percent of one; the network's thread sums nothing then */
    enum dlr_transport transport;
    char ports[1024];           /* to listen at */
    char net[1024];             /* devices, empty: any */
    unsigned net_traffic_class; /* 0: the network's default */
    int64_t answer_timeout_ms;  /* a receiver to have a slot, and the round's token */
    int64_t fill_limit_ms;      /* of a slot that a save's copies wait for */
    int64_t scrub_ms;        /* each held byte is summed again once in it, 0: never */
    char memory[1024];       /* of the round's slots, "" where it is not told */
    char run_dir[1024];      /* the same of what is written to the disk */
    char restore_from[1024]; /* what else is read */
    char log[1024];          /* level of messages */
};

struct dlr_send;
struct dlr_recv;
struct dlr_parity_sum;
struct dlr_parity_order;
struct dlr_save;
struct dlr_scrub;

struct dlr_data {
    struct dlr_data_conf conf;
    int agent; /* socket; its end of file ends the process */
    int dir;   /* -1 until the first D_CONFIG */
    struct dlr_net *net;
    struct dlr_work *work;  /* files and memory */
    struct dlr_work *check; /* checksums of what comes in */
    /* slots to files: may take long, nothing else waits for it */
    struct dlr_work *save;
    atomic_uint urgent;         /* saves without a limit that wait or run */
    struct dlr_save *gathering; /* more slots are to come for its file, or NULL */
    struct dlr_work *sum;       /* blocks that are added up */
    struct dlr_slot_table held;
    struct dlr_scrub *scrub; /* NULL: what is held is not summed again */

    struct dlr_split config; /* the agent's next D_CONFIG, as far as it has come */
    bool configured;
    uint32_t round;
    unsigned char token[DLR_WIRE_TOKEN];
    unsigned char mac_key[DLR_MAC_KEY]; /* of transfers that nothing seals */
    bool forged; /* somebody without it has sent something: it was said once */
    uint64_t key;
    int32_t *accept;
    unsigned naccept;
    int32_t *fetch; /* ranks whose copies are only read here, for a restore */
    unsigned nfetch;
    bool resized; /* what the round begins from was made by another number of ranks */

    struct dlr_bucket bucket; /* of the sends that are paced */
    struct dlr_fill fill;
    struct dlr_core core;    /* of the thread whose turn it is */
    struct dlr_turns *turns; /* of the threads that drive all this */
    unsigned closing;        /* how often in a row a connection was not closed yet */
    struct dlr_send *sends;
    struct dlr_recv *recvs;
    unsigned nrecvs;
    struct dlr_parity_sum *sums;
    struct dlr_parity_order *parity_orders;
    uint64_t last_id;
    char uses[256];   /* transport and devices, as the agent was told */
    uint64_t dropped; /* messages that were malformed or not from this round */
};

/* --- tell_agent.c */
/* Sends to the agent; an agent that does not read for long ends the process. */
void dlr_stream_send_agent(struct dlr_data *d, const struct dlr_local_msg *msg,
                           const int *fds, unsigned nfds);
/* D_DONE: rc is 0 or -errno; why is what there is to say of either. */
void dlr_data_done(struct dlr_data *d, int32_t rank, struct dlr_version v, uint64_t id,
                   int rc, const char *why);

/* UCX keeps memory of a closed connection: ends the process; a new one is started. */
void dlr_data_stuck(void) __attribute__((noreturn));

/* --- agent_orders.c */
void dlr_stream_handle_order(struct dlr_data *d, const struct dlr_local_msg *msg);
int dlr_data_hello(struct dlr_data *d, struct dlr_err *err);

/* --- files.c: jobs of the work thread; slots from first on */
void dlr_data_reserve(struct dlr_data *d, int32_t rank, uint64_t bytes, unsigned first,
                      unsigned slots);
void dlr_data_load(struct dlr_data *d, const struct dlr_local_msg *msg);

/* --- save.c: jobs of the save thread */
void dlr_data_save(struct dlr_data *d, const struct dlr_local_msg *msg);

/* --- send.c */
void dlr_data_send(struct dlr_data *d, const struct dlr_local_msg *msg);
/* in: the message that it came in. */
void dlr_data_send_answer(struct dlr_data *d, const struct dlr_net_in *in,
                          const struct dlr_wire_answer *answer);
/* Ends every transfer of another round than the current one. */
void dlr_data_send_round(struct dlr_data *d);
/* The version was decided against: nothing more of it is sent. */
void dlr_data_send_abort(struct dlr_data *d, struct dlr_version v);
/* Whether all that is sent is of saves, and began of late. */
bool dlr_data_send_can_wait(const struct dlr_data *d, int64_t now_ms);
void dlr_data_send_down(struct dlr_data *d, struct dlr_net_peer *peer, int rc);
/* Nothing was looked at for so long: its limits begin later by that. */
void dlr_data_send_add_stopped_time(struct dlr_data *d, int64_t stopped_ms,
                                    int64_t now_ms);
/* Does what is due; the time of the next such thing. */
int64_t dlr_data_send_tick(struct dlr_data *d, int64_t now_ms);

/* --- check.c */
/* In a time that does not depend on where they differ. */
bool dlr_data_same_token(const unsigned char *a, const unsigned char *b);
/* Whether this sender may send this at all: 0 or -errno. */
int dlr_data_check_sender(const struct dlr_data *d, const struct dlr_wire_begin *head);
/* Whether it has the key that proves a copy which nothing seals: 0, else *ret off. */
int dlr_data_check_key(struct dlr_data *d, const struct dlr_net_in *in,
                       const struct dlr_wire_begin *head, struct dlr_mac *ret);
/* The order for a sum here that what rank sends at v goes into, NULL: none. */
const struct dlr_parity_order *
dlr_data_parity_order(const struct dlr_data *d, int32_t rank, struct dlr_version v);
/* Whether that copy is to be read here and not kept. */
bool dlr_data_fetches(const struct dlr_data *d, int32_t rank, struct dlr_version v);
/* The meta block against itself, its head and the slots of its rank. */
int dlr_data_check_meta(struct dlr_data *d, const struct dlr_wire_begin *head,
                        const void *meta, struct dlr_slot_info *ret);

/* --- dispatch.c Foreign bytes: fuzz target data. */
void dlr_data_dispatch(struct dlr_data *d, unsigned kind, struct dlr_net_in *in);

/* --- recv.c: what dispatch.c gives it */
void dlr_data_recv_begin(struct dlr_data *d, struct dlr_net_in *in);
void dlr_data_recv_block(struct dlr_data *d, struct dlr_net_in *in);
void dlr_data_recv_round(struct dlr_data *d);
/* Ends those of versions that are decided against and still wait for a slot: no byte
 * came. Those that have one end with their next block, or when none comes for
 * DLR_DATA_REJECTED_MS. */
void dlr_data_recv_decided(struct dlr_data *d);
/* A slot may be free now: transfers that wait for it look again. What d->held calls. */
void dlr_data_recv_retry(struct dlr_data *d);
void dlr_data_recv_down(struct dlr_data *d, struct dlr_net_peer *peer, int rc);
/* The same of what comes in: nobody waits for it but a commit. */
bool dlr_data_recv_can_wait(const struct dlr_data *d, int64_t now_ms);
void dlr_data_recv_add_stopped_time(struct dlr_data *d, int64_t stopped_ms,
                                    int64_t now_ms);
int64_t dlr_data_recv_tick(struct dlr_data *d, int64_t now_ms);

#endif
