/* SPDX-License-Identifier: Apache-2.0 */
/* Who is asked to write what, when the supervisor is no more: one file for each node, as before a
 * requeue that the supervisor itself prepares. A rank that is made of parity has its file to itself.
 */
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/agent_succeed.h"

#define TERMS 1024 /* 32 of "SLOT*COEF " and to spare */

/* All ranks of a version have one; of what is made of parity nobody has told it. */
static uint64_t layout_of(const struct dlr_successor *s)
{
    for (unsigned i = 0; i < s->nreports; i++)
        for (unsigned c = 0; c < s->reports[i].ncopies; c++) {
            const struct dlr_plan_copy *copy = &s->reports[i].copies[c];

            if ((unsigned)copy->rank < s->plan.made_by &&
                copy->world == s->plan.made_by &&
                dlr_version_eq(copy->version, s->plan.version))
                return copy->layout;
        }
    return 0;
}

static json_t *order(const struct dlr_successor *s, const char *type, unsigned rank)
{
    return json_pack("{s:i, s:s, s:I, s:I, s:i, s:I, s:I, s:s}", "v", DLR_MSG_VERSION,
                     "t", type, "gen", (json_int_t)s->agent->run.gen, "id",
                     (json_int_t)rank + 1, "rank", (int)rank, "vround",
                     (json_int_t)s->plan.version.round, "step",
                     (json_int_t)s->plan.version.step, "path", s->files[rank].path);
}

static bool is_lost(void *arg, unsigned rank)
{
    const struct dlr_plan *plan = arg;

    return plan->sources[rank].from == DLR_PLAN_PARITY;
}

/* Nobody has it: a node that has a part of it makes it, and writes it. */
static void make_rank(struct dlr_successor *s, unsigned rank)
{
    struct dlr_agent *a = s->agent;
    const struct dlr_plan_source *src = &s->plan.sources[rank];
    struct dlr_agent_origin self = {.from = DLR_AGENT_SELF, .id = rank + 1};
    DLR_AUTO_JSON json_t *msg = order(s, "rebuild", rank);
    char node[DLR_PARITY_DATA_MAX][DLR_TOPO_NAME], terms[TERMS], text[TERMS + 16];
    unsigned slot[DLR_PARITY_DATA_MAX], n, k;

    n = dlr_sets_read_sources(src->where, slot, node);
    k = dlr_sets_maker(&s->sets, rank, n, is_lost, &s->plan);
    if (!msg || k == n ||
        dlr_sets_rebuild_terms(&s->sets, rank, slot, terms, sizeof(terms)) < 0) {
        s->whole = false;
        return;
    }
    dlr_format(text, sizeof(text), "%u %s", s->sets.world, terms);
    json_object_set_new(msg, "terms", json_string(text));
    json_object_set_new(msg, "parts", json_string(src->where));
    json_object_set_new(msg, "bytes", json_integer((json_int_t)src->bytes));
    s->waiting++;
    if (!dlr_streq(node[k], a->node))
        dlr_agent_peers_say(a, node[k], json_incref(msg));
    else if (dlr_agent_rebuild(a, msg, &self) < 0)
        dlr_agent_succeed_done(a, self.id, -EIO, "it cannot be made here");
}

static int choose_path(struct dlr_successor *s, unsigned rank, char kind, unsigned i)
{
    struct dlr_plan_file *f = &s->files[rank];
    char dir[DLR_OPT_TEXT + 16];

    dlr_format(dir, sizeof(dir), "%s/persist", s->agent->conf.run_dir);
    return dlr_persist_path(dir, kind, i, &s->write, f->path, sizeof(f->path));
}

/* To the node that holds the rank. */
static void send_order(struct dlr_successor *s, unsigned rank, json_t *msg)
{
    struct dlr_agent *a = s->agent;
    const char *node = s->plan.sources[rank].where;
    struct dlr_agent_origin self = {.from = DLR_AGENT_SELF, .id = rank + 1};

    if (!dlr_streq(node, a->node)) {
        dlr_agent_peers_say(a, node, msg);
        return;
    }
    dlr_agent_persist(a, msg, &self);
    json_decref(msg);
}

/* Whether the plan takes the rank's state from this copy in report i. */
static bool is_source(const struct dlr_successor *s, unsigned i,
                      const struct dlr_plan_copy *copy)
{
    unsigned rank = (unsigned)copy->rank;

    return rank < s->plan.made_by && copy->world == s->plan.made_by &&
           dlr_version_eq(copy->version, s->plan.version) &&
           s->plan.sources[rank].from == DLR_PLAN_NODE &&
           dlr_streq(s->plan.sources[rank].where, s->reports[i].node.name) &&
           !s->files[rank].path[0];
}

/* All that a node is to write of what it holds, in one order. */
static void persist_node(struct dlr_successor *s, unsigned i)
{
    const struct dlr_plan_report *report = &s->reports[i];
    json_t *msg = NULL, *with = json_array();
    unsigned first = 0;

    for (unsigned c = 0; c < report->ncopies; c++) {
        unsigned rank = (unsigned)report->copies[c].rank;

        if (!is_source(s, i, &report->copies[c]) ||
            choose_path(s, rank, DLR_PERSIST_HELD, i) < 0)
            continue;
        s->waiting++;
        if (msg) {
            json_array_append_new(with,
                                  json_pack("[i, I]", (int)rank, (json_int_t)rank + 1));
            continue;
        }
        msg = order(s, "persist", rank);
        first = rank;
    }
    if (msg && json_array_size(with) > 0)
        json_object_set(msg, "with", with);
    json_decref(with);
    if (msg)
        send_order(s, first, msg);
}

bool dlr_agent_succeed_write_alone(struct dlr_successor *s, unsigned rank)
{
    if (strrchr(s->files[rank].path, '/')[1] != DLR_PERSIST_HELD ||
        choose_path(s, rank, DLR_PERSIST_ALONE, rank) < 0)
        return false;
    send_order(s, rank, order(s, "persist", rank));
    return true;
}

void dlr_agent_succeed_write(struct dlr_successor *s)
{
    uint64_t layout = layout_of(s);

    for (unsigned r = 0; r < s->plan.made_by; r++)
        s->files[r].copy = (struct dlr_plan_copy){.rank = (int32_t)r,
                                                  .world = s->plan.made_by,
                                                  .version = s->plan.version,
                                                  .bytes = s->plan.sources[r].bytes,
                                                  .layout = layout};
    for (unsigned i = 0; i < s->nreports; i++)
        persist_node(s, i);
    for (unsigned r = 0; r < s->plan.made_by; r++)
        if (s->plan.sources[r].from == DLR_PLAN_PARITY &&
            choose_path(s, r, DLR_PERSIST_ALONE, r) == 0)
            make_rank(s, r);
        else if (!s->files[r].path[0])
            s->whole = false;
}
