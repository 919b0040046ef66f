/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* What a version's commit does, in which order, and what is told of saves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define ROUND 3
#define RANKS 2

static struct dlr_sup_versions *versions;
static struct dlr_job_config conf;
static struct dlr_plan plan;
static struct dlr_members table;
static struct dlr_member node;
static int64_t now;
static char done[400]; /* in order */
static char row[400];  /* the journal's last */
static uint64_t next;  /* step that was ordered last */

static void note(const char *what)
{
    size_t len = strlen(done);

    snprintf(done + len, sizeof(done) - len, "%s ", what);
}

/* --- instead of other files ------------------------------------------------------- */

int64_t dlr_sup_now(void)
{
    return now;
}
const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return &table;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}
void dlr_journal_event(struct dlr_journal *j, const char *name, json_t *fields)
{
    DLR_AUTO_FREE char *text = json_dumps(fields, JSON_COMPACT);

    note(name);
    dlr_format(row, sizeof(row), "%s", text);
    json_decref(fields);
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    char form[64];
    va_list ap;

    dlr_format(form, sizeof(form), "{%s}", fmt);
    va_start(ap, fmt);
    json_decref(json_vpack_ex(NULL, 0, form, ap)); /* which are its to free */
    va_end(ap);
    if (!dlr_streq(event, "every_step"))
        note(event);
}
void dlr_sup_send_all(struct dlr_sup_nodes *nodes, json_t *msg)
{
    uint64_t step = 0;

    note(dlr_msg_type(msg));
    if (dlr_streq(dlr_msg_type(msg), "save_at") &&
        dlr_msg_uint(msg, "step", INT64_MAX, &step) == 0)
        next = step;
    json_decref(msg);
}
double dlr_sup_losses_hours(const struct dlr_sup_nodes *nodes)
{
    return 0;
}
uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return ROUND;
}
unsigned dlr_sup_copies(const struct dlr_sup_copies *copies)
{
    return 0;
}
unsigned dlr_sup_parity_rows(const struct dlr_sup_planning *planning)
{
    return 0;
}
void dlr_redundancy_restored(struct dlr_sup_copies *copies)
{
    note("covered");
}

static void committed(void *arg, struct dlr_version v)
{
    note("counted");
}
static void told(void *arg, struct dlr_version v)
{
    note("told");
}
static void changed(void *arg, bool lasting)
{
    note("kept");
}
static bool writes(void *arg)
{
    return false;
}
static int64_t launched(void *arg)
{
    return 400;
}

/* ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    static const struct dlr_sup_versions_ops ops = {.committed = committed,
                                                    .told = told,
                                                    .changed = changed,
                                                    .writes = writes,
                                                    .launched = launched};
    DLR_AUTO_JSON json_t *ready = json_pack("{s:i,s:i,s:i}", "taken", 3000000, "least",
                                            2000000, "limit", 9000000);
    struct dlr_err err;

    dlr_job_config_init(&conf);
    dlr_format(node.node.name, sizeof(node.node.name), "n1");
    table = (struct dlr_members){.list = &node, .n = 1};
    plan = (struct dlr_plan){.nplaces = 1, .world = RANKS};
    versions = dlr_sup_versions_new(
        &(struct dlr_sup_versions_env){.conf = &conf, .plan = &plan}, &ops, NULL);
    assert_non_null(versions);
    assert_int_equal(dlr_sup_versions_open(versions, NULL, &err), 0);
    now = 1000;
    next = 0;
    dlr_sup_versions_round(versions, ROUND);
    dlr_sup_memory_ready(versions, 0, ready);
    for (unsigned r = 0; r < RANKS; r++)
        dlr_commit_ready(dlr_sup_commit(versions), ROUND, r, 0, now);
    done[0] = row[0] = '\0';
    dlr_sup_versions_progress(versions, ROUND, 1, now);
    return 0;
}

static int teardown(void **state)
{
    versions = dlr_sup_versions_free(versions);
    return 0;
}

static void seal_all(uint64_t step)
{
    DLR_AUTO_JSON json_t *msg = json_object();

    for (unsigned r = 0; r < RANKS; r++)
        dlr_sup_versions_sealed(versions, r, (struct dlr_version){ROUND, step}, msg);
}

static void miss(const char *why)
{
    DLR_AUTO_JSON json_t *msg = json_pack("{s:s}", "why", why);

    dlr_sup_versions_missed(versions, 1, (struct dlr_version){ROUND, next}, msg);
}

static void that_saves_begin_is_told_once_a_round(void **state)
{
    assert_string_equal(done, "saving kept save_at ");
    assert_string_equal(row,
                        "{\"round\":3,\"took_ms\":600,\"node\":\"n1\",\"taken_mb\":"
                        "3.0,\"least_mb\":2.0,\"limit_mb\":9.0}");
    assert_true(dlr_sup_saving(versions));
    done[0] = '\0';
    seal_all(next);
    assert_null(strstr(done, "saving"));
    dlr_sup_versions_round(versions, ROUND + 1);
    assert_false(dlr_sup_saving(versions));
}

/* The older version, which the agents hear with it, is kept before they do. */
static void
a_commit_counts_before_it_is_told_and_is_told_before_it_is_written(void **state)
{
    struct dlr_version v;

    uint64_t step = next;

    done[0] = '\0';
    seal_all(step);
    assert_string_equal(done, "counted kept commit covered told save_at ");
    assert_true(dlr_sup_newest(versions, &v) && v.round == ROUND && v.step == step);
}

