/* SPDX-License-Identifier: Apache-2.0 */
/* Of the plan: which ranks sit at which place. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "mpi_launcher/plan/json_fields.h"

#define NOWHERE UINT_MAX

int dlr_plan_former_place(struct dlr_plan *plan, const unsigned *tasks,
                          unsigned nplaces, const unsigned *ranks)
{
    unsigned i = 0;

    plan->ranks = calloc(plan->world + 1, sizeof(*plan->ranks));
    plan->place_of = calloc(plan->world + 1, sizeof(*plan->place_of));
    if (!plan->ranks || !plan->place_of)
        return -ENOMEM;
    for (unsigned r = 0; r < plan->world; r++)
        plan->place_of[r] = NOWHERE;
    for (unsigned p = 0; p < nplaces; p++)
        for (unsigned t = 0; t < tasks[p]; t++, i++) {
            unsigned rank = ranks ? ranks[i] : i;

            if (i >= plan->world || rank >= plan->world ||
                plan->place_of[rank] != NOWHERE || (t && rank < plan->ranks[i - 1]))
                return -EBADMSG;
            plan->ranks[i] = rank;
            plan->place_of[rank] = p;
        }
    return i == plan->world ? 0 : -EBADMSG;
}

json_t *dlr_plan_place_ranks(const struct dlr_plan *plan, unsigned place)
{
    const unsigned *ranks = plan->ranks + plan->places[place].from;
    unsigned n = plan->places[place].tasks;
    json_t *list;

    if (n == 0 || ranks[n - 1] - ranks[0] + 1 == n)
        return NULL;
    list = json_array();
    for (unsigned t = 0; t < n; t++)
        json_array_append_new(list, json_integer(ranks[t]));
    return list;
}
