/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* What the supervisor makes of the ranks' words about their saves: see
 * mpi_launcher/supervisor/versions/versions.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define MS 1000000
#define STEP_MS 50
#define EXTRA 300 /* ms: more than 1 % of 10 s */

static struct dlr_sup_versions *versions;
static struct dlr_job_config jobconf;
static struct dlr_plan plan;
static uint32_t resume_round;
static struct dlr_members table;
static int64_t now;
static char told[512], said[512]; /* the newest line of the journal's and the user's */
static unsigned ntold, nsaid, nkept;
static bool ordered[8192];        /* steps */
static int64_t held_ns = MS / 10; /* in begin and fence */
static json_t *kept;              /* by a former supervisor */

/* --- instead of other files ------------------------------------------------------- */

int64_t dlr_sup_now(void)
{
    return now;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
    nsaid++;
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    json_t *row;
    va_list ap;
    char form[256];

    if (!dlr_streq(event, "cadence") && !dlr_streq(event, "overdue"))
        return;
    snprintf(form, sizeof(form), "{%s}", fmt);
    va_start(ap, fmt);
    row = json_vpack_ex(NULL, 0, form, ap);
    va_end(ap);
    assert_non_null(row);
    if (dlr_streq(event, "cadence"))
        snprintf(told, sizeof(told), "every %d, %.1f s, %s, cost %.1f",
                 (int)json_integer_value(json_object_get(row, "every")),
                 json_number_value(json_object_get(row, "every_s")),
                 json_string_value(json_object_get(row, "bound")),
                 json_number_value(json_object_get(row, "cost_ms")));
    else
        snprintf(told, sizeof(told), "%s",
                 json_string_value(json_object_get(row, "why")));
    json_decref(row);
    ntold++;
}
uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return 0;
}
double dlr_sup_losses_hours(const struct dlr_sup_nodes *nodes)
{
    return 0;
}
unsigned dlr_sup_copies(const struct dlr_sup_copies *sup)
{
    return 0;
}
int dlr_sup_holder_node(const struct dlr_sup_copies *sup, unsigned place,
                        unsigned holder)
{
    return (int)place;
}

const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return &table;
}

static void changed(void *arg, bool lasting)
{
    nkept++;
}
static uint32_t running(void *arg)
{
    return 0;
}

/* ---------------------------------------------------------------------------------- */

static void save_at(void *arg, struct dlr_version v)
{
    ordered[v.step] = true;
}

static void commit(void *arg, struct dlr_version v, int64_t took_ms)
{
    dlr_sup_cadence_commit(versions, v, took_ms);
}

static void abort_it(void *arg, struct dlr_version v, const char *why)
{
}

static void start(void)
{
    static unsigned place_of[] = {0, 1};
    static const struct dlr_sup_versions_ops events = {.changed = changed,
                                                       .round = running};
    static const struct dlr_commit_ops ops = {save_at, commit, abort_it};
    static struct dlr_member members[2];
    const struct dlr_commit_conf conf = {.decide_ms = 1000};
    struct dlr_err err;

    dlr_sup_versions_free(versions); /* of an earlier supervisor */
    dlr_job_config_init(&jobconf);
    table.list = members;
    table.n = 2;
    dlr_format(members[0].node.name, sizeof(members[0].node.name), "n1");
    dlr_format(members[1].node.name, sizeof(members[1].node.name), "n2");
    plan.nplaces = plan.world = 2;
    plan.place_of = place_of;
    versions = dlr_sup_versions_new(
        &(struct dlr_sup_versions_env){
            .conf = &jobconf, .plan = &plan, .resume_round = &resume_round},
        &events, NULL);
    assert_non_null(versions);
    assert_int_equal(dlr_commit_new(&conf, &ops, NULL, &versions->commit, &err), 0);
    if (kept)
        dlr_sup_cadence_take(versions, kept);
    dlr_sup_cadence_start(versions);
    dlr_commit_round(versions->commit, 0, 2, NULL);
    dlr_sup_cadence_round(versions);
    memset(ordered, 0, sizeof(ordered));
    told[0] = said[0] = '\0';
    ntold = nsaid = nkept = 0;
    now = 1000;
}

