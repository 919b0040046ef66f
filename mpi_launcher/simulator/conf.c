/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/simulator/conf.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define FIELD(f) offsetof(struct dlr_sim_conf, f)
#define AUTO_SPARES 64 /* one spare for so many nodes */
#define NODES_MAX 1000000
#define NUMBER_MAX 1e9

#define LLAMA "Llama 3, arXiv 2407.21783"
#define MEASURED "docs/results/second.md"
#define ASSUMED "assumed"

/* clang-format off */
const struct dlr_sim_key dlr_sim_keys[] = {
    {"gpus", DLR_SIM_NUMBER, FIELD(gpus), "16384", "GPUs that train", LLAMA},
    {"gpus-per-node", DLR_SIM_NUMBER, FIELD(gpus_per_node), "8", "GPUs of a node", LLAMA},
    {"spares", DLR_SIM_NUMBER, FIELD(spares), "auto", "nodes that are kept ready; auto: one for 64", ASSUMED},
    {"min-nodes", DLR_SIM_NUMBER, FIELD(min_nodes), "0", "go on with so many when no spare is left; 0: requeue", "--dlrover-nodes"},
    {"leaf-nodes", DLR_SIM_NUMBER, FIELD(leaf_nodes), "32", "nodes below one leaf switch", ASSUMED},
    {"days", DLR_SIM_NUMBER, FIELD(days), "365", "how long the job is played", "-"},
    {"node-rate", DLR_SIM_NUMBER, FIELD(node_rate), "3.19", "nodes lost in 1,000 node-days", LLAMA},
    {"program-rate", DLR_SIM_NUMBER, FIELD(program_rate), "0.57", "failures of the program in 1,000 node-days", LLAMA},
    {"leaf-rate", DLR_SIM_NUMBER, FIELD(leaf_rate), "0.03", "leaf switches lost in 1,000 days of their nodes", ASSUMED},
    {"alarm-rate", DLR_SIM_NUMBER, FIELD(alarm_rate), "0", "live nodes taken for dead in 1,000 node-days", MEASURED},
    {"together", DLR_SIM_SHARE, FIELD(together), "0", "share of lost nodes that take the next one with them", ASSUMED},
    {"down", DLR_SIM_TIME, FIELD(down), "1d", "mean time until a lost node is back", ASSUMED},
    {"leaf-down", DLR_SIM_TIME, FIELD(leaf_down), "30m", "the same of a leaf switch", ASSUMED},
    {"detect", DLR_SIM_TIME, FIELD(detect), "1s", "until a node's death is known", MEASURED},
    {"detect-program", DLR_SIM_TIME, FIELD(detect_program), "0.01s", "until a task's end is known", MEASURED},
    {"grace", DLR_SIM_TIME, FIELD(grace), "10s", "more, when more nodes fall silent than there are spares", "partition-grace"},
    {"clear", DLR_SIM_TIME, FIELD(clear), "0.03s", "until the round's processes are gone", "docs/results/first.md"},
    {"meet", DLR_SIM_TIME, FIELD(meet), "2s", "one rendezvous (0.33s on 4 nodes)", ASSUMED},
    {"prepare", DLR_SIM_TIME, FIELD(prepare), "1s", "copies to where the ranks will be", "docs/results/checkpoint.md, 1 GB a rank"},
    {"start", DLR_SIM_TIME, FIELD(start), "47s", "program start to the first step, restore included", "HyperPod, published"},
    {"reinit", DLR_SIM_TIME, FIELD(reinit), "5s", "the same where survivors stay (--in-process)", ASSUMED},
    {"stuck", DLR_SIM_SHARE, FIELD(stuck), "5%", "share of rounds in which they do not", ASSUMED},
    {"agents", DLR_SIM_TIME, FIELD(agents), "11s", "agents of a new allocation report", MEASURED ", 4,096 nodes"},
    {"write", DLR_SIM_TIME, FIELD(write), "30s", "survivors write their state before a requeue", ASSUMED},
    {"read", DLR_SIM_TIME, FIELD(read), "30s", "state is read from the disk", ASSUMED},
    {"queue", DLR_SIM_TIME, FIELD(queue), "121s", "from a requeue to the next start", "Slurm's delay of a requeued job"},
    {"takeover", DLR_SIM_TIME, FIELD(takeover), "0s", "batch host lost: a successor goes on after this; 0: requeue", "-"},
    {"resubmit", DLR_SIM_TIME, FIELD(resubmit), "1h", "until somebody starts a run again that has given up", ASSUMED},
    {"slurmd-timeout", DLR_SIM_TIME, FIELD(slurmd_timeout), "300s", "a node that is back sooner stays in the job", "slurm.conf"},
    {"save", DLR_SIM_TIME, FIELD(save), "10s", "time between two versions in memory; 0: none", "README.md"},
    {"commit", DLR_SIM_TIME, FIELD(commit), "5s", "until a version counts", ASSUMED},
    {"save-cost", DLR_SIM_SHARE, FIELD(save_cost), "0.15%", "steps are longer by this", "docs/results/checkpoint.md"},
    {"persist", DLR_SIM_TIME, FIELD(persist), "30m", "time between two versions on the disk; 0: none", ASSUMED},
    {"plain-detect", DLR_SIM_TIME, FIELD(plain_detect), "300s", "without dlrover: until a node's death is known", "SlurmdTimeout"},
    {"plain-write", DLR_SIM_TIME, FIELD(plain_write), "30s", "without dlrover: what a checkpoint stops", ASSUMED},
    {NULL},
};
/* clang-format on */

static double *field(struct dlr_sim_conf *conf, const struct dlr_sim_key *key)
{
    return (double *)((char *)conf + key->offset);
}

