/* SPDX-License-Identifier: Apache-2.0 */
/* The report for programs. */
#include "common/base/clock.h"
#include "mpi_launcher/report/model.h"

static json_t *time_json(int64_t ms)
{
    char text[32];

    dlr_wall_text(ms * 1000000, text, sizeof(text));
    return json_string(text);
}

static json_t *version_json(const struct dlr_cli_version *v)
{
    return v->set ? json_pack("[I,I]", (json_int_t)v->round, (json_int_t)v->step)
                  : json_null();
}

static json_t *known(int64_t n)
{
    return n >= 0 ? json_integer(n) : json_null();
}

static json_t *causes_json(const struct dlr_report *r)
{
    json_t *j = json_object();

    for (int c = 0; j && c < DLR_ACCOUNT_CAUSES; c++)
        json_object_set_new(j, dlr_account_cause_name(c),
                            json_integer(dlr_account_part(r->account, c)));
    return j;
}

static json_t *incident_json(const struct dlr_report_incident *i)
{
    json_t *lines = json_array();

    for (unsigned n = 0; n < i->nlines; n++)
        json_array_append_new(lines, json_string(i->lines[n]));
    return json_pack("{s:o,s:o,s:s?,s:s?,s:s?,s:o,s:o,s:o,s:s}", "time",
                     time_json(i->ms), "round", known(i->round), "cause", i->cause,
                     "node", i->node, "why", i->why, "outage_ms", known(i->outage_ms),
                     "steps_redone", known(i->redone), "lines", lines, "advice",
                     dlr_report_advice(i));
}

static json_t *round_json(const struct dlr_report_round *round)
{
    return json_pack(
        "{s:I,s:o,s:o,s:o,s:o,s:o,s:s?,s:s?}", "round", (json_int_t)round->round,
        "from", time_json(round->from_ms), "to", time_json(round->to_ms), "first_step",
        known(round->first), "last_step", known(round->last), "restore",
        version_json(&round->restore), "cause", round->cause, "why", round->why);
}

static json_t *node_json(const struct dlr_report *r, const struct dlr_report_node *n)
{
    const struct dlr_cli_node *seat = dlr_report_seat(r, n->name);
    json_t *turns = json_array();

    for (size_t i = 0; i < n->nturns; i++)
        json_array_append_new(turns,
                              json_pack("{s:o,s:s}", "from", time_json(n->turns[i].ms),
                                        "role", dlr_cli_role_name(n->turns[i].role)));
    return json_pack(
        "{s:s,s:s?,s:s,s:s?,s:o,s:o,s:o}", "node", n->name, "leaf", n->leaf, "role",
        dlr_cli_role_name(seat ? dlr_cli_state_role(&r->state, seat)
                               : DLR_CLI_RELEASED),
        "reason", seat ? seat->reason : NULL, "first",
        seat && seat->tasks > 0 ? json_integer(seat->first) : json_null(), "tasks",
        seat && seat->tasks > 0 ? json_integer(seat->tasks) : json_null(), "roles",
        turns);
}

static json_t *saves_json(const struct dlr_report *r)
{
    return json_pack("{s:o,s:I,s:I,s:I,s:I,s:O?}", "committed",
                     version_json(&r->state.committed), "commits",
                     (json_int_t)r->state.commits, "aborts",
                     (json_int_t)r->state.aborts, "restores", (json_int_t)r->restores,
                     "written", (json_int_t)r->npersisted, "persisted", r->persisted);
}

json_t *dlr_report_json(const struct dlr_report *r,
                        const struct dlr_report_about *about)
{
    json_t *incidents = json_array(), *rounds = json_array(), *nodes = json_array();
    int64_t from_ms = dlr_account_from_ms(r->account);
    int64_t to_ms = dlr_account_to_ms(r->account);

    for (size_t i = 0; i < r->nincidents; i++)
        json_array_append_new(incidents, incident_json(&r->incidents[i]));
    for (size_t i = 0; i < r->nrounds; i++)
        json_array_append_new(rounds, round_json(&r->rounds[i]));
    for (size_t i = 0; i < r->nnodes; i++)
        json_array_append_new(nodes, node_json(r, &r->nodes[i]));
    return json_pack(
        "{s:s?,s:s?,s:i,s:s,s:o,s:o,s:I,s:f,s:o,s:o,s:o,s:o,s:o,s:O,s:O?,s:I,s:I}",
        "job", r->state.job ? r->state.job : about->job, "run", about->run,
        "other_runs", (int)about->others, "state",
        dlr_run_condition_name(dlr_cli_state_condition(&r->state, about->now_ms)),
        "from", time_json(from_ms), "to", time_json(to_ms), "wall_ms",
        (json_int_t)(to_ms - from_ms), "goodput",
        dlr_report_share(r, dlr_account_part(r->account, DLR_ACCOUNT_FIRST)) / 100,
        "causes_ms", causes_json(r), "incidents", incidents, "rounds", rounds, "nodes",
        nodes, "checkpoints", saves_json(r), "network", r->networks, "links", r->links,
        "bad_lines", (json_int_t)r->state.bad_lines, "dropped_lines",
        (json_int_t)r->state.dropped_lines);
}