static int stop(void **state)
{
    versions = dlr_sup_versions_free(versions);
    json_decref(kept);
    kept = NULL;
    return 0;
}

static void ready(unsigned ranks)
{
    for (unsigned r = 0; r < ranks; r++)
        dlr_commit_ready(versions->commit, 0, r, 0, now);
}

static void seal(unsigned rank, uint64_t step, unsigned extra_ms)
{
    json_t *msg = json_pack("{s:i,s:I,s:i,s:i,s:i,s:i,s:i}", "saves", 1, "blocked_ns",
                            (json_int_t)held_ns, "plain_steps", 1, "plain_ns",
                            STEP_MS * MS, "extra_ns", (int)extra_ms * MS, "extra_saves",
                            8, "step_ns", STEP_MS * MS);

    dlr_sup_cadence_sealed(versions, msg);
    json_decref(msg);
    dlr_commit_sealed(versions->commit, rank, (struct dlr_version){0, step}, step, now);
}

/* Steps go by until so many saves are committed. The second rank is the one that saves
 * hold up.
 */
static uint64_t run(uint64_t step, unsigned saves, unsigned extra_ms)
{
    while (saves > 0) {
        now += STEP_MS;
        step++;
        assert_true(step < sizeof(ordered));
        dlr_commit_progress(versions->commit, 0, step, now);
        if (!ordered[step])
            continue;
        seal(0, step, extra_ms / 2);
        seal(1, step, extra_ms);
        saves--;
    }
    return step;
}

static void cheap_saves_are_as_far_apart_as_may_be_lost(void **state)
{
    uint64_t step;

    start();
    ready(2);
    step = run(0, 8, 1);
    assert_in_range(step, 14, 30); /* each second step, at first */
    assert_string_equal(told, "every 200, 10.0 s, staleness, cost 1.0");
    step = run(step, 4, 1); /* those that were ordered by then */
    assert_in_range(run(step, 1, 1) - step, 190, 205);
    assert_int_equal(ntold, 1);
}

/* A link that crawls, an evaluation: what counts is the time. */
static void steps_that_become_long_are_saved_as_soon_in_seconds(void **state)
{
    uint64_t step, before;

    start();
    ready(2);
    before = step = run(run(0, 12, 1), 1, 1);
    for (; !ordered[step] || step == before; step++) {
        now += 2600;
        dlr_commit_progress(versions->commit, 0, step, now);
        dlr_sup_versions_watch(versions, step, now);
    }
    assert_in_range(step - before, 4, 9);
}

/* Of which begin and fence, which were all that counted, know nothing. */
static void what_copies_take_from_the_steps_counts(void **state)
{
    start();
    ready(2);
    run(0, 8, EXTRA);
    assert_string_equal(told, "every 600, 30.0 s, cost, cost 300.0");
}

static void a_machine_that_is_quiet_again_is_believed(void **state)
{
    uint64_t step;

    start();
    ready(2);
    step = run(0, 8, EXTRA);
    run(step, 4, 0);
    assert_string_equal(told, "every 200, 10.0 s, staleness, cost 0.1");
}

/* An hour in a fence: a suspended job. */
static void one_save_that_took_an_hour_puts_none_off(void **state)
{
    uint64_t step;

    start();
    ready(2);
    step = run(0, 12, 1);
    held_ns = 3600LL * 1000 * MS;
    step = run(step, 1, 1);
    held_ns = MS / 10;
    step = run(step, 3, 1); /* those that were ordered by then */
    assert_in_range(run(step, 1, 1) - step, 190, 205);
    assert_int_equal(ntold, 1);
}

