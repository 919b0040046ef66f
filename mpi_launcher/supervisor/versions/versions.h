/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of versions: which are saved, committed or aborted, which are bad, torn
 * or kept as the older one, and how often the next ones are ordered. It knows the
 * copies and no engine above them, and says by its events what has happened. One
 * thread.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_VERSIONS_VERSIONS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_VERSIONS_VERSIONS_H

#include <jansson.h>

#include "ckpt/commit/commit.h"
#include "common/config/job_config.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"

struct dlr_sup_versions; /* opaque */
struct dlr_sup_copies;
struct dlr_sup_io;
struct dlr_sup_nodes;
struct dlr_sup_planning;

/* What it uses, and what it only reads; all of it must live as long, and may be filled
 * later.
 */
struct dlr_sup_versions_env {
    struct dlr_sup_io *io;
    struct dlr_sup_nodes *nodes;
    struct dlr_sup_planning *planning;
    struct dlr_sup_copies *copies;
    const struct dlr_job_config *conf;
    const struct dlr_plan *plan;  /* in force */
    const uint32_t *resume_round; /* where a former supervisor or incarnation stopped */
    const bool *took_over;        /* a supervisor of this incarnation died before us */
};

/* What happened, and what others are asked; arg is dlr_sup_versions_new()'s. */
struct dlr_sup_versions_ops {
    /* A version is committed: before anybody has heard of it. */
    void (*committed)(void *arg, struct dlr_version v);
    /* The agents have, and what it teaches is known. */
    void (*told)(void *arg, struct dlr_version v);
    /* The next supervisor must know what has changed; lasting: so must the job's next
     * incarnation. It is kept when this returns.
     */
    void (*changed)(void *arg, bool lasting);
    /* Asked: is a version being written to the disk? */
    bool (*writes)(void *arg);
    /* Asked: which round runs, or ran last? When was it launched? */
    uint32_t (*round)(void *arg);
    int64_t (*launched)(void *arg);
};

/* ops may be NULL where nothing of it is reached; ops and arg must live as long. NULL
 * when out of memory.
 */
struct dlr_sup_versions *dlr_sup_versions_new(const struct dlr_sup_versions_env *env,
                                              const struct dlr_sup_versions_ops *ops,
                                              void *arg);
/* Accepts NULL, returns NULL. */
struct dlr_sup_versions *dlr_sup_versions_free(struct dlr_sup_versions *versions);
/* The job's nodes are there, what a former supervisor knew, and the policy, which is
 * only read and must live as long.
 */
int dlr_sup_versions_open(struct dlr_sup_versions *versions,
                          const struct dlr_policy *policy, struct dlr_err *err);
void dlr_sup_versions_tick(struct dlr_sup_versions *versions, int64_t now_ms);
/* What decides: for the copies, whose progress it waits for. */
struct dlr_commit *dlr_sup_commit(const struct dlr_sup_versions *versions);

/* --- rounds: each begins with the version of the plan in force ------------------- */

void dlr_sup_versions_round(struct dlr_sup_versions *versions, uint32_t round);
/* Its ranks are known anew; same: they are where they were. */
void dlr_sup_versions_turn(struct dlr_sup_versions *versions, uint32_t round,
                           bool same);
/* It runs already, under a supervisor that is gone: nothing is ordered until go_on(),
 * which has what that one had committed and ordered: dlr_commit_go_on().
 */
void dlr_sup_versions_adopt(struct dlr_sup_versions *versions, uint32_t round);
void dlr_sup_versions_go_on(struct dlr_sup_versions *versions,
                            const struct dlr_version *newest, uint64_t ordered_step);
void dlr_sup_versions_stop(struct dlr_sup_versions *versions, const char *why);
/* Saves of the round that runs have begun, which was told; for the next supervisor. */
bool dlr_sup_saving(const struct dlr_sup_versions *versions);
void dlr_sup_saving_take(struct dlr_sup_versions *versions, bool told);
/* The round has reached step: the next save may be due sooner than steps said, and
 * where no commit comes one line says so.
 */
