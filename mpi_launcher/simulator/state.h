/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's inside, shared by its files and nobody else. */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_STATE_H
#define DLR_MPI_LAUNCHER_SIMULATOR_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/simulator/agenda.h"
#include "mpi_launcher/simulator/random.h"
#include "mpi_launcher/simulator/simulator.h"

enum sim_event {
    SIM_FAILURE, /* something fails */
    SIM_KNOWN,   /* a node's death is known */
    SIM_BACK,    /* a node is back */
    SIM_QUEUED,  /* the job is started again */
    SIM_HOST,    /* the batch host is lost, and agents have written the state */
    SIM_TASK,    /* a task's end is known */
    SIM_UP,      /* agents have reported */
    SIM_PLANNED,
    SIM_PREPARED,
    SIM_RUNNING,
    SIM_CLEARED,
    SIM_WRITTEN,
};

struct sim_node {
    bool down;   /* does not work */
    bool gone;   /* the policy takes it for dead */
    bool member; /* has a place in the newest plan */
    bool wiped;  /* has lost what it had in memory since the last start of a round */
};

struct dlr_sim {
    const struct dlr_sim_conf *conf;
    struct dlr_policy *policy; /* NULL: the job is in the queue */
    struct dlr_agenda agenda;
    struct dlr_random random;
    struct sim_node *nodes;
    unsigned n, places, now_places; /* wanted, and those of the next round */
    unsigned *node_of, *place_of;   /* of the version in memory; place n: none */
    unsigned *next_of;              /* node of each place in the newest plan */
    unsigned host;                  /* of the batch script */
    unsigned unknown;               /* nodes that are down and not known to be */

    int64_t now_ms;
    unsigned epoch, incarnation; /* events of an older one are void */
    enum dlr_sim_part part;      /* what the time goes to now */
    double spent_ms[DLR_SIM_PARTS], smaller_ms;
    bool leaves;  /* the incarnation ends: requeue or given_up */
    bool gave_up; /* it was the latter */
    bool deposed; /* the supervisor is lost: nobody asks the policy */
    bool failed;  /* no memory */

    bool running;
    int64_t run_ms;     /* since when */
    bool in_memory;     /* the newest version is */
    bool fresh, moved;  /* the next round: in a new allocation, on other nodes */
    double work_ms;     /* that the newest version holds, as time of all nodes */
    double disk_ms;     /* the newest one on the disk */
    int64_t persist_ms; /* when that was taken */
    uint32_t next_round;
    struct dlr_sim_result result;
};

/* state.c: so many seconds from now. */
void dlr_sim_after(struct dlr_sim *s, double wait_s, enum sim_event what,
                   unsigned node);

/* progress.c: work that is done, kept and lost. */
void dlr_sim_run_begins(struct dlr_sim *s);
/* The round computes no more: what is committed counts. */
void dlr_sim_run_ends(struct dlr_sim *s);
/* With what is not committed yet. */
double dlr_sim_progress_ms(const struct dlr_sim *s);
/* What memory has is written. */
void dlr_sim_write(struct dlr_sim *s);
/* Memory is looked at: where something is lost, what the disk has counts. */
void dlr_sim_look_at_memory(struct dlr_sim *s);

/* placement.c: nodes for the places of the next round; false: there are too few. */
bool dlr_sim_place(struct dlr_sim *s, unsigned char *member);
void dlr_sim_placed(struct dlr_sim *s); /* the round runs there */
bool dlr_sim_copies_lost(const struct dlr_sim *s);

/* failures.c */
void dlr_sim_next_failure(struct dlr_sim *s);
void dlr_sim_fail(struct dlr_sim *s);

/* job.c: an incarnation of the job, driven by the policy. */
int dlr_sim_begin(struct dlr_sim *s, struct dlr_err *err);
void dlr_sim_phase(struct dlr_sim *s, const struct dlr_agenda_item *item);

#endif
