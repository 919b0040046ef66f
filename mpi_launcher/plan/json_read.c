/* SPDX-License-Identifier: Apache-2.0 */
/* Reports and plans out of JSON that somebody else wrote: every field is checked. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/run/master_port.h"

#define LIST_MAX (4u * DLR_PLAN_RANKS_MAX) /* copies in one report */
#define CHECKS_MAX 64u

/* --- fields ----------------------------------------------------------------------- */

int dlr_plan_text(const json_t *j, const char *key, char *buf, size_t size)
{
    const char *text;
    int rc = dlr_msg_str(j, key, &text);

    if (rc < 0)
        return rc;
    return dlr_format(buf, size, "%s", text) < 0 ? -EBADMSG : 0;
}

int dlr_plan_name(const json_t *j, const char *key, char *buf, size_t size)
{
    int rc = dlr_plan_text(j, key, buf, size);
    const char *p;

    if (rc < 0)
        return rc;
    for (p = buf; *p; p++)
        if (!isgraph((unsigned char)*p) || *p == '/')
            return -EBADMSG;
    return buf[0] ? 0 : -EBADMSG;
}

int dlr_plan_unsigned(const json_t *j, const char *key, unsigned max,
                      unsigned *ret_value)
{
    uint64_t value;
    int rc = dlr_msg_uint(j, key, max, &value);

    if (rc == 0)
        *ret_value = (unsigned)value;
    return rc;
}

int dlr_plan_port(const json_t *j, unsigned *ret_port)
{
    unsigned port = 0;
    int rc = dlr_plan_unsigned(j, "port", DLR_PORT_FIRST + DLR_PORT_SPAN - 1, &port);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    if (port && port < DLR_PORT_FIRST)
        return -EBADMSG;
    *ret_port = port;
    return 0;
}

int dlr_plan_node_from_json(const json_t *j, struct dlr_topo_node *ret_node)
{
    int rc = dlr_plan_name(j, "node", ret_node->name, sizeof(ret_node->name));

    if (rc == 0)
        rc = dlr_plan_text(j, "topo", ret_node->path, sizeof(ret_node->path));
    if (rc == -ENOENT && ret_node->name[0]) {
        memcpy(ret_node->path, ret_node->name, sizeof(ret_node->name));
        rc = 0;
    }
    return rc;
}

int dlr_plan_array(const json_t *j, const char *key, size_t max,
                   const json_t **ret_array, size_t *ret_n)
{
    const json_t *array = json_object_get(j, key);

    *ret_array = array;
    *ret_n = json_array_size(array);
    if (array && (!json_is_array(array) || *ret_n > max))
        return -EBADMSG;
    return 0;
}

static int version_from_json(const json_t *j, struct dlr_version *ret_version)
{
    unsigned round = 0;
    uint64_t step = 0;
    int rc = dlr_plan_unsigned(j, "vround", UINT32_MAX, &round);

    if (rc == 0)
        rc = dlr_msg_uint(j, "step", INT64_MAX, &step);
    *ret_version = (struct dlr_version){round, step};
    return rc;
}

int dlr_plan_copy_from_json(const json_t *j, struct dlr_plan_copy *ret_copy)
{
    struct dlr_plan_copy c = {0};
    char layout[17] = "", *end;
    unsigned rank = 0;
    int rc = dlr_plan_unsigned(j, "rank", DLR_PLAN_RANKS_MAX - 1, &rank);

    if (rc == 0)
        rc = dlr_plan_unsigned(j, "world", DLR_PLAN_RANKS_MAX, &c.world);
    if (rc == 0)
        rc = version_from_json(j, &c.version);
    if (rc == 0)
        rc = dlr_msg_uint(j, "bytes", INT64_MAX, &c.bytes);
    if (rc == 0)
        rc = dlr_plan_text(j, "layout", layout, sizeof(layout));
    if (rc < 0)
        return rc;
    c.rank = (int32_t)rank;
    c.layout = strtoull(layout, &end, 16); /* hexadecimal: not for common/config/opt */
    if (end != layout + 16 || !isxdigit((unsigned char)layout[0]))
        return -EBADMSG;
    *ret_copy = c;
    return 0;
}

