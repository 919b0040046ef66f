/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mpi_launcher/plan/plan_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/run/master_port.h"

static void add_copies(struct dlr_plan_report *r, const char *text, unsigned world)
{
    int rank, used;
    unsigned round;
    unsigned long long step;

    r->copies = calloc(PLAN_RIG_MAX, sizeof(*r->copies));
    while (sscanf(text, " %d:%u/%llu%n", &rank, &round, &step, &used) == 3) {
        r->copies[r->ncopies++] = (struct dlr_plan_copy){
            rank, world, {round, step}, 4096u + (unsigned)rank, 0xabcdef0123456789ull};
        text += used;
    }
}

static void add_silent(struct dlr_plan_report *r, const char *text)
{
    r->silent = calloc(PLAN_RIG_MAX, sizeof(*r->silent));
    while (*text) {
        size_t n = strcspn(text, ",");

        dlr_format(r->silent[r->nsilent++], DLR_TOPO_NAME, "%.*s", (int)n, text);
        text += n + (text[n] == ',');
    }
}

static void add_node(struct plan_rig *w, const char *text)
{
    struct dlr_plan_report *r = &w->reports[w->n++];
    char buf[256], *copies, *silent, *bad, *slow;

    dlr_format(buf, sizeof(buf), "%s", text);
    if ((copies = strchr(buf, '=')))
        *copies++ = '\0';
    if ((silent = strchr(buf, '?')))
        *silent++ = '\0';
    if ((bad = strchr(buf, '!')))
        *bad++ = '\0';
    if ((slow = strchr(buf, '~')))
        *slow = '\0';
    dlr_format(r->node.path, sizeof(r->node.path), "s.%s", buf);
    dlr_format(r->node.name, sizeof(r->node.name), "%s", strchr(buf, '.') + 1);
    dlr_format(r->boot, sizeof(r->boot), "boot");
    r->cpus = 8;
    r->port = DLR_PORT_FIRST + w->n;
    r->checks = calloc(2, sizeof(*r->checks));
    r->nchecks = slow ? 2 : 1;
    dlr_format(r->checks[1].check, sizeof(r->checks[1].check), "network");
    dlr_format(r->checks[1].reason, sizeof(r->checks[1].reason), "slow");
    r->checks[1].verdict = DLR_HEALTH_FAIL;
    dlr_format(r->checks[0].check, sizeof(r->checks[0].check), "memory");
    dlr_format(r->checks[0].reason, sizeof(r->checks[0].reason), "%s",
               bad ? "edac: 7 uncorrected memory errors" : "fine");
    r->checks[0].verdict = !bad          ? DLR_HEALTH_OK
                           : *bad == '!' ? DLR_HEALTH_DRAIN
                                         : DLR_HEALTH_FAIL;
    add_copies(r, copies ? copies : "", w->want.nplaces);
    add_silent(r, silent ? silent : "");
}

void plan_rig_setup(struct plan_rig *w, unsigned nplaces, const char *nodes,
                    const char *former)
{
    unsigned i;

    memset(w, 0, sizeof(*w));
    for (i = 0; i < nplaces; i++)
        w->tasks[i] = 1;
    w->want.nplaces = nplaces;
    w->want.tasks = w->tasks;
    while (*nodes) {
        size_t n = strcspn(nodes, ";");
        char one[256];

        dlr_format(one, sizeof(one), "%.*s", (int)n, nodes);
        add_node(w, one);
        nodes += n + (nodes[n] == ';');
    }
    w->want.former = w->former;
    while (former && *former) {
        struct dlr_plan_former_place *s = &w->former[w->want.nformer++];
        char path[64], partner[64] = "";
        int used = 0;

        assert_true(sscanf(former, " %63[^> ]%n>%63s%n", path, &used, partner, &used) >=
                    1);
        dlr_format(s->node.path, sizeof(s->node.path), "s.%s", path);
        dlr_format(s->node.name, sizeof(s->node.name), "%s", strchr(path, '.') + 1);
        dlr_format(s->partner, sizeof(s->partner), "%s", partner);
        former += used;
    }
}

void plan_rig_teardown(struct plan_rig *w)
{
    while (w->n)
        dlr_plan_report_done(&w->reports[--w->n]);
}

void plan_rig_add(char *buf, size_t size, const char *sep, const char *text)
{
    strncat(buf, buf[0] ? sep : "", size - strlen(buf) - 1);
    strncat(buf, text, size - strlen(buf) - 1);
}

void plan_rig_describe(const struct dlr_plan *plan, char *buf, size_t size)
{
    char part[512] = "", one[1024];
    unsigned i;

    buf[0] = '\0';
    for (i = 0; i < plan->nplaces; i++)
        plan_rig_add(part, sizeof(part), " ", plan->places[i].node.name);
    plan_rig_add(buf, size, "", part);
    part[0] = '\0';
    for (i = 0; i < plan->nspares; i++)
        plan_rig_add(part, sizeof(part), " ", plan->spares[i].name);
    strncat(buf, " | ", size - strlen(buf) - 1);
    strncat(buf, part, size - strlen(buf) - 1);
    strncat(buf, " |", size - strlen(buf) - 1);
    for (i = 0; i < plan->nout; i++) {
        dlr_format(one, sizeof(one), " %s: %s", plan->out[i].node, plan->out[i].reason);
        strncat(buf, one, size - strlen(buf) - 1);
    }
}

void plan_rig_describe_restore(const struct dlr_plan *plan, char *buf, size_t size)
{
    char one[64];
    unsigned r;

    dlr_format(buf, size, "none");
    if (!plan->restore)
        return;
    dlr_format(buf, size, "%u/%llu", plan->version.round,
               (unsigned long long)plan->version.step);
    for (r = 0; r < plan->made_by; r++) {
        const struct dlr_plan_source *s = &plan->sources[r];

        dlr_format(one, sizeof(one), "%s",
                   s->from == DLR_PLAN_LOCAL ? "local" : s->where);
        plan_rig_add(buf, size, " ", one);
    }
}

char *plan_rig_text(const struct dlr_plan *plan, const struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *j = dlr_plan_to_json(plan, err);

    assert_non_null(j);
    return json_dumps(j, JSON_SORT_KEYS | JSON_COMPACT);
}