static void without_a_budget_saves_come_as_they_can(void **state)
{
    start();
    jobconf.ckpt_budget = 0;
    dlr_sup_cadence_round(versions);
    ready(2);
    assert_in_range(run(0, 30, EXTRA), 30, 33);
    assert_string_equal(told, "every 1, 0.1 s, off, cost 300.0");
}

static void what_was_learned_survives_the_supervisor_and_the_round(void **state)
{
    uint64_t step;

    start();
    ready(2);
    run(0, 8, EXTRA);
    assert_int_equal(nkept, 1);
    kept = json_object();
    dlr_sup_cadence_state(versions, kept);
    start();
    ready(2);
    step = run(0, 1, EXTRA); /* one at once, since nothing of this round is saved */
    assert_in_range(step, 1, 5);
    assert_in_range(run(step, 1, EXTRA) - step, 600, 610);
}

/* For whoever weighs moving snapshots: 100 MB came to each node at 50 MB/s. */
static void what_moving_a_snapshot_takes_is_known_after_a_commit(void **state)
{
    DLR_AUTO_JSON json_t *msg = json_pack("{s:I,s:I}", "bytes", (json_int_t)100000000,
                                          "ns", (json_int_t)2000 * MS);
    double steps, fetch_ms;

    start();
    ready(2);
    dlr_sup_expected(versions, &steps, &fetch_ms);
    assert_true(steps == 0 && fetch_ms == 0);
    dlr_sup_cadence_copied(versions, 0, msg);
    dlr_sup_cadence_copied(versions, 1, msg);
    run(0, 1, 0);
    dlr_sup_expected(versions, &steps, &fetch_ms);
    assert_true(fetch_ms > 1999 && fetch_ms < 2001);
    assert_true(steps > 3600e3 / STEP_MS); /* more than an hour without a loss */
}

static void a_run_that_saves_nothing_says_once_what_it_waits_for(void **state)
{
    static const struct {
        unsigned ready;
        const char *why;
    } rows[] = {
        {0, ""}, /* it does not want to */
        {1, "n2 has no memory for rank 1's snapshots yet"},
        {2, "n2 has not got rank 1's part of step 3"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start();
        ready(rows[i].ready);
        for (uint64_t step = 1; step < 1000; step++) {
            now += STEP_MS;
            dlr_commit_progress(versions->commit, 0, step, now);
            if (ordered[step])
                seal(0, step, 1);
            dlr_sup_versions_watch(versions, step, now);
            assert_true(ntold == 0 || step > 400); /* 20 s */
        }
        print_message("row %zu: %s\n", i, said);
        assert_string_equal(told, rows[i].why);
        assert_int_equal(nsaid, rows[i].ready > 0);
        stop(NULL);
    }
}

static void what_a_failure_would_lose_is_known(void **state)
{
    start();
    ready(2);
    assert_int_equal(dlr_sup_cadence_at_stake_ms(versions, now), -1);
    dlr_sup_versions_watch(versions, 1, now);
    assert_int_equal(dlr_sup_cadence_at_stake_ms(versions, now + 700), 700);
    run(1, 1, 1);
    assert_int_equal(dlr_sup_cadence_at_stake_ms(versions, now + 300), 300);
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, stop)
    const struct CMUnitTest tests[] = {
        T(cheap_saves_are_as_far_apart_as_may_be_lost),
        T(steps_that_become_long_are_saved_as_soon_in_seconds),
        T(what_copies_take_from_the_steps_counts),
        T(a_machine_that_is_quiet_again_is_believed),
        T(one_save_that_took_an_hour_puts_none_off),
        T(without_a_budget_saves_come_as_they_can),
        T(what_was_learned_survives_the_supervisor_and_the_round),
        T(what_moving_a_snapshot_takes_is_known_after_a_commit),
        T(a_run_that_saves_nothing_says_once_what_it_waits_for),
        T(what_a_failure_would_lose_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
