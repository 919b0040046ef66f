/* SPDX-License-Identifier: Apache-2.0 */
/* Reports and plans as JSON: docs/protocol.md section 5. Reading: json_read.c. */
#include <inttypes.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/plan/plan.h"

json_t *dlr_plan_put(json_t *array, json_t *item)
{
    if (!array || !item || json_array_append(array, item) < 0) {
        json_decref(item);
        return NULL;
    }
    json_decref(item);
    return item; /* the array's */
}

json_t *dlr_plan_copy_to_json(const struct dlr_plan_copy *c)
{
    char layout[17];

    dlr_format(layout, sizeof(layout), "%016" PRIx64, c->layout);
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:s}", "rank", (int)c->rank, "world",
                     (json_int_t)c->world, "vround", (json_int_t)c->version.round,
                     "step", (json_int_t)c->version.step, "bytes", (json_int_t)c->bytes,
                     "layout", layout);
}

static json_t *check_to_json(const struct dlr_plan_check *c)
{
    return json_pack("{s:s, s:s, s:s}", "check", c->check, "verdict",
                     dlr_health_verdict_name(c->verdict), "reason", c->reason);
}

static int put_speeds(json_t *j, const struct dlr_plan_report *r)
{
    json_t *speeds = json_object();

    for (unsigned i = 0; speeds && i < r->nspeeds; i++)
        if (json_object_set_new(speeds, r->speeds[i].check,
                                json_real(r->speeds[i].value)) < 0)
            return -1;
    return json_object_set_new(j, "speeds", speeds);
}

json_t *dlr_plan_report_to_json(const struct dlr_plan_report *r)
{
    DLR_AUTO_JSON json_t *j = NULL;
    json_t *checks = json_array(), *silent = json_array(), *copies = json_array();
    unsigned i;

    j = json_pack("{s:s, s:s, s:i, s:i, s:s, s:o*, s:o*, s:o*}", "node", r->node.name,
                  "topo", r->node.path, "cpus", (int)r->cpus, "port", (int)r->port,
                  "boot", r->boot, "checks", checks, "silent", silent, "versions",
                  copies);
    if (!j || !checks || !silent || !copies || (r->nspeeds && put_speeds(j, r) < 0))
        return NULL;
    for (i = 0; i < r->nchecks; i++)
        if (!dlr_plan_put(checks, check_to_json(&r->checks[i])))
            return NULL;
    for (i = 0; i < r->nsilent; i++)
        if (!dlr_plan_put(silent, json_string(r->silent[i])))
            return NULL;
    for (i = 0; i < r->ncopies; i++)
        if (!dlr_plan_put(copies, dlr_plan_copy_to_json(&r->copies[i])))
            return NULL;
    return DLR_STEAL(j);
}

/* --- plans ------------------------------------------------------------------------ */

static json_t *place_to_json(const struct dlr_plan *plan, unsigned i)
{
    const struct dlr_plan_place *p = &plan->places[i];

    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o*, s:i, s:b}", "node",
                     p->node.name, "topo", p->node.path, "cpus", (int)p->cpus, "port",
                     (int)p->port, "first", (int)plan->ranks[p->from], "tasks",
                     (int)p->tasks, "ranks", dlr_plan_place_ranks(plan, i), "partner",
                     (int)p->partner, "moved", (int)p->moved);
}

static json_t *order_to_json(const struct dlr_topo_cost *o)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "apart", (int)o->apart, "least",
                     (int)o->least, "split", (int)o->split, "first", (int)o->first,
                     "leaves", (int)o->leaves);
}

static json_t *reorder_to_json(const struct dlr_plan_reorder *r)
{
    return json_pack("{s:i, s:i, s:b, s:f, s:f}", "moves", (int)r->moves, "saves",
                     (int)r->saves, "taken", r->taken, "gain_ms", r->gain_ms, "cost_ms",
                     r->cost_ms);
}

static json_t *node_to_json(const struct dlr_topo_node *n)
{
    return json_pack("{s:s, s:s}", "node", n->name, "topo", n->path);
}

