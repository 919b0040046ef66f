/* SPDX-License-Identifier: Apache-2.0 */
/* Lines become a report: sums, rounds, incidents, what nodes did. */
#include "mpi_launcher/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/model.h"

/* --- rounds ----------------------------------------------------------------------- */

static struct dlr_report_round *add_round(struct dlr_report *r)
{
    struct dlr_report_round *more;

    if (r->nrounds == DLR_REPORT_ROUNDS) {
        free(r->rounds[0].cause);
        free(r->rounds[0].why);
        memmove(r->rounds, r->rounds + 1, --r->nrounds * sizeof(*r->rounds));
        r->rounds_before++;
    }
    more = realloc(r->rounds, (r->nrounds + 1) * sizeof(*more));
    if (!more)
        return NULL;
    r->rounds = more;
    r->rounds[r->nrounds] = (struct dlr_report_round){
        .round = r->state.round, .from_ms = r->ms, .first = -1, .last = -1};
    return &r->rounds[r->nrounds++];
}

static void on_plan(struct dlr_report *r)
{
    struct dlr_report_round *round = add_round(r);

    if (round)
        round->restore = r->state.restore;
    r->in_round = round != NULL;
}

static void end_round(struct dlr_report *r, const json_t *e)
{
    struct dlr_report_round *round = r->nrounds ? &r->rounds[r->nrounds - 1] : NULL;
    const char *cause = dlr_cli_event_text(e, "cause");

    if (!round || !r->in_round)
        return;
    round->to_ms = r->ms;
    round->last = dlr_cli_event_int(e, "step", round->last);
    dlr_cli_set_text(&round->cause, cause ? cause : dlr_cli_event_text(e, "event"));
    dlr_cli_set_text(&round->why, dlr_cli_event_text(e, "why"));
    r->in_round = false;
}

static void take_round(struct dlr_report *r, const json_t *e, const char *name)
{
    struct dlr_report_round *round = r->nrounds ? &r->rounds[r->nrounds - 1] : NULL;

    if (dlr_streq(name, "plan"))
        on_plan(r);
    else if (dlr_streq(name, "round_end") || dlr_streq(name, "end"))
        end_round(r, e);
    else if (round && r->in_round && dlr_streq(name, "first_step"))
        round->first = dlr_cli_event_int(e, "step", -1);
}

/* The newest progress says how far its round is. */
static void take_last_step(struct dlr_report *r)
{
    struct dlr_report_round *round = r->nrounds ? &r->rounds[r->nrounds - 1] : NULL;

    if (!round || !r->in_round)
        return;
    if (r->state.step > round->last)
        round->last = r->state.step;
    round->to_ms = r->state.last_ms;
}

/* --- what is kept of single events ------------------------------------------------ */

static void keep(json_t **at, const json_t *e)
{
    json_decref(*at);
    *at = json_incref((json_t *)e);
}

static void take_saves(struct dlr_report *r, const json_t *e, const char *name)
{
    const char *node = dlr_cli_event_text(e, "node");

    if (dlr_streq(name, "persisted") && json_is_array(json_object_get(e, "version"))) {
        keep(&r->persisted, e);
        r->npersisted++;
        r->persisted_bytes += dlr_cli_event_int(e, "bytes", 0) & INT32_MAX;
    } else if (dlr_streq(name, "save_failed")) {
        r->save_failures++;
    } else if (dlr_streq(name, "restored")) {
        r->restores++;
    } else if (dlr_streq(name, "links")) {
        keep(&r->links, e);
    } else if (dlr_streq(name, "network") && node) {
        json_object_set(r->networks, node, (json_t *)e);
    }
}

/* --- lines ------------------------------------------------------------------------ */

void dlr_report_line(struct dlr_report *r, const char *line, size_t size)
{
    bool progress = dlr_cli_is_progress(line, size);
    json_t *e = NULL;
    const char *name;

    if (size == 0)
        return;
    dlr_cli_state_line(&r->state, line, size);
    if (progress && !r->open && !r->nrecent && !r->traced) {
        dlr_account_line(r->account, line, size);
        return;
    }
    e = dlr_cli_event_parse(line, size);
    name = dlr_cli_event_text(e, "event");
    if (e) {
        dlr_account_event(r->account, e);
        take_last_step(r);
        dlr_cli_time_parse(dlr_cli_event_text(e, "time"), &r->ms);
        take_round(r, e, name);
        take_saves(r, e, name);
        dlr_report_histories_take(r, e);
        dlr_report_incidents_take(r, e);
        if (r->traced)
            dlr_report_trace_take(r, e);
    }
    json_decref(e);
}

void dlr_report_finish(struct dlr_report *r, unsigned skipped)
{
    dlr_cli_state_settle(&r->state);
    r->state.bad_lines += skipped;
    dlr_account_settle(r->account);
    take_last_step(r);
}

struct dlr_report *dlr_report_new(void)
{
    struct dlr_report *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    dlr_cli_state_init(&r->state);
    r->account = dlr_account_new();
    r->index = json_object();
    r->networks = json_object();
    return r->account && r->index && r->networks ? r : dlr_report_free(r);
}

struct dlr_report *dlr_report_free(struct dlr_report *r)
{
    if (!r)
        return NULL;
    r->account = dlr_account_free(r->account);
    dlr_cli_state_done(&r->state);
    dlr_report_incidents_done(r);
    dlr_report_histories_done(r);
    dlr_report_trace_done(r);
    for (size_t i = 0; i < r->nrounds; i++) {
        free(r->rounds[i].cause);
        free(r->rounds[i].why);
    }
    free(r->rounds);
    json_decref(r->persisted);
    json_decref(r->links);
    json_decref(r->networks);
    free(r);
    return NULL;
}

/* --- words ------------------------------------------------------------------------ */

double dlr_report_share(const struct dlr_report *r, int64_t ms)
{
    int64_t all = dlr_account_to_ms(r->account) - dlr_account_from_ms(r->account);

    return all > 0 ? 100.0 * (double)ms / (double)all : 0;
}

void dlr_report_headline(const struct dlr_report *r,
                         const struct dlr_report_about *about, char *buf, size_t size)
{
    static const char *const words[] = {
        [DLR_CLI_STARTING] = "is starting",
        [DLR_CLI_RUNNING] = "runs",
        [DLR_CLI_STALLED] = "tells no new step",
        [DLR_CLI_RECOVERING] = "is recovering",
        [DLR_CLI_SUSPENDED] = "is suspended",
        [DLR_CLI_REQUEUED] = "is in the queue",
        [DLR_CLI_DONE] = "is done",
        [DLR_CLI_FAILED] = "has failed",
    };
    size_t n = r->nincidents + r->incidents_before;
    int64_t wall = dlr_account_to_ms(r->account) - dlr_account_from_ms(r->account);
    char span[32];

    dlr_cli_span(wall, span, sizeof(span));
    snprintf(
        buf, size,
        "The run %s. Of %s it spent %.2f %% on steps done for the first time, with %zu "
        "incident%s in %zu round%s.",
        words[dlr_cli_state_condition(&r->state, about->now_ms)], span,
        dlr_report_share(r, dlr_account_part(r->account, DLR_ACCOUNT_FIRST)), n,
        n == 1 ? "" : "s", r->nrounds + r->rounds_before,
        r->nrounds + r->rounds_before == 1 ? "" : "s");
}
