/* SPDX-License-Identifier: Apache-2.0 */
/* Places and their ranks in JSON: those of the round to come, and of rounds with
 * another number of ranks that have left parity.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/json/message.h"
#include "mpi_launcher/plan/json_fields.h"

/* --- writing ---------------------------------------------------------------------- */

static unsigned sum(const unsigned *tasks, unsigned nplaces)
{
    unsigned world = 0;

    for (unsigned p = 0; p < nplaces; p++)
        world += tasks[p];
    return world;
}

int dlr_plan_put_places(json_t *j, unsigned nplaces, const unsigned *tasks,
                        const unsigned *ranks)
{
    if (DLR_PLAN_PUT_LIST(j, "tasks", nplaces, json_integer(tasks[i])) < 0)
        return -1;
    return ranks ? DLR_PLAN_PUT_LIST(j, "ranks", sum(tasks, nplaces),
                                     json_integer(ranks[i]))
                 : 0;
}

static json_t *world_to_json(const struct dlr_plan_world *w)
{
    DLR_AUTO_JSON json_t *j = json_object();

    return j && dlr_plan_put_places(j, w->nplaces, w->tasks, w->ranks) == 0
               ? DLR_STEAL(j)
               : NULL;
}

int dlr_plan_put_worlds(json_t *j, const struct dlr_plan_want *w)
{
    return DLR_PLAN_PUT_LIST(j, "worlds", w->nworlds, world_to_json(&w->worlds[i]));
}

/* --- reading ---------------------------------------------------------------------- */

static int read_tasks(const json_t *j, unsigned **ret_tasks, unsigned *ret_nplaces)
{
    const json_t *array;
    unsigned *tasks;
    size_t n, i;
    int rc = dlr_plan_array(j, "tasks", DLR_PLAN_NODES_MAX, &array, &n);

    if (rc < 0)
        return rc;
    *ret_tasks = tasks = calloc(n + 1, sizeof(*tasks));
    if (!tasks)
        return -ENOMEM;
    *ret_nplaces = (unsigned)n;
    for (i = 0; i < n; i++) {
        json_int_t value = json_integer_value(json_array_get(array, i));

        if (value < 1 || value > DLR_PLAN_RANKS_MAX)
            return -EBADMSG;
        tasks[i] = (unsigned)value;
    }
    return 0;
}

static int read_ranks(const json_t *j, const unsigned *tasks, unsigned nplaces,
                      unsigned **ret_ranks)
{
    const json_t *array;
    unsigned *ranks;
    size_t n, i;
    int rc = dlr_plan_array(j, "ranks", DLR_PLAN_RANKS_MAX, &array, &n);
    uint64_t world = 0;

    for (i = 0; i < nplaces; i++)
        world += tasks[i];
    if (rc < 0 || !n || n != world)
        return rc < 0 || !n ? rc : -EBADMSG;
    *ret_ranks = ranks = calloc(n, sizeof(*ranks));
    for (i = 0; ranks && i < n; i++) {
        json_int_t value = json_integer_value(json_array_get(array, i));

        if (value < 0 || value >= DLR_PLAN_RANKS_MAX)
            return -EBADMSG;
        ranks[i] = (unsigned)value;
    }
    return ranks ? 0 : -ENOMEM;
}

int dlr_plan_read_places(const json_t *j, struct dlr_plan_world *w)
{
    int rc = read_tasks(j, &w->tasks, &w->nplaces);

    return rc < 0 ? rc : read_ranks(j, w->tasks, w->nplaces, &w->ranks);
}

/* Each of its ranks once: sets rely on it. */
static int read_world(const json_t *j, struct dlr_plan_world *w)
{
    struct dlr_plan seats = {0};
    uint64_t world = 0;
    int rc = dlr_plan_read_places(j, w);

    for (unsigned p = 0; rc == 0 && p < w->nplaces; p++)
        world += w->tasks[p];
    if (rc == 0 && (w->nplaces == 0 || world > DLR_PLAN_RANKS_MAX))
        rc = -EBADMSG;
    seats.world = (unsigned)world;
    if (rc == 0)
        rc = dlr_plan_former_place(&seats, w->tasks, w->nplaces, w->ranks);
    dlr_plan_done(&seats);
    return rc;
}

int dlr_plan_read_worlds(const json_t *j, struct dlr_plan_want *w)
{
    const json_t *array;
    struct dlr_plan_world *worlds;
    size_t n;
    int rc = dlr_plan_array(j, "worlds", DLR_PLAN_WORLDS_MAX, &array, &n);

    if (rc < 0)
        return rc;
    w->worlds = worlds = calloc(n + 1, sizeof(*worlds));
    if (!worlds)
        return -ENOMEM;
    w->nworlds = (unsigned)n;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = read_world(json_array_get(array, i), &worlds[i]);
    return rc;
}

void dlr_plan_worlds_done(struct dlr_plan_want *w)
{
    for (unsigned i = 0; i < w->nworlds; i++) {
        free(w->worlds[i].tasks);
        free(w->worlds[i].ranks);
    }
    free((void *)w->worlds);
}
