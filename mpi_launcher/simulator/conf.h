/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation is told: one table of keys, each with its default and where that is
 * from.
 */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_CONF_H
#define DLR_MPI_LAUNCHER_SIMULATOR_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"

/* Times are seconds, rates are per 1,000 node-days, shares are 0 to 1. */
struct dlr_sim_conf {
    /* the job */
    double gpus, gpus_per_node, spares, min_nodes, leaf_nodes, days;
    double copies;  /* other nodes that hold something of each state; 0: none */
    double members; /* nodes of a set that share parity; 0: copies are whole */
    /* what fails */
    double node_rate, program_rate, leaf_rate, alarm_rate, together, down, leaf_down;
    /* what a recovery takes */
    double detect, detect_program, grace, clear, meet, prepare, start, reinit, stuck;
    double agents, write, read, queue, takeover, resubmit, slurmd_timeout;
    /* what is saved */
    double save, commit, save_cost, persist;
    /* the same job without dlrover */
    double plain_detect, plain_write;
    bool in_process;
    uint64_t seed;
};

enum dlr_sim_kind { DLR_SIM_NUMBER, DLR_SIM_TIME, DLR_SIM_SHARE };

struct dlr_sim_key {
    const char *name; /* NULL ends the table */
    enum dlr_sim_kind kind;
    size_t offset;
    const char *value; /* the default, as text */
    const char *help;  /* one sentence, lower case, no full stop */
    const char *from;  /* where the default is from */
};

extern const struct dlr_sim_key dlr_sim_keys[];

/* Sets every field to its default: spares are set by dlr_sim_conf_check(). */
void dlr_sim_conf_init(struct dlr_sim_conf *conf);

/* Sets one key; -ENOENT: there is none of that name, -EINVAL: no such value. */
int dlr_sim_conf_set(struct dlr_sim_conf *conf, const char *name, const char *value,
                     struct dlr_err *err);

/* Whether it can be played; sets what was left open. */
int dlr_sim_conf_check(struct dlr_sim_conf *conf, struct dlr_err *err);

/* Prints the table, one line for each key. */
void dlr_sim_conf_print(FILE *out);

/* Nodes that train. */
unsigned dlr_sim_places(const struct dlr_sim_conf *conf);

/* Takes phases that `make bench` has measured (build/bench.json): the keys whose rows
 * are there. Returns how many. The file is the user's own.
 */
int dlr_sim_conf_bench(struct dlr_sim_conf *conf, const char *text,
                       struct dlr_err *err);

#endif