static void what_is_given_up_is_told_but_where_it_means_little(void **state)
{
    static const struct {
        const char *why, *done;
    } rows[] = {
        {"rank 1 has gone", "save_failed abort "},
        {DLR_COMMIT_LATE ": step 3", "abort save_at "},
        {DLR_COMMIT_BUSY ": step 3", "abort save_at "},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t step;

        print_message("row '%s'\n", rows[i].why);
        teardown(NULL);
        setup(NULL);
        step = next;
        done[0] = '\0';
        miss(rows[i].why);
        assert_string_equal(done, rows[i].done);
        assert_int_equal(versions->aborts, 1);
        assert_int_equal(versions->aborted[0].step, step);
    }
}

static void what_saves_have_done_is_in_the_journals_rows(void **state)
{
    static const struct {
        int64_t later_ms;
        const char *row;
    } rows[] = {
        {0, "{\"committed\":null,\"pending\":[3,3],\"commit_age_ms\":-1,"
            "\"at_stake_ms\":-1,\"commits\":0,\"aborts\":0,\"asked\":0}"},
        {70, "{\"committed\":[3,3],\"pending\":[3,5],\"commit_age_ms\":70,"
             "\"at_stake_ms\":70,\"commits\":1,\"aborts\":0,\"asked\":0}"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        DLR_AUTO_JSON json_t *all = json_object();
        DLR_AUTO_FREE char *text = NULL;

        if (i > 0)
            seal_all(next);
        dlr_sup_saves_put(versions, now + rows[i].later_ms, all);
        text = json_dumps(all, JSON_COMPACT);
        assert_string_equal(text, rows[i].row);
    }
}

static void say(const char *text)
{
    DLR_AUTO_JSON json_t *msg = json_loads(text, 0, NULL);

    assert_non_null(msg);
    dlr_sup_versions_hear(versions, 0, msg);
}

static void what_a_program_asks_for_is_ordered_and_counted(void **state)
{
    DLR_AUTO_JSON json_t *all = json_object();
    uint64_t first = next;

    dlr_sup_cadence_stop(versions);
    dlr_commit_every(dlr_sup_commit(versions), 1000);
    seal_all(first);
    dlr_sup_versions_progress(versions, ROUND, 50, now);
    say("{\"t\":\"wanted\",\"round\":2,\"step\":61}");
    say("{\"t\":\"wanted\",\"round\":3,\"step\":-1}");
    say("{\"t\":\"wanted\",\"round\":3,\"step\":61.5}");
    say("{\"t\":\"wanted\",\"round\":3}");
    assert_int_equal(next, first);
    say("{\"t\":\"wanted\",\"round\":3,\"step\":61}");
    assert_int_equal(next, 62);
    dlr_sup_saves_put(versions, now, all);
    assert_int_equal(json_integer_value(json_object_get(all, "asked")), 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(that_saves_begin_is_told_once_a_round),
        T(a_commit_counts_before_it_is_told_and_is_told_before_it_is_written),
        T(what_is_given_up_is_told_but_where_it_means_little),
        T(what_saves_have_done_is_in_the_journals_rows),
        T(what_a_program_asks_for_is_ordered_and_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
