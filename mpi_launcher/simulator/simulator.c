/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: takes what comes next, lets the policy's limits run out, and counts what
 * the time went to.
 */
#include "mpi_launcher/simulator/simulator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "mpi_launcher/simulator/state.h"

#define BATCHES 20
#define T_BATCHES 2.093 /* 97.5 % of Student's t with 19 degrees of freedom */
#define DAY 86400000.0  /* ms */

static const char *const part_names[] = {
    "trained", "saving", "lost",   "smaller", "detect", "clear",   "meet",
    "prepare", "start",  "agents", "persist", "queue",  "given_up"};

const char *dlr_sim_part_name(enum dlr_sim_part part)
{
    return part_names[part];
}

static void move_clock(struct dlr_sim *s, int64_t to_ms)
{
    s->spent_ms[s->part] += (double)(to_ms - s->now_ms);
    s->now_ms = to_ms;
}

/* The job is requeued, or has given up and waits for somebody. */
static void leave(struct dlr_sim *s)
{
    s->result.requeues += !s->gave_up;
    s->result.given_up += s->gave_up;
    s->next_round = dlr_policy_round(s->policy) + 1;
    s->policy = dlr_policy_free(s->policy);
    s->incarnation++;
    s->epoch++;
    s->leaves = false;
    s->part = s->gave_up ? DLR_SIM_GIVEN_UP : DLR_SIM_QUEUE;
    dlr_sim_after(s, s->gave_up ? s->conf->resubmit : s->conf->queue, SIM_QUEUED, 0);
}

static void node_event(struct dlr_sim *s, const struct dlr_agenda_item *item)
{
    struct sim_node *node = &s->nodes[item->node];

    if (item->epoch != s->incarnation || s->deposed)
        return;
    if (item->what == SIM_KNOWN) {
        s->unknown--;
        node->gone = true;
        dlr_policy_node_dead(s->policy, item->node, "no beats", s->now_ms);
    } else {
        node->down = node->gone = false;
        dlr_policy_node_up(s->policy, item->node, s->now_ms);
    }
}

static int take(struct dlr_sim *s, const struct dlr_agenda_item *item,
                struct dlr_err *err)
{
    switch ((enum sim_event)item->what) {
    case SIM_FAILURE:
        dlr_sim_fail(s);
        break;
    case SIM_KNOWN:
    case SIM_BACK:
        node_event(s, item);
        break;
    case SIM_QUEUED:
        return dlr_sim_begin(s, err);
    case SIM_HOST:
        dlr_sim_write(s);
        s->leaves = true;
        break;
    default:
        if (item->epoch == s->epoch)
            dlr_sim_phase(s, item);
    }
    return 0;
}

static int64_t policy_deadline(const struct dlr_sim *s)
{
    return s->policy && !s->deposed ? dlr_policy_deadline_ms(s->policy) : INT64_MAX;
}

/* Until then. */
static int play(struct dlr_sim *s, int64_t until_ms, struct dlr_err *err)
{
    int rc = 0;

    while (rc == 0 && !s->failed) {
        int64_t next = dlr_agenda_next_ms(&s->agenda), limit = policy_deadline(s);

        if ((next < limit ? next : limit) > until_ms)
            break;
        move_clock(s, next < limit ? next : limit);
        if (limit < next) {
            dlr_policy_tick(s->policy, s->now_ms);
        } else {
            struct dlr_agenda_item item = dlr_agenda_take(&s->agenda);

            rc = take(s, &item, err);
        }
        if (s->leaves)
            leave(s);
    }
    if (s->failed)
        return dlr_fail(err, -ENOMEM, "no memory for the simulation");
    move_clock(s, until_ms);
    return rc;
}

/* The mean of the batches and how far it may be off. */
static void judge(const double *batch, struct dlr_sim_result *r)
{
    double mean = 0, square = 0, off;

    for (unsigned i = 0; i < BATCHES; i++)
        mean += batch[i] / BATCHES;
    for (unsigned i = 0; i < BATCHES; i++)
        square += (batch[i] - mean) * (batch[i] - mean);
    off = T_BATCHES * sqrt(square / (BATCHES - 1) / BATCHES);
    r->goodput = mean;
    r->low = fmax(0, mean - off);
    r->high = fmin(1, mean + off);
}

static void sum_up(struct dlr_sim *s)
{
    struct dlr_sim_result *r = &s->result;
    double all = s->conf->days * DAY, ran = s->spent_ms[DLR_SIM_TRAINED];
    double trained = dlr_sim_progress_ms(s);

    if (s->running) { /* it has not failed: what is done is done */
        s->spent_ms[DLR_SIM_SAVING] +=
            (double)(s->now_ms - s->run_ms) * s->conf->save_cost;
        s->smaller_ms += (double)(s->now_ms - s->run_ms) * (1 - s->conf->save_cost) *
                         (1 - (double)s->places / dlr_sim_places(s->conf));
    }
    s->spent_ms[DLR_SIM_TRAINED] = trained;
    s->spent_ms[DLR_SIM_SMALLER] = s->smaller_ms;
    s->spent_ms[DLR_SIM_LOST] =
        ran - trained - s->smaller_ms - s->spent_ms[DLR_SIM_SAVING];
    for (unsigned i = 0; i < DLR_SIM_PARTS; i++)
        r->part[i] = s->spent_ms[i] / all;
    r->paid = r->goodput * dlr_sim_places(s->conf) / s->n;
    r->days = s->conf->days;
}

static int run(struct dlr_sim *s, dlr_sim_progress_fn progress, void *arg,
               struct dlr_err *err)
{
    double each = s->conf->days * DAY / BATCHES, before = 0, batch[BATCHES];
    int rc;

    dlr_sim_next_failure(s);
    rc = dlr_sim_begin(s, err);
    for (unsigned i = 0; i < BATCHES && rc == 0; i++) {
        rc = play(s, (int64_t)(each * (i + 1)), err);
        batch[i] = (dlr_sim_progress_ms(s) - before) / each;
        before = dlr_sim_progress_ms(s);
        if (progress)
            progress(arg, (i + 1.0) / BATCHES);
    }
    if (rc < 0)
        return rc;
    judge(batch, &s->result);
    sum_up(s);
    return 0;
}

int dlr_sim_run(const struct dlr_sim_conf *conf, dlr_sim_progress_fn progress,
                void *arg, struct dlr_sim_result *ret, struct dlr_err *err)
{
    struct dlr_sim s = {.conf = conf, .random = {conf->seed}};
    int rc = -ENOMEM;

    s.n = dlr_sim_places(conf) + (unsigned)conf->spares;
    s.nodes = calloc(s.n, sizeof(*s.nodes));
    s.node_of = calloc(s.n, sizeof(*s.node_of));
    s.place_of = calloc(s.n, sizeof(*s.place_of));
    s.next_of = calloc(s.n, sizeof(*s.next_of));
    if (s.nodes && s.node_of && s.place_of && s.next_of)
        rc = run(&s, progress, arg, err);
    else
        (void)dlr_fail(err, rc, "no memory for %u nodes", s.n);
    if (rc == 0)
        *ret = s.result;
    dlr_policy_free(s.policy);
    dlr_agenda_done(&s.agenda);
    free(s.nodes);
    free(s.node_of);
    free(s.place_of);
    free(s.next_of);
    return rc;
}