static int check_from_json(const json_t *j, struct dlr_plan_check *ret_check)
{
    const char *verdict = "";
    int rc = dlr_plan_text(j, "check", ret_check->check, sizeof(ret_check->check));

    if (rc == 0)
        rc = dlr_plan_text(j, "reason", ret_check->reason, sizeof(ret_check->reason));
    if (rc == 0)
        rc = dlr_msg_str(j, "verdict", &verdict);
    if (rc < 0)
        return rc;
    rc = dlr_health_verdict_parse(verdict);
    if (rc < 0)
        return -EBADMSG;
    ret_check->verdict = (enum dlr_health_verdict)rc;
    return 0;
}

/* --- reports ---------------------------------------------------------------------- */

void dlr_plan_report_done(struct dlr_plan_report *report)
{
    free(report->checks);
    free(report->silent);
    free(report->copies);
    memset(report, 0, sizeof(*report));
}

static int read_checks(const json_t *j, struct dlr_plan_report *r)
{
    const json_t *array;
    size_t n, i;
    int rc = dlr_plan_array(j, "checks", CHECKS_MAX, &array, &n);

    if (rc == 0 && !(r->checks = calloc(n + 1, sizeof(*r->checks))))
        rc = -ENOMEM;
    for (i = 0; rc == 0 && i < n; i++)
        rc = check_from_json(json_array_get(array, i), &r->checks[r->nchecks++]);
    return rc;
}

static int read_speeds(const json_t *j, struct dlr_plan_report *r)
{
    json_t *speeds = json_object_get(j, "speeds"), *value;
    const char *check;

    if (speeds &&
        (!json_is_object(speeds) || json_object_size(speeds) > DLR_PLAN_SPEEDS_MAX))
        return -EBADMSG;
    json_object_foreach(speeds, check, value)
    {
        struct dlr_plan_speed *s = &r->speeds[r->nspeeds++];

        s->value = json_number_value(value);
        if (!json_is_number(value) || s->value <= 0 ||
            dlr_format(s->check, sizeof(s->check), "%s", check) < 0)
            return -EBADMSG;
    }
    return 0;
}

static int read_silent(const json_t *j, struct dlr_plan_report *r)
{
    const json_t *array;
    size_t n, i;
    int rc = dlr_plan_array(j, "silent", DLR_PLAN_NODES_MAX, &array, &n);

    if (rc == 0 && !(r->silent = calloc(n + 1, sizeof(*r->silent))))
        rc = -ENOMEM;
    for (i = 0; rc == 0 && i < n; i++) {
        const char *name = json_string_value(json_array_get(array, i));

        if (!name || dlr_format(r->silent[r->nsilent++], DLR_TOPO_NAME, "%s", name) < 0)
            rc = -EBADMSG;
    }
    return rc;
}

static int read_copies(const json_t *j, struct dlr_plan_report *r)
{
    const json_t *array;
    size_t n, i;
    int rc = dlr_plan_array(j, "versions", LIST_MAX, &array, &n);

    if (rc == 0 && !(r->copies = calloc(n + 1, sizeof(*r->copies))))
        rc = -ENOMEM;
    for (i = 0; rc == 0 && i < n; i++)
        rc =
            dlr_plan_copy_from_json(json_array_get(array, i), &r->copies[r->ncopies++]);
    return rc;
}

int dlr_plan_report_from_json(const json_t *j, struct dlr_plan_report *ret_report,
                              struct dlr_err *err)
{
    DLR_CLEANUP(dlr_plan_report_done) struct dlr_plan_report r = {0};
    const char *part = "node";
    int rc = dlr_plan_node_from_json(j, &r.node);