static json_t *out_to_json(const struct dlr_plan_out *o)
{
    return json_pack("{s:s, s:s}", "node", o->node, "reason", o->reason);
}

static json_t *verdict_to_json(const struct dlr_plan_verdict *v)
{
    json_t *j = check_to_json(&v->check);

    if (j && json_object_set_new(j, "node", json_string(v->node)) < 0) {
        json_decref(j);
        return NULL;
    }
    return j;
}

static json_t *source_to_json(const struct dlr_plan_source *s)
{
    return json_pack("{s:s, s:s*, s:I}", "from", dlr_plan_from_name(s->from), "where",
                     s->where, "bytes", (json_int_t)s->bytes);
}

const char *dlr_plan_from_name(enum dlr_plan_from from)
{
    static const char *const names[] = {"local", "node", "file", "parity"};

    return names[from];
}

/* A new array under key; NULL when out of memory. */
static json_t *list(json_t *j, const char *key)
{
    json_t *array = json_array();

    return json_object_set_new(j, key, array) < 0 ? NULL : array;
}

static int put_out(json_t *j, const struct dlr_plan *plan)
{
    json_t *out = list(j, "out"), *verdicts = list(j, "verdicts");
    unsigned i;

    if (!out || !verdicts)
        return -1;
    for (i = 0; i < plan->nout; i++)
        if (!dlr_plan_put(out, out_to_json(&plan->out[i])))
            return -1;
    for (i = 0; i < plan->nverdicts; i++)
        if (!dlr_plan_put(verdicts, verdict_to_json(&plan->verdicts[i])))
            return -1;
    return 0;
}

static int put_places(json_t *j, const struct dlr_plan *plan)
{
    json_t *places = list(j, "places"), *spares = list(j, "spares");
    unsigned i;

    if (!places || !spares ||
        json_object_set_new(j, "world", json_integer(plan->world)) < 0 ||
        json_object_set_new(j, "order", order_to_json(&plan->order)) < 0)
        return -1;
    if (plan->reorder.moves &&
        json_object_set_new(j, "reorder", reorder_to_json(&plan->reorder)) < 0)
        return -1;
    for (i = 0; i < plan->nplaces; i++)
        if (!dlr_plan_put(places, place_to_json(plan, i)))
            return -1;
    for (i = 0; i < plan->nspares; i++)
        if (!dlr_plan_put(spares, node_to_json(&plan->spares[i])))
            return -1;
    return 0;
}

static int put_restore(json_t *j, const struct dlr_plan *plan)
{
    json_t *sources = list(j, "sources"), *notes = list(j, "notes"), *restore;
    unsigned i;

    restore = !plan->restore
                  ? json_null()
                  : json_pack("{s:I, s:I}", "vround", (json_int_t)plan->version.round,
                              "step", (json_int_t)plan->version.step);
    if (plan->restore && plan->made_by != plan->world)
        json_object_set_new(restore, "world", json_integer(plan->made_by));
    if (json_object_set_new(j, "restore", restore) < 0 || !sources || !notes)
        return -1;
    for (i = 0; plan->restore && i < plan->made_by; i++)
        if (!dlr_plan_put(sources, source_to_json(&plan->sources[i])))
            return -1;
    for (i = 0; i < plan->nnotes; i++)
        if (!dlr_plan_put(notes, json_string(plan->notes[i])))
            return -1;
    return 0;
}

json_t *dlr_plan_to_json(const struct dlr_plan *plan, const struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *j = json_pack("{s:i}", "v", DLR_MSG_VERSION);
    int rc = j ? put_out(j, plan) : -1;

    if (rc == 0 && err && err->code < 0)
        rc = json_object_set_new(
            j, "error", json_pack("{s:i, s:s}", "code", err->code, "text", err->text));
    else if (rc == 0)
        rc = put_places(j, plan) < 0 ? -1 : put_restore(j, plan);
    return rc < 0 ? NULL : DLR_STEAL(j);
}
