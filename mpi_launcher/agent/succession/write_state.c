/* SPDX-License-Identifier: Apache-2.0 */
/* Who is asked to write what, when the supervisor is no more: one file for each node,
 * as before a requeue that the supervisor itself prepares, and another one for what it
 * has made of parity.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/succession/successor.h"

#define TERMS 1024 /* 32 of "SLOT*COEF " and to spare */
#define NOBODY UINT_MAX

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
    return json_pack("{s:i, s:s, s:I, s:I, s:i, s:I, s:I}", "v", DLR_MSG_VERSION, "t",
                     type, "gen", (json_int_t)s->of->self->run.gen, "id",
                     (json_int_t)rank + 1, "rank", (int)rank, "vround",
                     (json_int_t)s->plan.version.round, "step",
                     (json_int_t)s->plan.version.step);
}

static bool is_lost(void *arg, unsigned rank)
{
    const struct dlr_plan *plan = arg;

    return plan->sources[rank].from == DLR_PLAN_PARITY;
}

static unsigned find_report(const struct dlr_successor *s, const char *node)
{
    unsigned i = 0;

    while (i < s->nreports && !dlr_streq(s->reports[i].node.name, node))
        i++;
    return i < s->nreports ? i : NOBODY;
}

/* Nobody has it: a node that has a part of it makes it. */
static void make_rank(struct dlr_successor *s, unsigned rank)
{
    struct dlr_agent_succession *su = s->of;
    const struct dlr_plan_source *src = &s->plan.sources[rank];
    struct dlr_agent_origin self = {
        .from = DLR_AGENT_SELF, .id = rank + 1, .told = s->told, .arg = su};
    DLR_AUTO_JSON json_t *msg = order(s, "rebuild", rank);
    char node[DLR_PARITY_DATA_MAX][DLR_TOPO_NAME], terms[TERMS], text[TERMS + 16];
    unsigned slot[DLR_PARITY_DATA_MAX], n, k;

    n = dlr_parity_sets_read_sources(src->where, slot, node);
    k = dlr_parity_sets_maker(&s->sets, rank, n, is_lost, &s->plan);
    if (!msg || k == n || find_report(s, node[k]) == NOBODY ||
        dlr_parity_sets_rebuild_terms(&s->sets, rank, slot, terms, sizeof(terms)) < 0) {
        s->whole = false;
        return;
    }
    dlr_format(text, sizeof(text), "%u %s", s->sets.world, terms);
    json_object_set_new(msg, "terms", json_string(text));
    json_object_set_new(msg, "parts", json_string(src->where));
    json_object_set_new(msg, "bytes", json_integer((json_int_t)src->bytes));
    s->writer[rank] = find_report(s, node[k]);
    s->waiting++;
    s->making++;
    if (!dlr_streq(node[k], su->self->node))
        dlr_agent_peers_send(su->base, node[k], json_incref(msg));
    else if (dlr_agent_rebuild(su->snapshots, msg, &self) < 0)
        s->told(su, self.id, -EIO, "it cannot be made here");
}

static int choose_path(struct dlr_successor *s, unsigned rank, char kind, unsigned i)
{
    struct dlr_plan_file *f = &s->files[rank];
    char dir[DLR_OPT_TEXT + 16];

    dlr_format(dir, sizeof(dir), "%s/persist", s->of->self->conf.run_dir);
    return dlr_persist_path(dir, kind, i, &s->write, f->path, sizeof(f->path));
}

/* What one node is asked to write into one file. */
struct batch {
    json_t *msg, *with;
    unsigned first;
};

static void add(const struct dlr_successor *s, struct batch *b, unsigned rank)
{
    if (b->msg) {
        json_array_append_new(b->with,
                              json_pack("[i, I]", (int)rank, (json_int_t)rank + 1));
        return;
    }
    b->first = rank;
    b->msg = order(s, "persist", rank);
    b->with = json_array();
    json_object_set_new(b->msg, "path", json_string(s->files[rank].path));
}

static void send_batch(struct dlr_successor *s, struct batch *b)
{
    struct dlr_agent_succession *su = s->of;
    struct dlr_agent_origin self = {
        .from = DLR_AGENT_SELF, .id = b->first + 1, .told = s->told, .arg = su};
    const char *node;

    if (!b->msg)
        return;
    node = s->reports[s->writer[b->first]].node.name;
    if (json_array_size(b->with) > 0)
        json_object_set(b->msg, "with", b->with);
    json_decref(b->with);
    if (!dlr_streq(node, su->self->node)) {
        dlr_agent_peers_send(su->base, node, b->msg);
        return;
    }
    dlr_agent_persist(su->snapshots, b->msg, &self);
    json_decref(b->msg);
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
           s->writer[rank] == NOBODY;
}

static void write_held(struct dlr_successor *s, unsigned i)
{
    const struct dlr_plan_report *report = &s->reports[i];
    struct batch batch = {NULL};

    for (unsigned c = 0; c < report->ncopies; c++) {
        unsigned rank = (unsigned)report->copies[c].rank;

        if (!is_source(s, i, &report->copies[c]) ||
            choose_path(s, rank, DLR_PERSIST_HELD, i) < 0)
            continue;
        s->writer[rank] = i;
        s->waiting++;
        add(s, &batch, rank);
    }
    send_batch(s, &batch);
}

static void write_made(struct dlr_successor *s, unsigned i)
{
    struct batch batch = {NULL};

    for (unsigned r = 0; r < s->plan.made_by; r++)
        if (s->writer[r] == i && s->plan.sources[r].from == DLR_PLAN_PARITY)
            add(s, &batch, r);
    send_batch(s, &batch);
}

static void one_less(struct dlr_successor *s)
{
    if (--s->making > 0)
        return;
    for (unsigned i = 0; i < s->nreports; i++)
        write_made(s, i);
}

bool dlr_agent_succeed_made(struct dlr_successor *s, unsigned rank, int rc)
{
    if (s->plan.sources[rank].from != DLR_PLAN_PARITY || s->writer[rank] == NOBODY ||
        s->files[rank].path[0])
        return false;
    if (rc == 0)
        rc = choose_path(s, rank, DLR_PERSIST_MADE, s->writer[rank]);
    if (rc < 0)
        s->writer[rank] = NOBODY;
    one_less(s);
    return rc == 0;
}

bool dlr_agent_succeed_write_alone(struct dlr_successor *s, unsigned rank)
{
    struct batch batch = {NULL};
    const char *name = strrchr(s->files[rank].path, '/');

    if (!name || name[1] == DLR_PERSIST_ALONE ||
        choose_path(s, rank, DLR_PERSIST_ALONE, rank) < 0)
        return false;
    add(s, &batch, rank);
    send_batch(s, &batch);
    return true;
}

void dlr_agent_succeed_write(struct dlr_successor *s)
{
    uint64_t layout = layout_of(s);

    for (unsigned r = 0; r < s->plan.made_by; r++) {
        s->writer[r] = NOBODY;
        s->files[r].copy = (struct dlr_plan_copy){.rank = (int32_t)r,
                                                  .world = s->plan.made_by,
                                                  .version = s->plan.version,
                                                  .bytes = s->plan.sources[r].bytes,
                                                  .layout = layout};
    }
    s->making = 1; /* held until every order is out */
    for (unsigned i = 0; i < s->nreports; i++)
        write_held(s, i);
    for (unsigned r = 0; r < s->plan.made_by; r++)
        if (s->plan.sources[r].from == DLR_PLAN_PARITY)
            make_rank(s, r);
        else if (s->writer[r] == NOBODY)
            s->whole = false;
    one_less(s);
}