    if (rc == 0)
        rc = dlr_plan_unsigned(j, part = "cpus", 1u << 20, &r.cpus);
    if (rc == 0)
        rc = dlr_plan_port(j, &r.port);
    if (rc == 0)
        rc = dlr_plan_text(j, part = "boot", r.boot, sizeof(r.boot));
    if (rc == 0) {
        part = "checks";
        rc = read_checks(j, &r);
    }
    if (rc == 0) {
        part = "speeds";
        rc = read_speeds(j, &r);
    }
    if (rc == 0) {
        part = "silent";
        rc = read_silent(j, &r);
    }
    if (rc == 0) {
        part = "versions";
        rc = read_copies(j, &r);
    }
    if (rc < 0)
        return dlr_fail(err, rc == -ENOMEM ? rc : -EBADMSG, "bad report: field '%s'",
                        part);
    *ret_report = r;
    memset(&r, 0, sizeof(r));
    return 0;
}

/* --- plans ------------------------------------------------------------------------ */

static int read_out(const json_t *j, struct dlr_plan *plan)
{
    const json_t *out, *verdicts;
    size_t nout, nverdicts, i;
    int rc = dlr_plan_array(j, "out", DLR_PLAN_NODES_MAX, &out, &nout);

    if (rc == 0)
        rc = dlr_plan_array(j, "verdicts", CHECKS_MAX * DLR_PLAN_NODES_MAX, &verdicts,
                            &nverdicts);
    if (rc < 0)
        return rc;
    plan->out = calloc(nout + 1, sizeof(*plan->out));
    plan->verdicts = calloc(nverdicts + 1, sizeof(*plan->verdicts));
    if (!plan->out || !plan->verdicts)
        return -ENOMEM;
    for (i = 0; rc == 0 && i < nout; i++) {
        const json_t *item = json_array_get(out, i);
        struct dlr_plan_out *o = &plan->out[plan->nout++];

        rc = dlr_plan_name(item, "node", o->node, sizeof(o->node));
        if (rc == 0)
            rc = dlr_plan_text(item, "reason", o->reason, sizeof(o->reason));
    }
    for (i = 0; rc == 0 && i < nverdicts; i++) {
        const json_t *item = json_array_get(verdicts, i);
        struct dlr_plan_verdict *v = &plan->verdicts[plan->nverdicts++];

        rc = dlr_plan_name(item, "node", v->node, sizeof(v->node));
        if (rc == 0)
            rc = check_from_json(item, &v->check);
    }
    return rc;
}

static int read_place(const json_t *j, unsigned nplaces, struct dlr_plan_place *p,
                      unsigned *ret_first)
{
    int rc = dlr_plan_node_from_json(j, &p->node);

    if (rc == 0)
        rc = dlr_plan_unsigned(j, "cpus", 1u << 20, &p->cpus);
    if (rc == 0)
        rc = dlr_plan_port(j, &p->port);
    if (rc == 0)
        rc = dlr_plan_unsigned(j, "first", DLR_PLAN_RANKS_MAX, ret_first);
    if (rc == 0)
        rc = dlr_plan_unsigned(j, "tasks", DLR_PLAN_RANKS_MAX, &p->tasks);
    if (rc == 0)
        rc = dlr_plan_unsigned(j, "partner", nplaces - 1, &p->partner);
    p->moved = json_is_true(json_object_get(j, "moved"));
    return rc;
}

/* The ranks of a place into ret_ranks[tasks]. */
static int read_ranks(const json_t *j, unsigned first, unsigned tasks,
                      unsigned *ret_ranks)
{
    const json_t *list;
    size_t n;
    int rc = dlr_plan_array(j, "ranks", DLR_PLAN_RANKS_MAX, &list, &n);

    if (rc < 0 || (n && n != tasks))
        return -EBADMSG;
    for (unsigned t = 0; t < tasks; t++) {
        json_int_t rank = n ? json_integer_value(json_array_get(list, t)) : first + t;

        if (rank < 0 || rank >= DLR_PLAN_RANKS_MAX)
            return -EBADMSG;
        ret_ranks[t] = (unsigned)rank;
    }
    return 0;
}

