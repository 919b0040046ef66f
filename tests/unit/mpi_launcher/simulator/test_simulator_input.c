/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation is told: keys, measured phases, a site's accounting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "mpi_launcher/simulator/agenda.h"
#include "mpi_launcher/simulator/site.h"

static void each_default_of_a_key_is_taken_and_has_a_source(void **state)
{
    struct dlr_sim_conf conf;

    dlr_sim_conf_init(&conf);
    for (const struct dlr_sim_key *key = dlr_sim_keys; key->name; key++) {
        assert_int_equal(dlr_sim_conf_set(&conf, key->name, key->value, NULL), 0);
        assert_true(key->from[0] && key->help[0]);
    }
    assert_int_equal(dlr_sim_conf_check(&conf, NULL), 0);
    assert_true(conf.spares == 32 && conf.down == 86400 && conf.save_cost == 0.0015);
}

static void a_bad_key_is_one_line(void **state)
{
    static const struct {
        const char *key, *value, *says;
    } rows[] = {
        {"node-rat", "1", "unknown key, 'node-rate' may be meant"},
        {"node-rate", "-1", "node-rate is '-1', which is not a number"},
        {"node-rate", "3x", "node-rate is '3x', which is not a number"},
        {"node-rate", "nan", "node-rate is 'nan', which is not a number"},
        {"node-rate", "", "node-rate is '', which is not a number"},
        {"start", "47", "start is '47', which is not a time such as 30s or 2h"},
        {"save-cost", "101%", "save-cost is '101%', which is not a share such as 5%"},
        {"days", "auto", "days is 'auto', which is not a number"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_sim_conf conf;
        struct dlr_err err = {0};

        dlr_sim_conf_init(&conf);
        assert_true(dlr_sim_conf_set(&conf, rows[i].key, rows[i].value, &err) < 0);
        assert_string_equal(err.text, rows[i].says);
    }
}

static void what_cannot_be_played_is_refused(void **state)
{
    static const struct {
        const char *key, *value, *says;
    } rows[] = {
        {"gpus", "0", "a job has one GPU at least, and a node, too"},
        {"gpus", "9000000", "1142579 nodes are more than 1000000"},
        {"min-nodes", "4000", "min-nodes is 4000 and the job has 2048 nodes"},
        {"days", "0", "days is above 0, and 36500 at most"},
        {"leaf-nodes", "0", "a leaf switch has one node at least"},
        {"save-cost", "100%", "save-cost is all of the time"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_sim_conf conf;
        struct dlr_err err = {0};

        dlr_sim_conf_init(&conf);
        assert_int_equal(dlr_sim_conf_set(&conf, rows[i].key, rows[i].value, &err), 0);
        assert_int_equal(dlr_sim_conf_check(&conf, &err), -EINVAL);
        assert_string_equal(err.text, rows[i].says);
    }
}

static void measured_phases_are_taken_from_a_benchmark(void **state)
{
    struct dlr_sim_conf conf;
    struct dlr_err err = {0};

    dlr_sim_conf_init(&conf);
    assert_int_equal(
        dlr_sim_conf_bench(&conf,
                           "[{\"name\":\"node_loss.detect\",\"value\":0.96},"
                           "{\"name\":\"process_death.known\",\"value\":14},"
                           "{\"name\":\"stream\",\"value\":1},{\"name\":3}]",
                           &err),
        2);
    assert_true(conf.detect == 0.96 && fabs(conf.detect_program - 0.014) < 1e-9);
    assert_int_equal(dlr_sim_conf_bench(&conf, "[]", &err), -ENODATA);
    assert_string_equal(err.text, "no row of it is about a recovery");
    assert_int_equal(dlr_sim_conf_bench(&conf, "{", &err), -EINVAL);
}

static const char jobs[] =
    "JobID|JobName|State|NNodes|ElapsedRaw|Eligible|Start\n"
    "7|a|COMPLETED|10|86400|2026-11-01T00:00:00|2026-11-01T00:10:00\n"
    "7.0|a|COMPLETED|10|86400||\n"
    "8|b|NODE_FAIL|90|864000|2026-11-01T00:00:00|2026-11-01T01:00:00\n"
    "9|c|CANCELLED by 5|1|0|2026-11-01T00:00:00|None\n"
    "10|d|NODE_FAIL|90|8640|2026-11-01T00:00:00|2026-11-01T00:20:00\n"
    "x|\n";

static void accounting_says_how_often_jobs_lose_a_node(void **state)
{
    struct dlr_site site = {0};
    struct dlr_sim_conf conf;

    assert_int_equal(dlr_site_sacct_parse(jobs, &site, NULL), 0);
    assert_int_equal(site.jobs, 3);
    assert_int_equal(site.node_fail, 2);
    assert_int_equal(site.skipped, 1);
    assert_true(fabs(site.node_days - (10 + 900 + 9)) < 1e-9);
    assert_true(site.queue_s == 1200); /* the median of 10, 20 and 60 minutes */
    dlr_sim_conf_init(&conf);
    dlr_site_apply(&site, &conf);
    assert_true(fabs(conf.node_rate - 2 / 0.919) < 1e-9 && conf.queue == 1200);
}

static void the_history_of_nodes_says_how_long_and_how_many_at_once(void **state)
{
    static const char events[] =
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
        "c||2026-11-01T00:00:00|Unknown||Cluster registered|\n"
        "c|n1|2026-11-01T10:00:00|2026-11-01T12:00:00|DOWN*|Not responding|slurm\n"
        "c|n2|2026-11-02T10:00:00|Unknown|DOWN|Not responding|slurm\n"
        "c|n3|2026-11-02T11:00:00|2026-11-03T00:00:00|DRAIN|broken|root\n"
        "c|n4|2026-11-04T10:00:00|2026-11-04T14:00:00|DOWN*|switch|slurm\n"
        "c|n5|2026-11-04T10:00:10|2026-11-04T14:00:10|DOWN*|switch|slurm\n"
        "c|n6|2026-11-04T10:00:20|2026-11-04T14:00:20|DOWN*|switch|slurm\n"
        "c|n7|2026-11-04T10:00:30|2026-11-04T14:00:30|DOWN*|switch|slurm\n"
        "c|n8|soon||DOWN|?|slurm\n";
    struct dlr_site site = {0};
    struct dlr_sim_conf conf;

    assert_int_equal(dlr_site_sacct_parse(jobs, &site, NULL), 0);
    assert_int_equal(dlr_site_events_parse(events, &site, NULL), 0);
    assert_int_equal(site.downs, 2);
    assert_int_equal(site.groups, 1);
    assert_int_equal(site.skipped, 2);
    assert_true(site.down_s == (2 + 4 * 4) * 3600 / 5.0);
    dlr_sim_conf_init(&conf);
    dlr_site_apply(&site, &conf);
    assert_true(fabs(conf.leaf_rate - 1 / 0.919) < 1e-9 && conf.down == site.down_s);
}

static void texts_that_are_something_else_are_refused(void **state)
{
    struct dlr_site site = {0};
    struct dlr_err err = {0};

    assert_int_equal(dlr_site_sacct_parse("", &site, &err), -EINVAL);
    assert_string_equal(err.text, "its first line names no column JobID");
    assert_int_equal(dlr_site_sacct_parse("JobID|State|NNodes\n", &site, &err),
                     -EINVAL);
    assert_string_equal(err.text, "its first line names no column ElapsedRaw");
    assert_int_equal(
        dlr_site_sacct_parse("JobID|State|NNodes|ElapsedRaw\n", &site, &err), -ENODATA);
    assert_string_equal(err.text, "no job in it has run");
    assert_int_equal(dlr_site_events_parse("NodeName|State\n", &site, &err), -EINVAL);
    assert_string_equal(err.text, "its first line names no column TimeStart");
    assert_int_equal(dlr_site_events_parse("NodeName|State|Start\n", &site, &err),
                     -ENODATA);
    assert_string_equal(err.text, "no node in it was lost");
}

static void what_comes_first_is_taken_first(void **state)
{
    struct dlr_agenda a = {0};
    int64_t before = -1;

    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(
            dlr_agenda_add(&a,
                           (struct dlr_agenda_item){.at_ms = i * 7919 % 97, .node = i}),
            0);
    for (unsigned i = 0, node = 0; i < 1000; i++) {
        struct dlr_agenda_item item = dlr_agenda_take(&a);

        assert_true(item.at_ms > before || (item.at_ms == before && item.node > node));
        before = item.at_ms;
        node = item.node;
    }
    assert_true(dlr_agenda_next_ms(&a) == INT64_MAX);
    dlr_agenda_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_default_of_a_key_is_taken_and_has_a_source),
        cmocka_unit_test(a_bad_key_is_one_line),
        cmocka_unit_test(what_cannot_be_played_is_refused),
        cmocka_unit_test(measured_phases_are_taken_from_a_benchmark),
        cmocka_unit_test(accounting_says_how_often_jobs_lose_a_node),
        cmocka_unit_test(the_history_of_nodes_says_how_long_and_how_many_at_once),
        cmocka_unit_test(texts_that_are_something_else_are_refused),
        cmocka_unit_test(what_comes_first_is_taken_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
