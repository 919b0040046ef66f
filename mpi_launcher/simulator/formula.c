/* SPDX-License-Identifier: Apache-2.0 */
/* Daly's model (Future Generation Computer Systems 22, 2006): with a mean time M
 * between failures, R to restart and D for a checkpoint, T of work between two take
 * M e^(R/M) (e^((T+D)/M) - 1).
 */
#include <math.h>

#include "mpi_launcher/simulator/simulator.h"

#define DAY 86400.0
#define SHORTEST                                                                       \
    1.0 /* second: between two checkpoints that are to be as many as is best */

static double share(double mean, double restart, double dump, double work)
{
    return work / (mean * exp(restart / mean) * (exp((work + dump) / mean) - 1));
}

/* Seconds between failures that hit the job; of nodes, and of the program. */
static double mean_of(const struct dlr_sim_conf *c, double *ret_nodes)
{
    double nodes = c->node_rate * (1 + c->together) + c->alarm_rate;
    double all = nodes + c->program_rate;

    *ret_nodes = all > 0 ? nodes / all : 0;
    return all > 0 ? 1 / (all / 1000 / DAY * dlr_sim_places(c)) : 1e300;
}

/* Each failure costs its phases; one node loss in spares + 1 a requeue. */
double dlr_sim_formula(const struct dlr_sim_conf *c)
{
    double nodes, mean = mean_of(c, &nodes);
    double start =
        c->in_process ? c->stuck * c->start + (1 - c->stuck) * c->reinit : c->start;
    double requeue =
        c->write + c->queue + c->agents + c->meet + c->read + c->start - start;
    double restart = nodes * (c->detect + c->prepare) +
                     (1 - nodes) * c->detect_program + c->clear + c->meet + start +
                     c->commit;
    double alone = (dlr_sim_places(c) + c->spares) / dlr_sim_places(c);

    if (c->min_nodes <= 0)
        restart += nodes * alone * requeue / (c->spares + 1);
    return (1 - c->save_cost) * share(mean, restart, 0, fmax(c->save, SHORTEST));
}

double dlr_sim_plain(const struct dlr_sim_conf *c, double *ret_every_s)
{
    double nodes, mean = mean_of(c, &nodes), best = 0, every = SHORTEST;
    double restart = nodes * c->plain_detect + c->queue + c->read + c->start;

    for (double t = SHORTEST; t < 7 * DAY; t *= 1.02)
        if (share(mean, restart, c->plain_write, t) > best) {
            best = share(mean, restart, c->plain_write, t);
            every = t;
        }
    if (ret_every_s)
        *ret_every_s = every;
    return best;
}
