/* SPDX-License-Identifier: Apache-2.0 */
/* What a job might be given instead: how many spares, which redundancy, how often to
 * write to the disk, survivors that stay.
 */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_VARIANTS_H
#define DLR_MPI_LAUNCHER_SIMULATOR_VARIANTS_H

#include "mpi_launcher/simulator/simulator.h"

#define DLR_SIM_VARIANTS 24

struct dlr_sim_variant {
    const char *option; /* what is varied: those of one option follow each other */
    char value[32];
    bool given; /* as conf has it */
    struct dlr_sim_conf conf;
    struct dlr_sim_result result; /* filled by who plays it */
};

/* Fills list with those of conf, which was checked; how many. */
unsigned dlr_sim_variants(const struct dlr_sim_conf *conf,
                          struct dlr_sim_variant list[DLR_SIM_VARIANTS]);

/* Of the n variants of one option, all played, the one to take: of spares the one with
 * the most work for what all nodes cost. Of others the first that nothing is better
 * than by more than chance explains.
 */
unsigned dlr_sim_best(const struct dlr_sim_variant *list, unsigned n);

#endif