/* "90", "1.5h", "30s", "2%": what the unit makes of it, NAN when it is none of kind. */
static double number_of(enum dlr_sim_kind kind, const char *text)
{
    static const struct {
        const char *unit;
        enum dlr_sim_kind kind;
        double times;
    } units[] = {{"", DLR_SIM_NUMBER, 1},   {"ms", DLR_SIM_TIME, 1e-3},
                 {"s", DLR_SIM_TIME, 1},    {"m", DLR_SIM_TIME, 60},
                 {"h", DLR_SIM_TIME, 3600}, {"d", DLR_SIM_TIME, 86400},
                 {"%", DLR_SIM_SHARE, 0.01}};
    char *end;
    double value = strtod(text, &end);

    if (end == text || !strchr("0123456789.", text[0]) || !(value <= NUMBER_MAX))
        return NAN;
    if (dlr_streq(end, "") && value == 0)
        return 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (units[i].kind == kind && dlr_streq(units[i].unit, end))
            return value * units[i].times;
    return NAN;
}

int dlr_sim_conf_set(struct dlr_sim_conf *conf, const char *name, const char *value,
                     struct dlr_err *err)
{
    static const char *const like[] = {"a number", "a time such as 30s or 2h",
                                       "a share such as 5%"};
    const char *names[64];
    size_t n = 0;

    for (const struct dlr_sim_key *key = dlr_sim_keys; key->name; key++) {
        double number = number_of(key->kind, value);

        names[n++] = key->name;
        if (!dlr_streq(key->name, name))
            continue;
        if (dlr_streq(value, "auto") && key->offset == FIELD(spares))
            number = -1;
        if (isnan(number) || (key->kind == DLR_SIM_SHARE && number > 1))
            return dlr_fail(err, -EINVAL, "%s is '%.64s', which is not %s", name, value,
                            like[key->kind]);
        *field(conf, key) = number;
        return 0;
    }
    name = dlr_nearest(name, names, n) ? dlr_nearest(name, names, n) : name;
    return dlr_fail(err, -ENOENT, "unknown key, '%.32s' may be meant", name);
}

void dlr_sim_conf_init(struct dlr_sim_conf *conf)
{
    *conf = (struct dlr_sim_conf){.copies = 1, .seed = 1};
    for (const struct dlr_sim_key *key = dlr_sim_keys; key->name; key++)
        (void)dlr_sim_conf_set(conf, key->name, key->value, NULL);
}

unsigned dlr_sim_places(const struct dlr_sim_conf *conf)
{
    return (unsigned)ceil(conf->gpus / conf->gpus_per_node);
}

int dlr_sim_conf_check(struct dlr_sim_conf *conf, struct dlr_err *err)
{
    double places;

    if (conf->gpus < 1 || conf->gpus_per_node < 1)
        return dlr_fail(err, -EINVAL, "a job has one GPU at least, and a node, too");
    places = ceil(conf->gpus / conf->gpus_per_node);
    if (conf->spares < 0)
        conf->spares = ceil(places / AUTO_SPARES);
    conf->spares = floor(conf->spares);
    if (places + conf->spares > NODES_MAX)
        return dlr_fail(err, -EINVAL, "%.0f nodes are more than %d",
                        places + conf->spares, NODES_MAX);
    if (conf->min_nodes > places)
        return dlr_fail(err, -EINVAL, "min-nodes is %.0f and the job has %.0f nodes",
                        conf->min_nodes, places);
    if (conf->days <= 0 || conf->days > 36500)
        return dlr_fail(err, -EINVAL, "days is above 0, and 36500 at most");
    if (conf->leaf_nodes < 1)
        return dlr_fail(err, -EINVAL, "a leaf switch has one node at least");
    if (conf->save_cost >= 1)
        return dlr_fail(err, -EINVAL, "save-cost is all of the time");
    return 0;
}

void dlr_sim_conf_print(FILE *out)
{
    fprintf(out, "  %-15s %-8s %s [where the default is from]\n", "KEY", "DEFAULT",
            "MEANING");
    for (const struct dlr_sim_key *key = dlr_sim_keys; key->name; key++)
        fprintf(out, "  %-15s %-8s %s [%s]\n", key->name, key->value, key->help,
                key->from);
}

/* --- phases that were measured ---------------------------------------------------- */

static const struct {
    const char *row;
    size_t offset;
    double times; /* to seconds */
} rows[] = {
    {"node_loss.detect", FIELD(detect), 1},
    {"node_loss.clear", FIELD(clear), 1},
    {"node_loss.rendezvous", FIELD(meet), 1},
    {"node_loss.prepare", FIELD(prepare), 1},
    {"node_loss.start_of_workers", FIELD(start), 1},
    {"process_death.known", FIELD(detect_program), 1e-3},
};

static void drop(json_t **json)
{
    json_decref(*json);
}

int dlr_sim_conf_bench(struct dlr_sim_conf *conf, const char *text, struct dlr_err *err)
{
    json_error_t e;
    DLR_CLEANUP(drop) json_t *all = json_loads(text, 0, &e);
    json_t *list = json_is_object(all) ? json_object_get(all, "rows") : all, *row;
    size_t at;
    int n = 0;

    if (!json_is_array(list))
        return dlr_fail(err, -EINVAL, "no rows of a benchmark are in it");
    json_array_foreach(list, at, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        double value = json_number_value(json_object_get(row, "value"));

        for (size_t i = 0; name && i < sizeof(rows) / sizeof(*rows); i++)
            if (dlr_streq(rows[i].row, name) && value > 0 && value < NUMBER_MAX) {
                *(double *)((char *)conf + rows[i].offset) = value * rows[i].times;
                n++;
            }
    }
    return n ? n : dlr_fail(err, -ENODATA, "no row of it is about a recovery");
}
