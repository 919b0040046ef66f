/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/clock.h"
#include "mpi_launcher/cli/status_view.h"

#define VIEW_VERSION 1

static json_t *text_or_null(const char *text)
{
    return text && text[0] ? json_string(text) : json_null();
}

static json_t *version_or_null(const struct dlr_cli_version *v)
{
    return v->set ? json_pack("[I,I]", (json_int_t)v->round, (json_int_t)v->step)
                  : json_null();
}

static json_t *time_or_null(int64_t ms)
{
    char text[32];

    if (ms <= 0)
        return json_null();
    dlr_wall_text(ms * 1000000, text, sizeof(text));
    return json_string(text);
}

static json_t *nodes_of(const struct dlr_cli_state *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->nnodes; i++) {
        const struct dlr_cli_node *n = &s->nodes[i];
        json_t *row = json_pack(
            "{s:s,s:o,s:s,s:o}", "node", n->name, "leaf", text_or_null(n->leaf), "role",
            dlr_cli_role_name(n->role), "reason", text_or_null(n->reason));

        if (row && n->tasks > 0) {
            json_object_set_new(row, "first", json_integer(n->first));
            json_object_set_new(row, "tasks", json_integer(n->tasks));
            if (n->ranks)
                json_object_set(row, "ranks", n->ranks);
            json_object_set_new(row, "partner", text_or_null(n->partner));
            json_object_set_new(row, "moved", json_boolean(n->moved));
        }
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *events_of(const struct dlr_cli_state *s)
{
    uint64_t first = s->nlast > DLR_CLI_LAST ? s->nlast - DLR_CLI_LAST : 0;
    json_t *list = json_array();

    for (uint64_t i = first; i < s->nlast; i++)
        json_array_append(list, s->last[i % DLR_CLI_LAST]);
    return list;
}

static json_t *end_of(const struct dlr_cli_state *s)
{
    if (!s->over)
        return json_null();
    return json_pack("{s:I,s:o,s:f,s:I}", "code", (json_int_t)s->code, "why",
                     text_or_null(s->why), "wall_s", s->wall_s, "rounds",
                     (json_int_t)s->rounds);
}

static void add_steps(json_t *j, const struct dlr_cli_state *s, int64_t now_ms)
{
    json_t *age = s->commit_ms
                      ? json_integer(now_ms > s->commit_ms ? now_ms - s->commit_ms : 0)
                      : json_null();

    json_object_set_new(j, "step", s->step >= 0 ? json_integer(s->step) : json_null());
    json_object_set_new(j, "step_time", time_or_null(s->step_ms));
    json_object_set_new(j, "steps_per_s",
                        s->rate > 0 ? json_real(s->rate) : json_null());
    json_object_set_new(j, "restored", version_or_null(&s->restore));
    json_object_set_new(j, "committed", version_or_null(&s->committed));
    json_object_set_new(j, "commit_age_ms", age);
    json_object_set_new(j, "at_stake_ms",
                        s->stake_ms && !s->over && s->step >= 0
                            ? json_integer(now_ms - s->stake_ms)
                            : json_null());
    json_object_set_new(j, "unprotected_since", time_or_null(s->degraded_since_ms));
    json_object_set_new(j, "survives", text_or_null(s->survives));
    json_object_set_new(j, "commits", json_integer(s->commits));
    json_object_set_new(j, "aborts", json_integer(s->aborts));
    json_object_set_new(j, "saving", s->saving ? json_incref(s->saving) : json_null());
    json_object_set_new(j, "cadence",
                        s->cadence ? json_incref(s->cadence) : json_null());
    json_object_set_new(j, "network",
                        s->network ? json_incref(s->network) : json_null());
    json_object_set_new(j, "every_step",
                        s->every_step ? json_incref(s->every_step) : json_null());
    json_object_set_new(j, "persisted",
                        s->persisted ? json_incref(s->persisted) : json_null());
    json_object_set_new(j, "no_memory", json_integer(s->no_memory));
}

json_t *dlr_cli_view_json(const struct dlr_cli_state *s, const struct dlr_cli_run *run,
                          int64_t now_ms)
{
    json_t *j =
        json_pack("{s:i,s:s,s:s,s:s,s:i}", "v", VIEW_VERSION, "job", run->job, "run",
                  run->run, "journal", run->journal, "other_runs", run->others);

    if (!j)
        return NULL;
    json_object_set_new(
        j, "state",
        json_string(dlr_run_condition_name(dlr_cli_state_condition(s, now_ms))));
    json_object_set_new(j, "phase", json_string(dlr_cli_phase_name(s->phase)));
    json_object_set_new(j, "since", time_or_null(s->phase_ms));
    json_object_set_new(j, "last_event", time_or_null(s->last_ms));
    json_object_set_new(j, "why", text_or_null(s->why));
    json_object_set_new(j, "still", text_or_null(s->still));
    json_object_set_new(j, "incarnation", json_integer(s->incarnation));
    json_object_set_new(j, "generation", json_integer(s->generation));
    json_object_set_new(j, "round",
                        s->round >= 0 ? json_integer(s->round) : json_null());
    json_object_set_new(j, "world", json_integer(s->world));
    json_object_set_new(j, "places", json_integer(s->places));
    json_object_set_new(j, "restarts", json_integer(s->restarts));
    json_object_set_new(j, "max_restarts", json_integer(s->max_restarts));
    add_steps(j, s, now_ms);
    json_object_set_new(j, "nodes", nodes_of(s));
    json_object_set_new(j, "end", end_of(s));
    json_object_set_new(j, "bad_lines", json_integer((json_int_t)s->bad_lines));
    json_object_set_new(j, "dropped_lines", json_integer(s->dropped_lines));
    json_object_set_new(j, "events", events_of(s));
    return j;
}
