/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that reports, plans and inputs share in JSON. Private to the plan. */
#ifndef DLR_MPI_LAUNCHER_PLAN_FIELDS_H
#define DLR_MPI_LAUNCHER_PLAN_FIELDS_H

#include <jansson.h>

#include "mpi_launcher/plan.h"

/* Appends item (taken over in every case, may be NULL). NULL when that failed. */
json_t *dlr_plan_put(json_t *array, json_t *item);

json_t *dlr_plan_copy_to_json(const struct dlr_plan_copy *copy);
int dlr_plan_copy_from_json(const json_t *j, struct dlr_plan_copy *ret_copy);

const char *dlr_plan_from_name(enum dlr_plan_from from);

/* Copies a string field into buf; -ENOENT absent, -EBADMSG another type or too long. */
int dlr_plan_text(const json_t *j, const char *key, char *buf, size_t size);
/* A node's name: also not empty and free of blanks, slashes and control characters. */
int dlr_plan_name(const json_t *j, const char *key, char *buf, size_t size);
int dlr_plan_unsigned(const json_t *j, const char *key, unsigned max,
                      unsigned *ret_value);
/* "node" and "topo". */
int dlr_plan_node_from_json(const json_t *j, struct dlr_topo_node *ret_node);

/* The array under key and its length; an absent one is empty (NULL). -EBADMSG for another
 * type or more than max items.
 */
int dlr_plan_array(const json_t *j, const char *key, size_t max,
                   const json_t **ret_array, size_t *ret_n);

/* Fills ranks and place_of, whose world is known, from tasks[nplaces] and ranks (NULL: in order).
 * -EBADMSG when these are not every rank once, ascending at each place; -ENOMEM.
 */
int dlr_plan_seat(struct dlr_plan *plan, const unsigned *tasks, unsigned nplaces,
                  const unsigned *ranks);

#endif
