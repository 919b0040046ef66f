/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: what the policy makes of failures, and how much of the time is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mpi_launcher/simulator/report.h"
#include "mpi_launcher/simulator/variants.h"

/* words: KEY=VALUE, with blanks between */
static struct dlr_sim_conf conf_of(const char *words)
{
    struct dlr_sim_conf conf;
    struct dlr_err err = {0};
    char text[512], *rest = text, *word;

    snprintf(text, sizeof(text), "%s", words);
    dlr_sim_conf_init(&conf);
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');

        if (!*word)
            continue;
        assert_non_null(value);
        *value++ = '\0';
        if (strcmp(word, "in-process") == 0)
            conf.in_process = *value == '1';
        else if (strcmp(word, "copies") == 0)
            conf.copies = *value - '0';
        else if (strcmp(word, "members") == 0)
            conf.members = *value - '0';
        else
            assert_int_equal(dlr_sim_conf_set(&conf, word, value, &err), 0);
    }
    assert_int_equal(dlr_sim_conf_check(&conf, &err), 0);
    return conf;
}

static struct dlr_sim_result play(const char *words)
{
    struct dlr_sim_conf conf = conf_of(words);
    struct dlr_sim_result r;
    double sum = 0;

    assert_int_equal(dlr_sim_run(&conf, NULL, NULL, &r, NULL), 0);
    for (unsigned i = 0; i < DLR_SIM_PARTS; i++) {
        assert_true(r.part[i] > -1e-9);
        sum += r.part[i];
    }
    assert_true(fabs(sum - 1) < 1e-9);
    assert_true(fabs(r.part[DLR_SIM_TRAINED] - r.goodput) < 1e-9);
    assert_true(r.low <= r.goodput && r.goodput <= r.high);
    return r;
}

/* Failures come singly, and none takes so long that the next comes meanwhile often. */
static void goodput_is_that_of_the_formula_where_it_holds(void **state)
{
    static const char *const rows[] = {
        "gpus=1024 leaf-rate=0",
        "gpus=16384 leaf-rate=0 days=200",
        "gpus=16384 leaf-rate=0 days=200 in-process=1",
        "gpus=8192 leaf-rate=0 save=5m commit=20s node-rate=6.5",
        "gpus=2048 leaf-rate=0 spares=0 queue=20m node-rate=6.5",
        "gpus=8192 leaf-rate=0 start=3m save-cost=1% program-rate=5",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_sim_conf conf = conf_of(rows[i]);
        struct dlr_sim_result r = play(rows[i]);
        double wanted = dlr_sim_formula(&conf), off = r.goodput / wanted - 1;

        print_message("%s: %.4f, %+.2f %% off\n", rows[i], r.goodput, 100 * off);
        assert_true(fabs(off) < 0.01);
        assert_true(fabs(r.goodput - wanted) <
                    0.15 * (1 - wanted)); /* of what is lost */
    }
}

static void a_job_that_nothing_befalls_pays_its_start_and_its_saves(void **state)
{
    struct dlr_sim_result r = play(
        "node-rate=0 program-rate=0 leaf-rate=0 days=1 agents=40s meet=20s start=804s");

    /* 864 s are a hundredth of a day */
    assert_true(fabs(r.goodput - 0.99 * (1 - 0.0015)) < 1e-6);
    assert_int_equal(r.rounds, 1);
    assert_int_equal(r.requeues, 0);
    assert_true(r.part[DLR_SIM_LOST] < 1e-9);
}

static void the_same_seed_is_the_same_history(void **state)
{
    struct dlr_sim_conf conf = conf_of("gpus=1024 days=90");
    struct dlr_sim_result a = {0}, b = {0}, c = {0};

    assert_int_equal(dlr_sim_run(&conf, NULL, NULL, &a, NULL), 0);
    assert_int_equal(dlr_sim_run(&conf, NULL, NULL, &b, NULL), 0);
    conf.seed = 2;
    assert_int_equal(dlr_sim_run(&conf, NULL, NULL, &c, NULL), 0);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_true(a.goodput != c.goodput);
    assert_true(c.low <= a.high && a.low <= c.high);
}

