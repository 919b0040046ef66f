/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that reports, plans and inputs share in JSON. Private to the plan. */
#ifndef DLR_MPI_LAUNCHER_PLAN_JSON_FIELDS_H
#define DLR_MPI_LAUNCHER_PLAN_JSON_FIELDS_H

#include <jansson.h>

#include "mpi_launcher/plan/plan.h"

/* Appends item (taken over in every case, may be NULL). NULL when that failed. */
json_t *dlr_plan_put(json_t *array, json_t *item);

/* Puts a new array of n items under key. */
#define DLR_PLAN_PUT_LIST(j, key, n, item)                                             \
    ({                                                                                 \
        json_t *array_ = json_array();                                                 \
        int rc_ = json_object_set_new((j), (key), array_);                             \
        for (unsigned i = 0; rc_ == 0 && i < (n); i++)                                 \
            rc_ = dlr_plan_put(array_, (item)) ? 0 : -1;                               \
        rc_;                                                                           \
    })

json_t *dlr_plan_copy_to_json(const struct dlr_plan_copy *copy);
/* Foreign bytes: fuzz target plan. */
int dlr_plan_copy_from_json(const json_t *j, struct dlr_plan_copy *ret_copy);

const char *dlr_plan_from_name(enum dlr_plan_from from);

/* Copies a string field into buf; -ENOENT absent, -EBADMSG another type or too long. */
int dlr_plan_text(const json_t *j, const char *key, char *buf, size_t size);
/* A node's name: also not empty and free of blanks, slashes and control characters. */
int dlr_plan_name(const json_t *j, const char *key, char *buf, size_t size);
int dlr_plan_unsigned(const json_t *j, const char *key, unsigned max,
                      unsigned *ret_value);
/* "port", 0 when it is absent; else one of mpi_launcher/run/master_port.h's. */
int dlr_plan_port(const json_t *j, unsigned *ret_port);
/* "node" and "topo". Foreign bytes: fuzz target plan. */
int dlr_plan_node_from_json(const json_t *j, struct dlr_topo_node *ret_node);

/* The array under key and its length; an absent one is empty (NULL). -EBADMSG for
 * another type or more than max items.
 */
int dlr_plan_array(const json_t *j, const char *key, size_t max,
                   const json_t **ret_array, size_t *ret_n);

/* world_sizes.c: places and their ranks, "tasks" and "ranks" of an object. -1: out of
 * memory. What was read is w's after a failure, too.
 */
int dlr_plan_put_places(json_t *j, unsigned nplaces, const unsigned *tasks,
                        const unsigned *ranks);
/* Foreign bytes: fuzz target plan. */
int dlr_plan_read_places(const json_t *j, struct dlr_plan_world *w);
/* The list "worlds". Of each, every rank is there once. */
int dlr_plan_put_worlds(json_t *j, const struct dlr_plan_want *w);
/* Foreign bytes: fuzz target plan. */
int dlr_plan_read_worlds(const json_t *j, struct dlr_plan_want *w);
void dlr_plan_worlds_done(struct dlr_plan_want *w);

/* Fills ranks and place_of, whose world is known, from tasks[nplaces] and ranks (NULL:
 * in order). -EBADMSG when these are not every rank once, ascending at each place;
 * -ENOMEM.
 */
int dlr_plan_former_place(struct dlr_plan *plan, const unsigned *tasks,
                          unsigned nplaces, const unsigned *ranks);

#endif
