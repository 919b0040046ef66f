/* SPDX-License-Identifier: Apache-2.0 */
/* What the agents do without a supervisor: they elect one of them, which has written
 * what is in memory and the job requeued; when Slurm ends the job it is written only;
 * when the srun of the script is gone with its supervisor, the run ends. The engine
 * knows no lease, and asks for it.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_SUCCESSION_SUCCESSION_H
#define DLR_MPI_LAUNCHER_AGENT_SUCCESSION_SUCCESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi_launcher/agent/base/answers.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/round.h"
#include "mpi_launcher/agent/base/self.h"

struct dlr_agent_snapshots;
struct dlr_agent_tasks;
struct dlr_agent_succession; /* opaque */

/* arg is dlr_agent_succession_new()'s. None may be NULL. */
struct dlr_agent_succession_ops {
    /* Asked: after what time of silence a supervisor is taken for dead, and for how
     * long no lease has come; with the time in which this agent itself was stopped, or
     * without.
     */
    int64_t (*dead_ms)(void *arg);
    int64_t (*unheard_ms)(void *arg);
    int64_t (*silent_ms)(void *arg);
    bool (*suspended)(void *arg); /* the job is */
    /* The lease ends not before until_ns. */
    void (*hold)(void *arg, int64_t until_ns);
    /* A report of this node is wanted: of SELF it comes with
     * dlr_agent_succeed_report().
     */
    void (*report)(void *arg, const struct dlr_agent_origin *from);
    /* The supervisor is at this address from now on ("ADDRESS:PORT"): to be spoken to.
     * False: that cannot be.
     */
    bool (*follow)(void *arg, const char *address);
};

/* All that it is given must live as long. NULL: out of memory. */
struct dlr_agent_succession *
dlr_agent_succession_new(struct dlr_agent_base *base, const struct dlr_agent_self *self,
                         const struct dlr_agent_round *round,
                         struct dlr_agent_snapshots *snapshots,
                         struct dlr_agent_tasks *tasks,
                         const struct dlr_agent_succession_ops *ops, void *arg);
void dlr_agent_succession_stop(struct dlr_agent_succession *su);
/* It is stopped. Accepts NULL, returns NULL. */
struct dlr_agent_succession *dlr_agent_succession_free(struct dlr_agent_succession *su);

/* --- peer_orders.c: the other agents */

/* A message "peers". -EBADMSG: all is as before. */
int dlr_agent_succession_peers(struct dlr_agent_succession *su, const json_t *msg);
/* A peer sent this, or answers. */
void dlr_agent_on_peer(struct dlr_agent_succession *su, const struct dlr_packet *p);
void dlr_agent_on_peer_answer(struct dlr_agent_succession *su, const char *node,
                              const struct dlr_packet *p);
/* The supervisor, or a successor, has the job requeued, all is written; false: it was
 * not to be had.
 */
void dlr_agent_succession_given(struct dlr_agent_succession *su, bool given);

/* --- host_watch.c */

/* No lease for half a dead-time; called with each beat while it lasts. */
void dlr_agent_watchdog_silence(struct dlr_agent_succession *su);
void dlr_agent_watchdog_answered(
    struct dlr_agent_succession *su); /* the supervisor spoke */

/* --- keeper_watch.c */

/* text: a process of some host (mpi_launcher/process/process_id.h). When it is one of
 * ours its end is the run's, unless the supervisor is heard after it.
 */
void dlr_agent_keeper_watch(struct dlr_agent_succession *su, const char *text);

/* --- grace.c */

void dlr_agent_grace(struct dlr_agent_succession *su); /* SIGTERM */
/* Another one that the tasks have, too (scancel -s, --signal). */
void dlr_agent_warned(struct dlr_agent_succession *su, int sig);
void dlr_agent_grace_resend(struct dlr_agent_succession *su);
bool dlr_agent_in_grace(const struct dlr_agent_succession *su);

/* --- take_over.c */

/* The supervisor's will: what another one needs to go on here. -EBADMSG. */
int dlr_agent_take_over_will(struct dlr_agent_succession *su, const json_t *msg);
/* The supervisor is another one than that of our command line. */
bool dlr_agent_has_followed(const struct dlr_agent_succession *su);

/* --- successor.c, blocking.c */

/* True when a requeue runs that must end before we do; dlr_agent_end() comes from
 * there.
 */
bool dlr_agent_succeed_holds(struct dlr_agent_succession *su);
/* A node's report; NULL: there is none. */
void dlr_agent_succeed_report(struct dlr_agent_succession *su, const char *node,
                              const json_t *report);
/* The blocking part: reads what to do from fd, does it, returns an exit status. */
int dlr_agent_succeed_main(int fd);

#endif