static int read_seats(const json_t *places, size_t n, struct dlr_plan *plan)
{
    DLR_AUTO_FREE unsigned *tasks = calloc(n, sizeof(*tasks));
    DLR_AUTO_FREE unsigned *ranks = calloc(plan->world + 1, sizeof(*ranks));
    unsigned from = 0, first;
    int rc = tasks && ranks ? 0 : -ENOMEM;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct dlr_plan_place *p = &plan->places[plan->nplaces++];
        const json_t *row = json_array_get(places, i);

        rc = read_place(row, (unsigned)n, p, &first);
        if (rc == 0 && p->tasks > plan->world - from)
            rc = -EBADMSG;
        if (rc == 0)
            rc = read_ranks(row, first, p->tasks, ranks + from);
        p->from = from;
        tasks[i] = p->tasks;
        from += p->tasks;
    }
    return rc < 0 ? rc : dlr_plan_former_place(plan, tasks, (unsigned)n, ranks);
}

/* A plan without it says nothing of its order. */
static int read_order(const json_t *j, struct dlr_topo_cost *o)
{
    const json_t *row = json_object_get(j, "order");
    int rc = row ? dlr_plan_unsigned(row, "apart", DLR_PLAN_NODES_MAX, &o->apart) : 0;

    if (rc == 0 && row)
        rc = dlr_plan_unsigned(row, "least", DLR_PLAN_NODES_MAX, &o->least);
    if (rc == 0 && row)
        rc = dlr_plan_unsigned(row, "split", DLR_PLAN_NODES_MAX, &o->split);
    if (rc == 0 && row)
        rc = dlr_plan_unsigned(row, "first", DLR_PLAN_NODES_MAX, &o->first);
    if (rc == 0 && row)
        rc = dlr_plan_unsigned(row, "leaves", DLR_PLAN_NODES_MAX, &o->leaves);
    return rc;
}

static int read_reorder(const json_t *j, struct dlr_plan_reorder *r)
{
    const json_t *row = json_object_get(j, "reorder");
    int rc = row ? dlr_plan_unsigned(row, "moves", DLR_PLAN_NODES_MAX, &r->moves) : 0;

    if (!row || rc < 0)
        return rc;
    r->taken = json_is_true(json_object_get(row, "taken"));
    r->gain_ms = json_number_value(json_object_get(row, "gain_ms"));
    r->cost_ms = json_number_value(json_object_get(row, "cost_ms"));
    return dlr_plan_unsigned(row, "saves", 2 * DLR_PLAN_NODES_MAX, &r->saves);
}

static int read_places(const json_t *j, struct dlr_plan *plan)
{
    const json_t *places, *spares;
    size_t n, nspares, i;
    int rc = dlr_plan_array(j, "places", DLR_PLAN_NODES_MAX, &places, &n);

    if (rc == 0)
        rc = dlr_plan_array(j, "spares", DLR_PLAN_NODES_MAX, &spares, &nspares);
    if (rc == 0)
        rc = dlr_plan_unsigned(j, "world", DLR_PLAN_RANKS_MAX, &plan->world);
    if (rc == 0)
        rc = read_order(j, &plan->order);
    if (rc == 0)
        rc = read_reorder(j, &plan->reorder);
    if (rc < 0 || !n)
        return rc < 0 ? rc : -EBADMSG;
    plan->places = calloc(n, sizeof(*plan->places));
    plan->spares = calloc(nspares + 1, sizeof(*plan->spares));
    if (!plan->places || !plan->spares)
        return -ENOMEM;
    rc = read_seats(places, n, plan);
    for (i = 0; rc == 0 && i < nspares; i++)
        rc = dlr_plan_node_from_json(json_array_get(spares, i),
                                     &plan->spares[plan->nspares++]);
    return rc;
}

