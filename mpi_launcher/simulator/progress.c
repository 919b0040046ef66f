/* SPDX-License-Identifier: Apache-2.0 */
/* Work: what a round does, what of it versions hold, and what is lost with them. A
 * version is taken each `save` of a round and counts `commit` later; the disk has one
 * each `persist`, `write` after it was taken.
 */
#include <math.h>

#include "mpi_launcher/simulator/state.h"

#define MS 1000.0

void dlr_sim_run_begins(struct dlr_sim *s)
{
    dlr_sim_placed(s);
    s->running = s->in_memory = true;
    s->fresh = false;
    s->places = s->now_places;
    s->run_ms = s->now_ms;
    s->part = DLR_SIM_TRAINED;
    dlr_policy_started(s->policy, dlr_policy_round(s->policy));
    dlr_policy_stepped(s->policy, dlr_policy_round(s->policy));
}

static double speed(const struct dlr_sim *s)
{
    return (double)s->places / dlr_sim_places(s->conf);
}

/* Of so much time of the round. */
static double work_of(const struct dlr_sim *s, double ms)
{
    return ms * (1 - s->conf->save_cost) * speed(s);
}

double dlr_sim_progress_ms(const struct dlr_sim *s)
{
    return s->work_ms + (s->running ? work_of(s, (double)(s->now_ms - s->run_ms)) : 0);
}

static void run_persists(struct dlr_sim *s)
{
    double every = s->conf->persist * MS, until = (double)s->now_ms;
    double first = fmax((double)s->run_ms, (double)s->persist_ms + every);

    until -= s->conf->write * MS;
    if (every <= 0 || until < first)
        return;
    s->persist_ms = (int64_t)(first + floor((until - first) / every) * every);
    s->disk_ms = s->work_ms + work_of(s, (double)(s->persist_ms - s->run_ms));
}

void dlr_sim_run_ends(struct dlr_sim *s)
{
    double ran = (double)(s->now_ms - s->run_ms), save = s->conf->save * MS;
    double versions = save > 0 ? floor((ran - s->conf->commit * MS) / save) : 0;
    double before = s->work_ms;

    if (!s->running)
        return;
    s->running = false;
    run_persists(s);
    s->spent_ms[DLR_SIM_SAVING] += ran * s->conf->save_cost;
    s->smaller_ms += ran * (1 - s->conf->save_cost) * (1 - speed(s));
    if (save <= 0)
        s->in_memory = false;
    else if (versions > 0)
        s->work_ms += work_of(s, versions * save);
    s->work_ms = s->in_memory ? fmax(s->work_ms, s->disk_ms) : s->disk_ms;
    if (s->work_ms > before && s->policy)
        dlr_policy_committed(s->policy, (uint64_t)s->work_ms);
}

void dlr_sim_write(struct dlr_sim *s)
{
    dlr_sim_look_at_memory(s);
    s->disk_ms = s->work_ms;
    s->persist_ms = s->now_ms;
}

void dlr_sim_look_at_memory(struct dlr_sim *s)
{
    if (!s->in_memory || !dlr_sim_copies_lost(s))
        return;
    s->in_memory = false;
    s->work_ms = s->disk_ms;
    s->result.from_disk++;
}
