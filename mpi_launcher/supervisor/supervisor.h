/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's inside, shared by the files of mpi_launcher/supervisor/ and nobody else. One
 * thread, one reactor; the policy engine decides, these carry it out.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_SUPERVISOR_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_SUPERVISOR_H

#include <czmq.h>
#include <jansson.h>

#include "ckpt/commit/commit.h"
#include "ckpt/manifest/manifest.h"
#include "ckpt/slot/slot.h"
#include "common/config/job_config.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/process/fork_server.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/process/work_queue.h"
#include "mpi_launcher/run/run_info.h"
#include "mpi_launcher/slurm/srun.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/copies/bad_copies.h"
#include "mpi_launcher/supervisor/copies/requests.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/hello.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/lost_nodes.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/planning/resize.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/internal_step.h"
#include "mpi_launcher/supervisor/steps/rejoin.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/srun_flush.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/wire/endpoint.h"

/* Transfers that must end before the next thing may begin. */
struct dlr_transfer {
    uint64_t id;
    unsigned rank, from, to; /* nodes */
    unsigned slot; /* copies/reprotect.c: what it goes into: rank's or a shard's */
    char path[DLR_PLAN_WHERE]; /* not "": between a file and node 'to' */
    bool alone;                /* nothing else goes into that file */
    bool waits;                /* disk/persist_on_failure.c: for others of that file */
    struct dlr_slice slice;    /* of it, once that was written */
    uint64_t of;               /* not 0: a part of what that one rebuilds */
    bool rebuild;              /* node 'to' makes it of its parts */
    bool shard;                /* and that part is parity, not a rank */
    bool brought;              /* made as a copy that is only read: copies/rebuild.c */
    unsigned tried;            /* nodes before this one that had no room for that */
    bool essential;            /* without it the round cannot begin */
    bool started, ended;
};

/* A copy that the network failed, and in which round: it has its second chance in the next. */
struct dlr_sup_spared {
    struct dlr_plan_struck copy;
    uint32_t round;
};

/* Copies and parity of the version that a round began with, made while it runs. */
struct dlr_sup_again {
    bool wanted;               /* others are to keep this version */
    struct dlr_transfer *list; /* what is lacking, then how far it is */
    unsigned n, out;           /* out: not there yet; 0: nothing is under way */
    bool failed;         /* something of it will be lacking until the next commit */
    int64_t deadline_ms; /* nothing is saved until then, or until out is 0 */
};

struct dlr_sup {
    /* fixed after the start */
    struct dlr_jobconf conf;
    struct dlr_runinfo info;
    struct dlr_run_id id;
    uint32_t resume_round; /* where a former supervisor or incarnation stopped */
    unsigned resume_restarts;
    bool ended_before;   /* its code was told before a requeue: nothing is to be run */
    bool took_over;      /* a supervisor of this incarnation died before us */
    unsigned generation; /* supervisors of this incarnation, this one too */
    char address[DLR_TOPO_NAME + 8]; /* where agents connect */
    int state_fd;                    /* the keeper's memory file, -1 without keeper */
    int signal_fd;

    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    const struct dlr_members *members; /* theirs */
    struct dlr_sup_steps *steps;
    struct dlr_sup_planning *planning;
    const struct dlr_stepplan *step; /* its */
    const struct dlr_plan *plan;     /* its, too: the one in force */
    struct dlr_sup_copies *copies;
    struct dlr_sup_rounds *rounds;
    struct dlr_sup_ending *ending;
    struct dlr_policy *policy;
    struct dlr_sup_versions *versions;
    struct dlr_commit *commit; /* theirs */
    struct dlr_sup_disk *disk;

    /* what the next plan must know */
    bool anywhere;     /* copies of the plan's version may not be where its ranks are */
    bool common_net;   /* copies go over the control plane's network */
    unsigned *holders; /* copies/redundancy.c: [places][copies] of the plan in force */
    struct dlr_sets sets; /* of those that share parity; rows 0: there are none */
    uint64_t *slot_bytes; /* [world] what each rank has reserved in this round */
    int64_t
        bare_ms; /* since then part of a version is not where it should be; 0: all is */
    int *kept;   /* nodes of the last round that was prepared; NULL: none */
    unsigned nkept;
    bool kept_whole; /* and they have all of the newest version */
    struct dlr_sup_again again;
    struct dlr_plan_struck *struck;
    unsigned nstruck;
    struct dlr_sup_spared *spared;
    unsigned nspared;
    unsigned copies_bad; /* that went bad in memory, as nodes have found */
    struct dlr_bad_copies bad_copies;
    char token[33];