static int read_source(const json_t *j, struct dlr_plan_source *s)
{
    const char *from = "", *where = NULL;
    int rc = dlr_msg_str(j, "from", &from), f;

    if (rc == 0)
        rc = dlr_msg_uint(j, "bytes", INT64_MAX, &s->bytes);
    if (rc < 0)
        return rc;
    for (f = DLR_PLAN_LOCAL; f <= DLR_PLAN_PARITY; f++)
        if (dlr_streq(from, dlr_plan_from_name((enum dlr_plan_from)f)))
            break;
    if (f > DLR_PLAN_PARITY)
        return -EBADMSG;
    s->from = (enum dlr_plan_from)f;
    if (s->from == DLR_PLAN_LOCAL)
        return 0;
    if (dlr_msg_str(j, "where", &where) < 0 || !where[0] ||
        strlen(where) >= DLR_PLAN_WHERE)
        return -EBADMSG;
    s->where = strdup(where);
    return s->where ? 0 : -ENOMEM;
}

static int read_restore(const json_t *j, struct dlr_plan *plan)
{
    const json_t *sources, *restore = json_object_get(j, "restore");
    size_t n, i;
    int rc = dlr_plan_array(j, "sources", DLR_PLAN_RANKS_MAX, &sources, &n);
    uint64_t made_by = plan->world;

    if (rc < 0 || !restore || json_is_null(restore))
        return restore ? rc : -EBADMSG;
    if (json_object_get(restore, "world"))
        rc = dlr_msg_uint(restore, "world", DLR_PLAN_RANKS_MAX, &made_by);
    if (rc < 0 || n != made_by || n == 0)
        return -EBADMSG;
    plan->restore = true;
    plan->made_by = (uint32_t)made_by;
    plan->sources = calloc(n, sizeof(*plan->sources));
    if (!plan->sources)
        return -ENOMEM;
    rc = version_from_json(restore, &plan->version);
    for (i = 0; rc == 0 && i < n; i++)
        rc = read_source(json_array_get(sources, i), &plan->sources[i]);
    return rc;
}

static int read_notes(const json_t *j, struct dlr_plan *plan)
{
    const json_t *notes;
    size_t n, i;
    int rc = dlr_plan_array(j, "notes", DLR_PLAN_NOTES_MAX, &notes, &n);

    if (rc == 0 && !(plan->notes = calloc(n + 1, sizeof(*plan->notes))))
        rc = -ENOMEM;
    for (i = 0; rc == 0 && i < n; i++) {
        const char *text = json_string_value(json_array_get(notes, i));

        if (!text ||
            dlr_format(plan->notes[plan->nnotes++], DLR_PLAN_NOTE, "%s", text) < 0)
            rc = -EBADMSG;
    }
    return rc;
}

/* The failure that travels in a plan's stead; 0 when there is none. */
static int read_error(const json_t *j, struct dlr_err *err)
{
    const json_t *error = json_object_get(j, "error");
    const char *text = "";
    int64_t code = 0;

    if (!error)
        return 0;
    if (dlr_msg_int(error, "code", &code) < 0 ||
        dlr_msg_str(error, "text", &text) < 0 || code >= 0 || code < -4095)
        return dlr_fail(err, -EBADMSG, "bad plan: field 'error'");
    return dlr_fail(err, (int)code, "%s", text);
}

int dlr_plan_from_json(const json_t *j, struct dlr_plan *ret_plan, struct dlr_err *err)
{
    const char *part = "out";
    int rc;

    memset(ret_plan, 0, sizeof(*ret_plan));
    rc = read_out(j, ret_plan);
    if (rc == 0) {
        rc = read_error(j, err);
        if (rc < 0)
            return rc;
        part = "places";
        rc = read_places(j, ret_plan);
    }
    if (rc == 0) {
        part = "restore";
        rc = read_restore(j, ret_plan);
    }
    if (rc == 0) {
        part = "notes";
        rc = read_notes(j, ret_plan);
    }
    if (rc < 0) {
        dlr_plan_done(ret_plan);
        return dlr_fail(err, rc == -ENOMEM ? rc : -EBADMSG, "bad plan: %s", part);
    }
    return 0;
}
