/* SPDX-License-Identifier: Apache-2.0 */
/* What share of its time a job would train: the supervisor's own policy engine under
 * virtual time, with failures drawn at the rates of a site, and the times that each
 * phase of a recovery takes. Pure: no clock, no files.
 */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_SIMULATOR_H
#define DLR_MPI_LAUNCHER_SIMULATOR_SIMULATOR_H

#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/simulator/conf.h"

/* Where the time of the job goes, of its nodes that train. */
enum dlr_sim_part {
    DLR_SIM_TRAINED,  /* work that counts */
    DLR_SIM_SAVING,   /* steps are that much longer because of saves */
    DLR_SIM_LOST,     /* work that had to be done again */
    DLR_SIM_SMALLER,  /* fewer nodes than wanted have trained */
    DLR_SIM_DETECT,   /* a failure is not known yet */
    DLR_SIM_CLEAR,    /* the round's processes go away */
    DLR_SIM_MEET,     /* rendezvous */
    DLR_SIM_PREPARE,  /* copies move to where the ranks will be, or files are read */
    DLR_SIM_START,    /* the program starts, or its survivors meet anew */
    DLR_SIM_AGENTS,   /* agents start, in a new allocation */
    DLR_SIM_PERSIST,  /* survivors write their state before a requeue */
    DLR_SIM_QUEUE,    /* the job waits in the queue */
    DLR_SIM_GIVEN_UP, /* the run has ended, until somebody starts it again */
    DLR_SIM_PARTS
};

const char *dlr_sim_part_name(enum dlr_sim_part part);

struct dlr_sim_result {
    double goodput;   /* share of the time, 0 to 1 */
    double low, high; /* 95 % of it, by the means of batches */
    double paid;      /* the same of all nodes of the allocation, spares too */
    double part[DLR_SIM_PARTS]; /* shares; their sum is 1 */
    unsigned long nodes_lost, leaves_lost, program_failures, false_alarms, batch_hosts;
    unsigned long rounds, requeues, from_disk, given_up;
    double days;
};

/* Called now and then with the share that is done, 0 to 1; NULL: nobody is told. */
typedef void (*dlr_sim_progress_fn)(void *arg, double done);

/* Plays conf->days. The same conf and seed give the same result. */
int dlr_sim_run(const struct dlr_sim_conf *conf, dlr_sim_progress_fn progress,
                void *arg, struct dlr_sim_result *ret, struct dlr_err *err);

/* The same share by a formula: failures come singly and by chance, one phase follows
 * the other undisturbed. It holds while a recovery is short beside the time between
 * failures, and knows nothing of switches or of copies that are lost together.
 */
double dlr_sim_formula(const struct dlr_sim_conf *conf);

/* The same formula for a job that Slurm requeues after each failure, and that loads its
 * newest file; it writes one as often as is best. *ret_every_s: how often, or NULL.
 */
double dlr_sim_plain(const struct dlr_sim_conf *conf, double *ret_every_s);

#endif