    /* transfers of the preparation, or writes of a persist */
    struct dlr_transfer *transfers;
    unsigned ntransfers, moved;
    struct dlr_version transfer_version;
    struct dlr_sup_bring *brings; /* copies/fetch.c */
    unsigned brought;             /* in this round */
    bool bring_failed; /* a copy could not be brought: a version is not bad for that */
    bool preparing;
    int transfer_rc;
    char transfer_why[256];

    /* the round */
    int64_t phase_ms; /* when the present phase began */
    uint32_t running_round;
};

/* copies/transfers.c: where copies go */
void dlr_sup_prepare(void *arg, uint32_t round);
int dlr_sup_new_token(struct dlr_sup *s); /* -EIO: there is no randomness */
void dlr_sup_transfers_clear(struct dlr_sup *s);
void dlr_sup_on_ready(struct dlr_sup *s, unsigned node, unsigned rank, uint32_t round,
                      uint64_t bytes);
struct dlr_transfer *dlr_sup_add_transfer(struct dlr_sup *s, unsigned rank, int from,
                                          int to, bool essential);
void dlr_sup_ask_reserve(struct dlr_sup *s, unsigned node, unsigned rank,
                         uint64_t bytes);
/* A message of this type with the transfer's fields. */
json_t *dlr_sup_order(const struct dlr_sup *s, const struct dlr_transfer *t,
                      const char *type);
/* The same with one more, to node. */
void dlr_sup_ask(struct dlr_sup *s, const struct dlr_transfer *t, const char *type,
                 unsigned node, const char *key, const char *value);
/* A node has no room for a rank's copy: what was to go there has ended. True when the round needs it. */
/* The receiver has its slots: the holder may send, or it may load the file. */
void dlr_sup_transfer_start(struct dlr_sup *s, struct dlr_transfer *t);
bool dlr_sup_transfers_full(struct dlr_sup *s, unsigned node, unsigned rank,
                            const char *why);
void dlr_sup_transfers_lost(struct dlr_sup *s, unsigned node);
struct dlr_transfer *dlr_sup_transfer(struct dlr_sup *s, uint64_t id); /* NULL none */

/* copies/scrub.c: memory of a copy that this node holds went bad. */
void dlr_sup_on_copy_bad(struct dlr_sup *s, unsigned node, const json_t *msg);
/* A copy is there now: it may be one of those. holder: the node's number among the rank's holders. */
void dlr_sup_scrub_copied(struct dlr_sup *s, unsigned node, unsigned rank, int holder,
                          struct dlr_version v);

/* --- copies/fetch.c: versions of another number of ranks --------------------------------- */
bool dlr_sup_other_world(const struct dlr_sup *s);    /* such a one is to be restored */
json_t *dlr_sup_restore_row(const struct dlr_sup *s); /* of the round message */
/* A worker of node reads another rank's copy: it is brought there. */
void dlr_sup_on_bring(struct dlr_sup *s, unsigned node, const json_t *msg);
void dlr_sup_on_room(struct dlr_sup *s, unsigned node, const json_t *msg);
void dlr_sup_bring_lost(struct dlr_sup *s, unsigned node);
void dlr_sup_bring_round(struct dlr_sup *s);     /* none of a former round goes on */
void dlr_sup_transfers_check(struct dlr_sup *s); /* all ended: tells the policy */
void dlr_sup_strike(struct dlr_sup *s, const char *where, int rank,
                    struct dlr_version v);
/* All copies of it; lasting, later: as in struct dlr_plan_struck. */
void dlr_sup_strike_version(struct dlr_sup *s, struct dlr_version v, bool lasting,
                            bool later);
const struct dlr_plan_struck *dlr_sup_struck(const struct dlr_sup *s, unsigned *ret_n);
void dlr_sup_unstrike(struct dlr_sup *s, unsigned i); /* that one of them */

/* copies/transfer_retry.c: that copy's transfer has failed with rc; true: it is to be struck off. Of what the
 * network has done to it the first time, false.
 */
bool dlr_sup_blames(struct dlr_sup *s, const char *where, int rank,
                    struct dlr_version v, int rc);

/* copies/redundancy.c: which nodes keep a snapshot. holder 0 is the rank's own node, 1 to copies
 * are the others.
 */
unsigned dlr_sup_copies(const struct dlr_sup *s);
int dlr_sup_redundancy_check(struct dlr_sup *s, struct dlr_err *err);
/* The step has other places; the program's ranks have them (tasks of each place, ranks as in
 * struct dlr_plan_want).
 */