void dlr_sup_versions_watch(struct dlr_sup_versions *versions, uint64_t step,
                            int64_t now_ms);

/* --- what agents say: of parts of versions, dlr_commit_..(), and messages --------- */

void dlr_sup_versions_progress(struct dlr_sup_versions *versions, uint32_t round,
                               uint64_t step, int64_t now_ms);
void dlr_sup_versions_sealed(struct dlr_sup_versions *versions, unsigned rank,
                             struct dlr_version v, const json_t *msg);
void dlr_sup_versions_copied(struct dlr_sup_versions *versions, unsigned node,
                             unsigned rank, unsigned holder, struct dlr_version v,
                             const json_t *msg);
void dlr_sup_versions_missed(struct dlr_sup_versions *versions, unsigned rank,
                             struct dlr_version v, const json_t *msg);
/* "ready": what its slots take of the node's memory. */
void dlr_sup_memory_ready(struct dlr_sup_versions *versions, unsigned node,
                          const json_t *msg);
/* "no_slots", "no_vetted_slot", "bad", "torn", "uses" or "wanted". */
void dlr_sup_versions_hear(struct dlr_sup_versions *versions, unsigned node,
                           const json_t *msg);

/* --- verdicts --------------------------------------------------------------------- */

/* The newest that is committed; false: none is. */
bool dlr_sup_newest(const struct dlr_sup_versions *versions, struct dlr_version *ret);
/* Steps until the next node is lost, and how long a node takes to fetch the snapshot of
 * another one as its copies have gone; 0: not known yet.
 */
void dlr_sup_expected(const struct dlr_sup_versions *versions, double *ret_steps,
                      double *ret_fetch_ms);
/* Puts into a row of the journal what is committed and pending; the second one also how
 * old that is, how much a failure would lose now, and what became of all saves so far.
 */
void dlr_sup_newest_put(const struct dlr_sup_versions *versions, json_t *row);
void dlr_sup_saves_put(const struct dlr_sup_versions *versions, int64_t now_ms,
                       json_t *row);
/* "save_at", "commit" or "abort" of a version, to every agent. */
void dlr_sup_decide(struct dlr_sup_versions *versions, const char *type,
                    struct dlr_version v);
bool dlr_sup_is_bad(const struct dlr_sup_versions *versions, struct dlr_version v);

/* The older version that stays in memory beside the newest; false: none does. */
bool dlr_sup_vetted(const struct dlr_sup_versions *versions, struct dlr_version *ret);
/* Parity keeps none: a number is refused, auto is off, which is said. */
int dlr_sup_vetted_check(struct dlr_sup_versions *versions, struct dlr_err *err);
/* v is written to the disk from now on: it is the older one then. */
void dlr_sup_vetted_write(struct dlr_sup_versions *versions, struct dlr_version v);

/* --- failures --------------------------------------------------------------------- */

/* A round that had begun has ended: is it the same failure again? Then older ones are
 * next.
 */
void dlr_sup_repeated_failure_look(struct dlr_sup_versions *versions);
/* The plan would begin from nothing because of it: the run is to be ended, for that. */
bool dlr_sup_repeated_failure_stops(const struct dlr_sup_versions *versions,
                                    const struct dlr_plan *plan, char *buf,
                                    size_t size);
/* The program failed there first; by_class: in a way that another node may not have. */
void dlr_sup_blame_node(struct dlr_sup_versions *versions, unsigned node,
                        bool by_class);

/* --- for the next supervisor, and the next incarnation of the job ----------------- */

void dlr_sup_versions_state(const struct dlr_sup_versions *versions, json_t *state);
void dlr_sup_cadence_state(const struct dlr_sup_versions *versions, json_t *state);
void dlr_sup_versions_take(struct dlr_sup_versions *versions, const json_t *state);

#endif