/* With leaves of one node the partner is the next node, which dies too. */
static void owner_and_partner_lost_together_go_back_to_the_disk(void **state)
{
    static const char *const two = "gpus=1024 days=200 leaf-nodes=1 leaf-rate=0 "
                                   "together=100% program-rate=0 ";
    static const struct {
        const char *kept;
        bool lost;
    } rows[] = {{"copies=0", true},
                {"copies=1", true},
                {"copies=2", false},
                {"copies=1 members=4", false}, /* members are far from each other */
                {"copies=2 members=8", false}};
    char words[256];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_sim_result r;

        snprintf(words, sizeof(words), "%s%s", two, rows[i].kept);
        r = play(words);
        print_message("%s: %lu of %lu\n", rows[i].kept, r.from_disk, r.nodes_lost);
        assert_true(r.nodes_lost > 100);
        assert_int_equal(r.from_disk > 0, rows[i].lost);
    }
}

static void
a_leaf_switch_takes_no_state_with_it_where_partners_are_a_leaf_apart(void **state)
{
    struct dlr_sim_result r =
        play("gpus=2048 days=365 leaf-rate=2 node-rate=0 program-rate=0 spares=64");

    assert_true(r.leaves_lost > 50);
    assert_true(r.nodes_lost > r.leaves_lost * 20);
    assert_int_equal(r.from_disk, 0);
    r = play("gpus=2048 days=365 leaf-rate=2 node-rate=0 program-rate=0 spares=64 "
             "copies=0");
    assert_true(r.from_disk > 50);
}

static void without_a_spare_the_job_is_requeued_or_goes_on_smaller(void **state)
{
    struct dlr_sim_result r = play("gpus=1024 leaf-rate=0 program-rate=0 spares=0");

    assert_true(r.nodes_lost > 100);
    assert_int_equal(r.requeues, r.nodes_lost);
    assert_true(r.part[DLR_SIM_QUEUE] > 0 && r.part[DLR_SIM_SMALLER] == 0);
    r = play("gpus=1024 leaf-rate=0 program-rate=0 spares=0 min-nodes=100");
    assert_true(r.requeues > 0 && r.requeues < r.nodes_lost / 20);
    assert_true(r.part[DLR_SIM_SMALLER] > 0.01);
}

static void a_lost_batch_host_is_a_requeue_or_a_takeover(void **state)
{
    static const char *const small =
        "gpus=32 leaf-rate=0 program-rate=0 node-rate=100 spares=40 queue=1h ";
    struct dlr_sim_result requeue = play(small), takeover;
    char words[256];

    snprintf(words, sizeof(words), "%stakeover=3s", small);
    takeover = play(words);
    assert_true(requeue.batch_hosts > 10 && requeue.requeues >= requeue.batch_hosts);
    assert_true(takeover.batch_hosts > 10 && takeover.requeues < requeue.requeues);
    assert_true(takeover.goodput > requeue.goodput);
}

static void failures_of_the_program_take_no_node(void **state)
{
    struct dlr_sim_result r =
        play("gpus=1024 node-rate=0 leaf-rate=0 program-rate=5 spares=0");

    assert_true(r.program_failures > 100);
    assert_int_equal(r.nodes_lost + r.requeues + r.given_up, 0);
    assert_int_equal(r.rounds, r.program_failures + 1);
}

/* Without a version in between ten restarts within an hour are too many. */
static void a_program_that_comes_to_nothing_is_given_up(void **state)
{
    struct dlr_sim_result r =
        play("gpus=1024 node-rate=0 leaf-rate=0 program-rate=50000 save=1h days=5");

    assert_true(r.given_up > 5);
    assert_true(r.part[DLR_SIM_GIVEN_UP] > 0.3);
}

static void a_false_alarm_costs_a_round_and_the_node_comes_back(void **state)
{
    struct dlr_sim_result r =
        play("gpus=1024 node-rate=0 leaf-rate=0 program-rate=0 alarm-rate=5 spares=1");

    assert_true(r.false_alarms > 100);
    assert_int_equal(r.nodes_lost, 0);
    assert_true(r.requeues < 5);
    assert_true(r.rounds > r.false_alarms * 9 / 10);
}

