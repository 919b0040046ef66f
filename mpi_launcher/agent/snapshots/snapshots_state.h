/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SNAPSHOTS_STATE_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_SNAPSHOTS_STATE_H

#include <jansson.h>

#include "ckpt/base/pace.h"
#include "ckpt/base/page_cost.h"
#include "ckpt/slot/slot.h"
#include "ckpt/slot/store.h"
#include "hwloc_topo/topo.h"
#include "mpi_launcher/agent/data/data_process.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/snapshots/save.h"

#define DLR_AGENT_OPEN 16   /* versions: more than a supervisor has open */
#define DLR_AGENT_ABORTS 32 /* told again to a data process that is started again */

struct dlr_agent_rank {
    int32_t rank;
    const struct dlr_agent_conn *worker; /* NULL: not here, or gone */
    struct dlr_page *page;               /* of the worker; NULL before its hello */
    int page_fd;
    unsigned page_kept; /* mpi_launcher/agent/base/kept.h */
    /* mapped when this node owns the rank */
    struct dlr_slot *slots[DLR_STORE_SLOTS_MAX];
    int slot_fds[DLR_STORE_SLOTS_MAX];
    /* requests of the data process that read it */
    unsigned reading[DLR_STORE_SLOTS_MAX];
    bool corrupt[DLR_STORE_SLOTS_MAX]; /* it is DEAD when they have ended */
    bool spare_slot; /* it has a third, for the version that is kept */
    bool write_slot; /* or for that which is being written to the disk */
    bool own;        /* runs here in this round */
    bool opened;     /* a worker was welcomed in this turn */
    /* the process that closed it and had neither restored nor begun; 0: none */
    int left;
    bool reserving, asked; /* by the data process; by the worker */
    uint64_t bytes;        /* reserved; 0: not */
    bool restored;         /* said, with: */
    int restored_rc;
    bool differs;                 /* because the program asks for something else */
    unsigned corrupt_of;          /* 1 + the rank whose copy is corrupt, 0: none is */
    int64_t page_ns;              /* when it was made */
    bool page_bad;                /* it held what cannot be: told */
    struct dlr_page_cost cost;    /* of the page, as the supervisor knows it */
    struct dlr_topo_cpus helpers; /* as the page says them */
    struct {
        bool known;
        uint64_t step, hash;
    } shared[DLR_PAGE_RING]; /* of the steps it sealed: DLR_LOCAL_SEALED's hash */
};

struct dlr_agent_fetch { /* a copy that is fetched, or made here */
    struct dlr_agent_fetch *next;
    struct dlr_agent_snapshots *s;
    int32_t rank;
    struct dlr_agent_conn **waiting; /* [n], answered once it is here or will not be */
    unsigned n;
    int timer;   /* -1: off */
    bool coming; /* it has a slot, or is there */
    bool made;   /* here, of parity: others have none, so it stays until a commit */
    bool room;   /* its slot is there */
};

struct dlr_agent_snapshots {
    struct dlr_agent_base *base;
    const struct dlr_agent_self *self;
    const struct dlr_agent_round *round;
    struct dlr_agent_data *data;
    const struct dlr_agent_snapshots_ops *ops;
    void *arg;
    struct dlr_agent_rank **ranks;
    unsigned nranks;
    struct dlr_agent_fetch *fetches;
    uint64_t save_step;            /* newest that was ordered in this round; 0 none */
    uint64_t open[DLR_AGENT_OPEN]; /* ordered, and not decided as far as known here */
    unsigned nopen;
    uint64_t wanted; /* newest step that the supervisor was told of; 0 none */
    /* steps of this round, the newest last; 0 none */
    uint64_t aborted[DLR_AGENT_ABORTS];
    bool has_committed, has_vetted;
    struct dlr_version committed;   /* newest commit known here */
    struct dlr_version vetted;      /* older, and not freed by commits */
    bool no_vetted_known, go_known; /* whether there is such a round */
    uint32_t no_vetted_round;       /* in which no room for it was told */
    uint32_t go_round;              /* in which go was heard */
    struct {
        bool known;
        int32_t rank;
        struct dlr_version version;
    } bad; /* what a worker here has marked: told to every supervisor */
    struct {
        bool known;
        int32_t rank;
        struct dlr_version version;
        char why[256];
    } torn;  /* the last that an audit here has found */
    struct { /* of the data process, when they are known: */
        bool known;
        struct dlr_topo_numa numa; /* its devices are on these */
        uint32_t placed; /* the round in which its CPUs were looked for last */
    } devices;
    struct dlr_agent_rebuild *rebuilds; /* for a successor */
    struct {
        struct dlr_pace pace; /* --dlrover-set=pace=auto */
        unsigned sends;       /* of saves, on their way */
        int64_t begun_ns;     /* the first of them; and what has arrived since */
        uint64_t bytes;
    } pacing;
    struct dlr_topo *topo; /* this node's; NULL: not known */
};

#endif
