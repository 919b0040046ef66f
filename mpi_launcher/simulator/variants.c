/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/simulator/variants.h"

#include <math.h>
#include <stdio.h>

#include "common/base/str.h"

static struct dlr_sim_variant *add(struct dlr_sim_variant *list, unsigned *n,
                                   const char *option, const struct dlr_sim_conf *conf,
                                   const char *value)
{
    struct dlr_sim_variant *v = &list[(*n)++];

    *v = (struct dlr_sim_variant){.option = option, .conf = *conf};
    snprintf(v->value, sizeof(v->value), "%s", value);
    return v;
}

static void add_spares(const struct dlr_sim_conf *conf, struct dlr_sim_variant *list,
                       unsigned *n)
{
    static const unsigned parts[] = {256, 128, 64, 32, 16};
    double before = -1;
    char value[32];

    for (unsigned i = 0; i <= sizeof(parts) / sizeof(*parts); i++) {
        double spares = i ? ceil((double)dlr_sim_places(conf) / parts[i - 1]) : 0;
        struct dlr_sim_variant *v;

        if (spares <= before)
            continue;
        before = spares;
        snprintf(value, sizeof(value), "%.0f", spares);
        v = add(list, n, "spares", conf, value);
        v->conf.spares = spares;
        v->given = spares == conf->spares;
    }
}

static void add_redundancies(const struct dlr_sim_conf *conf,
                             struct dlr_sim_variant *list, unsigned *n)
{
    static const struct {
        const char *name;
        double copies, members;
    } all[] = {{"none", 0, 0},
               {"xor:8", 1, 8},
               {"partner", 1, 0},
               {"rs:8+2", 2, 8},
               {"partner:2", 2, 0}};

    for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct dlr_sim_variant *v = add(list, n, "redundancy", conf, all[i].name);

        v->conf.copies = all[i].copies;
        v->conf.members = all[i].members;
        v->given = conf->copies == all[i].copies && conf->members == all[i].members;
    }
}

static void add_persists(const struct dlr_sim_conf *conf, struct dlr_sim_variant *list,
                         unsigned *n)
{
    static const char *const every[] = {"4h", "1h", "30m", "10m", "3m"};

    for (unsigned i = 0; i < sizeof(every) / sizeof(*every); i++) {
        struct dlr_sim_variant *v = add(list, n, "persist", conf, every[i]);

        (void)dlr_sim_conf_set(&v->conf, "persist", every[i], NULL);
        v->given = v->conf.persist == conf->persist;
    }
}

unsigned dlr_sim_variants(const struct dlr_sim_conf *conf,
                          struct dlr_sim_variant list[DLR_SIM_VARIANTS])
{
    unsigned n = 0;

    add_spares(conf, list, &n);
    add_redundancies(conf, list, &n);
    add_persists(conf, list, &n);
    for (unsigned i = 0; i < 2; i++) {
        struct dlr_sim_variant *v = add(list, &n, "in-process", conf, i ? "yes" : "no");

        v->conf.in_process = i;
        v->given = v->conf.in_process == conf->in_process;
    }
    return n;
}

unsigned dlr_sim_best(const struct dlr_sim_variant *list, unsigned n)
{
    unsigned best = 0, first = 0;
    bool spares = dlr_streq(list[0].option, "spares");

    for (unsigned i = 1; i < n; i++)
        if (spares ? list[i].result.paid > list[best].result.paid
                   : list[i].result.goodput > list[best].result.goodput)
            best = i;
    while (!spares && list[first].result.high < list[best].result.low)
        first++;
    return spares ? best : first;
}