static void a_plain_job_does_worse_the_larger_it_is(void **state)
{
    static const char *const rows[] = {"gpus=8", "gpus=1024", "gpus=16384",
                                       "gpus=131072"};
    double before = 1, every;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_sim_conf conf = conf_of(rows[i]);
        double plain = dlr_sim_plain(&conf, &every);

        assert_true(plain < before && plain > 0.3);
        assert_true(plain < dlr_sim_formula(&conf));
        assert_true(every > conf.plain_write);
        before = plain;
    }
}

static void set_best(struct dlr_sim_variant *v, double goodput, double off, double paid)
{
    v->result = (struct dlr_sim_result){
        .goodput = goodput, .low = goodput - off, .high = goodput + off, .paid = paid};
}

static void advice_is_the_cheapest_that_nothing_is_better_than(void **state)
{
    struct dlr_sim_conf conf = conf_of("gpus=1024");
    struct dlr_sim_variant list[DLR_SIM_VARIANTS];
    unsigned n = dlr_sim_variants(&conf, list), given = 0;

    for (unsigned i = 0; i < n; i++)
        given += list[i].given;
    assert_int_equal(given, 4); /* one of each option */
    for (unsigned i = 0; i < 3; i++)
        list[i].option = "spares";
    set_best(&list[0], 0.90, 0.01, 0.90);
    set_best(&list[1], 0.95, 0.01, 0.94);
    set_best(&list[2], 0.96, 0.01, 0.93);
    assert_int_equal(dlr_sim_best(list, 3), 1);
    for (unsigned i = 0; i < 3; i++)
        list[i].option = "persist";
    assert_int_equal(dlr_sim_best(list, 3), 1); /* 0.95 may be as good as 0.96 */
    set_best(&list[1], 0.93, 0.01, 0);
    assert_int_equal(dlr_sim_best(list, 3), 2);
}

static void a_report_says_the_same_in_each_form(void **state)
{
    struct dlr_sim_conf conf = conf_of("gpus=1024 days=30");
    struct dlr_sim_result r;
    char *text = NULL, want[64];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    json_t *json;

    assert_int_equal(dlr_sim_run(&conf, NULL, NULL, &r, NULL), 0);
    dlr_sim_report(&conf, &r, out);
    dlr_sim_picture(&conf, &r, out);
    fclose(out);
    snprintf(want, sizeof(want), " %.2f %%   95 %%: %.2f to %.2f\n", 100 * r.goodput,
             100 * r.low, 100 * r.high);
    assert_non_null(
        strstr(text, "1024 GPUs on 128 nodes, 2 spares, redundancy partner"));
    assert_non_null(strstr(text, want));
    assert_non_null(strstr(text, "<svg ") ? strstr(text, "</svg>\n") : NULL);
    json = dlr_sim_json(&conf, &r);
    assert_non_null(json);
    assert_true(json_real_value(json_object_get(json, "goodput")) == r.goodput);
    json_decref(json);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goodput_is_that_of_the_formula_where_it_holds),
        cmocka_unit_test(a_job_that_nothing_befalls_pays_its_start_and_its_saves),
        cmocka_unit_test(the_same_seed_is_the_same_history),
        cmocka_unit_test(owner_and_partner_lost_together_go_back_to_the_disk),
        cmocka_unit_test(
            a_leaf_switch_takes_no_state_with_it_where_partners_are_a_leaf_apart),
        cmocka_unit_test(without_a_spare_the_job_is_requeued_or_goes_on_smaller),
        cmocka_unit_test(a_lost_batch_host_is_a_requeue_or_a_takeover),
        cmocka_unit_test(failures_of_the_program_take_no_node),
        cmocka_unit_test(a_program_that_comes_to_nothing_is_given_up),
        cmocka_unit_test(a_false_alarm_costs_a_round_and_the_node_comes_back),
        cmocka_unit_test(a_plain_job_does_worse_the_larger_it_is),
        cmocka_unit_test(advice_is_the_cheapest_that_nothing_is_better_than),
        cmocka_unit_test(a_report_says_the_same_in_each_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
