/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation as text, as JSON and as a picture. */
#ifndef DLR_MPI_LAUNCHER_SIMULATOR_REPORT_H
#define DLR_MPI_LAUNCHER_SIMULATOR_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "mpi_launcher/simulator/variants.h"

void dlr_sim_report(const struct dlr_sim_conf *conf, const struct dlr_sim_result *r,
                    FILE *out);
void dlr_sim_report_variants(const struct dlr_sim_variant *list, unsigned n, FILE *out);

/* Owned by the caller: json_decref(). */
json_t *dlr_sim_json(const struct dlr_sim_conf *conf, const struct dlr_sim_result *r);
json_t *dlr_sim_json_variants(const struct dlr_sim_variant *list, unsigned n);

/* SVG: bars of where the time goes beside the formula and a plain requeue. */
void dlr_sim_picture(const struct dlr_sim_conf *conf, const struct dlr_sim_result *r,
                     FILE *out);

#endif