int dlr_sup_redundancy_replanned(struct dlr_sup *s, struct dlr_err *err);
int dlr_sup_redundancy_reseated(struct dlr_sup *s, const unsigned *tasks,
                                const unsigned *ranks);
int dlr_sup_holders_make(struct dlr_sup *s); /* for s->plan */
/* The rank's holders are asked for slots as its own node has them; not before all nodes of a round that is
 * taken over have come back, then those of all ranks.
 */
void dlr_sup_holders_ask(struct dlr_sup *s, unsigned rank);
void dlr_sup_holders_ask_all(struct dlr_sup *s);
unsigned dlr_sup_holder(const struct dlr_sup *s, unsigned place, unsigned holder);
int dlr_sup_holder_node(const struct dlr_sup *s, unsigned place, unsigned holder);
/* Which holder node is to the ranks of place, -1: none. */
int dlr_sup_holder_of(const struct dlr_sup *s, unsigned place, unsigned node);
/* The holders of this round are those whom the next one asks about. */
void dlr_sup_holders_keep(struct dlr_sup *s);
/* True when that holder of place is known to have its part of the version to restore. */
bool dlr_sup_holder_has(const struct dlr_sup *s, unsigned place, unsigned holder);
/* A node is lost: while it kept something, a second loss may cost committed steps. Until every
 * holder has its part of a version again.
 */
void dlr_sup_bare(struct dlr_sup *s, unsigned node);
void dlr_sup_covered(struct dlr_sup *s); /* they have: all of the newest version */
/* Parity: what is made where; a shard has its slot. */
json_t *dlr_sup_round_sums(const struct dlr_sup *s);
void dlr_sup_shard_ready(struct dlr_sup *s, unsigned node, unsigned slot);
/* The slot of shard number row of rank's group, and its bytes for the version to restore. */
unsigned dlr_sup_shard_of(const struct dlr_sup *s, unsigned rank, unsigned row);
uint64_t dlr_sup_shard_room(const struct dlr_sup *s, unsigned rank);
json_t *dlr_sup_holder_names(const struct dlr_sup *s, unsigned place);

/* copies/rebuild.c: ranks that only parity has. That one is made where it will run. */
void dlr_sup_rebuild(struct dlr_sup *s, unsigned rank);
/* Of a plan without places; the transfer's number, 0: it cannot be. */
uint64_t dlr_sup_rebuild_anywhere(struct dlr_sup *s, const struct dlr_plan *plan,
                                  unsigned rank);
/* All that the plan in force lacks, when another number of ranks made its version. */
void dlr_sup_rebuild_lost(struct dlr_sup *s);
/* Node says whether it has room for one of these; false: none was to be made there. */
bool dlr_sup_rebuild_room(struct dlr_sup *s, unsigned node, unsigned rank, int rc,
                          const char *why);
/* They are there: from now on those nodes have them. */
void dlr_sup_rebuild_known(struct dlr_sup *s);

/* copies/reprotect.c: what others are to keep of the version that a round begins with */
void dlr_sup_again_plan(struct dlr_sup *s); /* for s->plan: what is lacking */
void dlr_sup_again_start(
    struct dlr_sup *s); /* every rank has it: its copies are made */
void dlr_sup_again_stop(struct dlr_sup *s);
/* The round has a new token, and ranks and version are the same: what is not there is sent once more.
 * Where ranks have moved their copies are where they were until the next commit, and their holders are
 * others: nothing is made then.
 */
void dlr_sup_again_turn(struct dlr_sup *s);
void dlr_sup_again_ready(struct dlr_sup *s, unsigned node, unsigned slot);
void dlr_sup_again_copied(struct dlr_sup *s, unsigned node, unsigned rank,
                          struct dlr_version v);
void dlr_sup_again_lost(struct dlr_sup *s, unsigned node);
void dlr_sup_again_tick(struct dlr_sup *s, int64_t now_ms);

/* copies/fallback_network.c: the network that a node's copies were to take leads nowhere; all take the one they have
 * in common
 */
void dlr_sup_on_unreached(struct dlr_sup *s, unsigned node, const json_t *msg);
void dlr_sup_net_state(const struct dlr_sup *s, json_t *state); /* for the next one */
void dlr_sup_net_take(struct dlr_sup *s, const json_t *state);

/* resume.c: which run this is, and what was left of it */
int dlr_sup_load_state(struct dlr_sup *s, struct dlr_err *err);

#endif
