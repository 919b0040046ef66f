/* SPDX-License-Identifier: Apache-2.0 */
/* What fails, and when: each kind comes by chance at its rate, to any node. */
#include "mpi_launcher/simulator/state.h"

#define DAY 86400.0
#define AWAY                                                                           \
    60.0        /* a live node that was taken for dead is back after so many seconds */
#define VOTES 3 /* detection times until agents go on without a supervisor */

static double rate(const struct dlr_sim_conf *c)
{
    return c->node_rate + c->program_rate + c->leaf_rate + c->alarm_rate;
}

void dlr_sim_next_failure(struct dlr_sim *s)
{
    double each = rate(s->conf) / 1000 / DAY * s->n;

    if (each > 0)
        dlr_sim_after(s, dlr_random_wait(&s->random, 1 / each), SIM_FAILURE, 0);
}

static void stop_run(struct dlr_sim *s)
{
    if (s->running)
        s->part = DLR_SIM_DETECT;
    dlr_sim_run_ends(s);
}

/* The agents elect one of them, which writes the state and has the job requeued. */
static void lose_supervisor(struct dlr_sim *s)
{
    s->result.batch_hosts++;
    if (s->conf->takeover > 0) {
        while (s->nodes[s->host].down && s->host + 1 < s->n)
            s->host++;
        return;
    }
    s->deposed = true;
    s->epoch++; /* no phase goes on */
    s->part = DLR_SIM_PERSIST;
    dlr_sim_after(s, VOTES * s->conf->detect + s->conf->write, SIM_HOST, 0);
}

/* What is back before slurmctld has given it up is a node of the job again. */
static void lose_node(struct dlr_sim *s, unsigned node, double known, double down)
{
    struct sim_node *lost = &s->nodes[node];
    double away = known + s->conf->agents + dlr_random_wait(&s->random, down);

    if (lost->down)
        return;
    lost->down = lost->wiped = true;
    if (lost->member)
        stop_run(s);
    s->result.nodes_lost++;
    if (s->deposed)
        return;
    s->unknown++;
    if (node == s->host) {
        known += s->conf->takeover;
        lose_supervisor(s);
    }
    dlr_sim_after(s, known, SIM_KNOWN, node);
    if (away < s->conf->slurmd_timeout)
        dlr_sim_after(s, away + s->conf->takeover, SIM_BACK, node);
}

/* When more fall silent than can be replaced, they may come back: it is waited for. */
static void lose_leaf(struct dlr_sim *s, unsigned node)
{
    unsigned leaf = (unsigned)s->conf->leaf_nodes, first = node / leaf * leaf;
    unsigned last = first + leaf < s->n ? first + leaf : s->n, members = 0;
    unsigned left = s->n - s->now_places;

    for (unsigned i = first; i < last; i++)
        members += s->nodes[i].member;
    s->result.leaves_lost++;
    for (unsigned i = first; i < last; i++)
        lose_node(s, i, s->conf->detect + (members > left ? s->conf->grace : 0),
                  s->conf->leaf_down);
}

static void fail_program(struct dlr_sim *s)
{
    if (!s->running)
        return;
    stop_run(s);
    s->result.program_failures++;
    dlr_sim_after(s, s->conf->detect_program, SIM_TASK, 0);
}

static void raise_alarm(struct dlr_sim *s, unsigned node)
{
    struct sim_node *alive = &s->nodes[node];

    if (alive->down || alive->gone || s->deposed)
        return;
    if (alive->member)
        stop_run(s);
    s->result.false_alarms++;
    alive->gone = true;
    dlr_policy_node_dead(s->policy, node, "no beats", s->now_ms);
    dlr_sim_after(s, AWAY, SIM_BACK, node);
}

void dlr_sim_fail(struct dlr_sim *s)
{
    const struct dlr_sim_conf *c = s->conf;
    double which = dlr_random_share(&s->random) * rate(c);
    unsigned node = dlr_random_below(&s->random, s->n);

    dlr_sim_next_failure(s);
    if (!s->policy)
        return; /* the job is in the queue, others have the nodes */
    if ((which -= c->node_rate) <= 0) {
        lose_node(s, node, c->detect, c->down);
        if (c->together > 0 && dlr_random_share(&s->random) <= c->together)
            lose_node(s, (node + 1) % s->n, c->detect, c->down);
    } else if ((which -= c->leaf_rate) <= 0) {
        lose_leaf(s, node);
    } else if ((which -= c->alarm_rate) <= 0) {
        raise_alarm(s, node);
    } else if (s->nodes[node].member) {
        fail_program(s);
    }
}
