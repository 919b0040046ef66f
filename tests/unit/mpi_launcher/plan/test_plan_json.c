/* SPDX-License-Identifier: Apache-2.0 */
/* Reports, plans and inputs as JSON, also damaged. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/run/master_port.h"
#include "tests/unit/mpi_launcher/plan/plan_rig.h"

static void a_plan_survives_json(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL;
    DLR_AUTO_FREE char *a = NULL, *b = NULL;
    struct dlr_plan plan, back;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1!=0:4/120 1:4/120;l1.n2;l1.n3;l1.n4=1:4/110",
                   "l0.n1>n2 l1.n2>n1");
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    a = plan_rig_text(&plan, NULL);
    j = json_loads(a, 0, NULL);
    assert_int_equal(dlr_plan_from_json(j, &back, NULL), 0);
    b = plan_rig_text(&back, NULL);
    assert_string_equal(a, b);
    assert_int_equal(back.nverdicts, 1);
    assert_string_equal(back.places[0].node.name, "n3"); /* n1 is left out */
    assert_int_equal(back.places[0].port, DLR_PORT_FIRST + 3);
    dlr_plan_done(&plan);
    dlr_plan_done(&back);
    plan_rig_teardown(&w);
}

/* As long as DNS allows a label and a name. */
static void nodes_have_long_names(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL;
    DLR_AUTO_FREE char *a = NULL, *b = NULL;
    struct dlr_plan plan, back;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1=0:4/120 1:4/120;l0.n2;l0.n3!", NULL);
    for (unsigned i = 0; i < w.n; i++) {
        char *name = w.reports[i].node.name;

        memset(name, 'a' + (int)i, DLR_TOPO_NAME - 1);
        name[i ? DLR_TOPO_NAME - 1 : 63] = '\0';
        dlr_format(w.reports[i].node.path, DLR_TOPO_PATH, "s.l0.%s", name);
    }
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    a = plan_rig_text(&plan, NULL);
    j = json_loads(a, 0, NULL);
    assert_int_equal(dlr_plan_from_json(j, &back, NULL), 0);
    b = plan_rig_text(&back, NULL);
    assert_string_equal(a, b);
    for (unsigned i = 0; i < 2; i++)
        assert_string_equal(back.places[i].node.name, w.reports[i].node.name);
    assert_string_equal(back.out[0].node, w.reports[2].node.name);
    dlr_plan_done(&plan);
    dlr_plan_done(&back);
    plan_rig_teardown(&w);
}

static void a_failed_plan_travels_as_its_error(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL;
    struct dlr_err err = {0}, far = {0};
    struct dlr_plan plan, back;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1!;l0.n2", NULL);
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, &err), -ENOSPC);
    j = dlr_plan_to_json(&plan, &err);
    assert_int_equal(dlr_plan_from_json(j, &back, &far), -ENOSPC);
    assert_string_equal(far.text, err.text);
    assert_int_equal(back.nout, 1);
    assert_string_equal(back.out[0].node, "n1");
    dlr_plan_done(&plan);
    dlr_plan_done(&back);
    plan_rig_teardown(&w);
}

static void reports_survive_json(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL, *again = NULL;
    struct dlr_plan_report back;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1!?n7,n8=0:4/120 1:0/0", NULL);
    w.reports[0].speeds[0] = (struct dlr_plan_speed){"matmul", 5.25};
    w.reports[0].nspeeds = 1;
    j = dlr_plan_report_to_json(&w.reports[0]);
    assert_int_equal(dlr_plan_report_from_json(j, &back, NULL), 0);
    again = dlr_plan_report_to_json(&back);
    assert_true(json_equal(j, again));
    assert_int_equal(back.nspeeds, 1);
    assert_string_equal(back.speeds[0].check, "matmul");
    assert_true(back.speeds[0].value == 5.25);
    assert_int_equal(back.ncopies, 2);
    assert_int_equal(back.port, DLR_PORT_FIRST + 1);
    assert_int_equal(back.copies[0].layout, 0xabcdef0123456789ull);
    dlr_plan_report_done(&back);
    plan_rig_teardown(&w);
}

static void hostile_reports_are_refused(void **state)
{
    static const char *const rows[] = {
        "[]",
        "7",
        "{}",
        "{'node':''}",
        "{'node':'a b'}",
        "{'node':'../x'}",
        "{'node':'n','topo':7}",
        "{'node':'n','topo':'n','cpus':-1,'boot':''}",
        "{'node':'n','topo':'n','cpus':1.5,'boot':''}",
        "{'node':'n','topo':'n','cpus':1}",
        "{'node':'n','topo':'n','cpus':1,'boot':'','port':22}",
        "{'node':'n','topo':'n','cpus':1,'boot':'','port':30000}",
        "{'node':'n','cpus':1,'boot':'','checks':{}}",
        "{'node':'n','cpus':1,'boot':'','checks':[7]}",
        "{'node':'n','cpus':1,'boot':'','speeds':[1]}",
        "{'node':'n','cpus':1,'boot':'','speeds':{'m':0}}",
        "{'node':'n','cpus':1,'boot':'','speeds':{'m':'5'}}",
        "{'node':'n','cpus':1,'boot':'','checks':[{'check':'m','verdict':'bad','reason'"
        ":''}]}",
        "{'node':'n','cpus':1,'boot':'','silent':[7]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{}]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{'rank':-1,'world':1,'vround':0,'"
        "step':0,"
        "'bytes':1,'layout':'0123456789abcdef'}]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{'rank':0,'world':1,'vround':0,'"
        "step':0,"
        "'bytes':1,'layout':'12'}]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{'rank':0,'world':1,'vround':"
        "4294967296,"
        "'step':0,'bytes':1,'layout':'0123456789abcdef'}]}",
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        DLR_AUTO_JSON json_t *j = NULL;
        struct dlr_plan_report r;
        char text[1024], *p;

        dlr_format(text, sizeof(text), "%s", rows[i]);
        for (p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        print_message("  %s\n", text);
        j = json_loads(text, JSON_DECODE_ANY, NULL);
        assert_non_null(j);
        assert_int_equal(dlr_plan_report_from_json(j, &r, NULL), -EBADMSG);
    }
}

/* Drops or replaces each value of a good plan in turn: never a crash, and what is
 * accepted can be written again.
 */
static void damaged_plans_never_crash(void **state)
{
    static const char *const junk[] = {"null", "-1",       "1e9",      "\"\"",
                                       "[]",   "{}",       "99999999", "[[[]]]",
                                       "true", "\"local\""};
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_plan plan, back;
    struct plan_rig w;
    char *p;
    size_t k;

    plan_rig_setup(&w, 2, "l0.n1=0:4/120 1:4/120;l1.n2;l1.n3!", "l0.n1>n2 l1.n2>n1");
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    text = plan_rig_text(&plan, NULL);
    for (p = strchr(text, ':'); p; p = strchr(p + 1, ':'))
        for (k = 0; k < sizeof(junk) / sizeof(junk[0]); k++) {
            DLR_AUTO_JSON json_t *j = NULL;
            size_t old = strcspn(p + 1, ",}]");
            char bad[4096];

            dlr_format(bad, sizeof(bad), "%.*s%s%s", (int)(p + 1 - text), text, junk[k],
                       p + 1 + old);
            j = json_loads(bad, 0, NULL);
            if (dlr_plan_from_json(j, &back, NULL) == 0) {
                DLR_AUTO_FREE char *again = plan_rig_text(&back, NULL);

                assert_non_null(again);
            }
            dlr_plan_done(&back);
        }
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

/* All ranks of the program may be on one of the round's nodes: a supervisor that takes
 * over reads that.
 */
static void a_place_without_ranks_survives_json(void **state)
{
    static const unsigned tasks[] = {2, 0};
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_JSON json_t *j = NULL;
    struct dlr_plan plan, back;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "l0.n1;l1.n2", NULL);
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    free(plan.ranks);
    free(plan.place_of);
    plan.places[0].tasks = plan.places[1].from = 2;
    plan.places[1].tasks = 0;
    assert_int_equal(dlr_plan_former_place(&plan, tasks, 2, NULL), 0);
    text = plan_rig_text(&plan, NULL);
    j = json_loads(text, 0, NULL);
    assert_int_equal(dlr_plan_from_json(j, &back, NULL), 0);
    assert_int_equal(back.places[0].tasks, 2);
    assert_int_equal(back.places[1].tasks, 0);
    dlr_plan_done(&back);
    dlr_plan_done(&plan);
    plan_rig_teardown(&w);
}

static void the_input_survives_json(void **state)
{
    static const char *const nodes[] = {"n1", "n2"}, *const addrs[] = {"h1:1", "h2:2"};
    struct dlr_plan_rejected rejected = {"*", -1, {4, 130}};
    const struct dlr_plan_out full = {"n2", "no room", true};
    struct dlr_plan_file file = {{1, 2, {4, 120}, 99, 7},
                                 "/state/persist/r1-4-120.safetensors"};
    static const char *const paths[] = {"top.leaf0.n1", NULL};
    const struct dlr_plan_survey survey = {.checks = "memory,clock",
                                           .disk_path = "/state",
                                           .store_dir = "/dev/shm/x",
                                           .key = "c.1.r",
                                           .shm_need_bytes = 5,
                                           .peer_timeout_ms = 700,
                                           .network_ms = 5000,
                                           .no_stragglers = true,
                                           .port = DLR_PORT_FIRST + 9,
                                           .npeers = 2,
                                           .peer_nodes = nodes,
                                           .peer_addrs = addrs,
                                           .peer_paths = paths};
    DLR_AUTO_JSON json_t *j = NULL, *again = NULL;
    static const unsigned ranks[] = {1, 0};
    static unsigned tasks[] = {2, 2}, dealt[] = {0, 2, 1, 3};
    static const struct dlr_plan_world worlds[] = {{1, tasks, NULL}, {2, tasks, dealt}};
    struct dlr_plan_input in;
    struct plan_rig w;

    plan_rig_setup(&w, 2, "", "l0.n1>n2 l1.n2>n1");
    w.want.rejected = &rejected;
    w.want.nrejected = 1;
    w.want.full = &full;
    w.want.nfull = 1;
    w.want.files = &file;
    w.want.nfiles = 1;
    w.want.prefer = nodes;
    w.want.nprefer = 2;
    w.want.ordered = true;
    w.want.group = 2;
    w.want.ranks = ranks;
    w.want.members = 2;
    w.want.rows = 1;
    w.want.worlds = worlds;
    w.want.nworlds = 2;
    w.want.has_committed = true;
    w.want.committed = (struct dlr_version){4, 120};
    w.want.limited = true;
    w.want.newest = (struct dlr_version){4, 125};
    dlr_format(w.want.batch, sizeof(w.want.batch), "n1");
    j = dlr_plan_input_to_json(&w.want, &survey);
    assert_non_null(j);
    assert_int_equal(dlr_plan_input_from_json(j, &in, NULL), 0);
    assert_string_equal(in.survey.checks, "memory,clock");
    assert_int_equal(in.survey.network_ms, 5000);
    assert_true(in.survey.no_stragglers);
    assert_string_equal(in.survey.shm_path, "");
    assert_string_equal(in.survey.peer_paths[0], "top.leaf0.n1");
    assert_null(in.survey.peer_paths[1]);
    in.survey.shm_path = NULL;
    again = dlr_plan_input_to_json(&in.want, &in.survey);
    assert_true(json_equal(j, again));
    dlr_plan_input_done(&in);
    plan_rig_teardown(&w);
}

#define WORLDS(list)                                                                   \
    "{\"want\":{\"tasks\":[1],\"members\":2,\"rows\":1,\"worlds\":" list "}}"

static void an_input_may_be_empty_but_not_wrong(void **state)
{
    static const char *const bad[] = {"[]",
                                      "{\"want\":{\"tasks\":[0]}}",
                                      "{\"want\":{\"tasks\":7}}",
                                      "{\"want\":{\"tasks\":[1],\"ranks\":[0,1]}}",
                                      "{\"want\":{\"tasks\":[1],\"ranks\":[-1]}}",
                                      "{\"want\":{\"former\":[{}]}}",
                                      WORLDS("7"),
                                      WORLDS("[{}]"),
                                      WORLDS("[{\"tasks\":[0]}]"),
                                      WORLDS("[{\"tasks\":[2],\"ranks\":[0]}]"),
                                      WORLDS("[{\"tasks\":[2],\"ranks\":[0,0]}]"),
                                      WORLDS("[{\"tasks\":[2],\"ranks\":[0,2]}]"),
                                      WORLDS("[{\"tasks\":[1048576,1]}]"),
                                      WORLDS("[{},{},{},{},{}]"),
                                      "{\"want\":{\"tasks\":[1],\"prefer\":[7]}}",
                                      "{\"want\":{\"tasks\":[1],\"group\":-1}}",
                                      "{\"want\":{\"tasks\":[1],\"group\":[]}}",
                                      "{\"want\":{\"rejected\":[{\"where\":\"x\"}]}}",
                                      "{\"want\":{\"full\":[{\"node\":\"n\"}]}}",
                                      "{\"survey\":{\"peer_timeout_ms\":-1}}",
                                      "{\"survey\":{\"network_ms\":6000000}}",
                                      "{\"survey\":{\"peers\":[{\"node\":\"n\"}]}}",
                                      "{\"survey\":{\"shm_need_bytes\":0,\"port\":80}}",
                                      "{\"survey\":{\"checks\":7}}"};
    DLR_AUTO_JSON json_t *empty = json_object();
    struct dlr_plan_input in;
    size_t i;

    assert_int_equal(dlr_plan_input_from_json(empty, &in, NULL), 0);
    assert_int_equal(in.want.nplaces, 0);
    dlr_plan_input_done(&in);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        DLR_AUTO_JSON json_t *j = json_loads(bad[i], 0, NULL);

        print_message("  %s\n", bad[i]);
        assert_non_null(j);
        assert_int_equal(dlr_plan_input_from_json(j, &in, NULL), -EBADMSG);
        dlr_plan_input_done(&in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_survives_json),
        cmocka_unit_test(nodes_have_long_names),
        cmocka_unit_test(a_failed_plan_travels_as_its_error),
        cmocka_unit_test(reports_survive_json),
        cmocka_unit_test(hostile_reports_are_refused),
        cmocka_unit_test(damaged_plans_never_crash),
        cmocka_unit_test(a_place_without_ranks_survives_json),
        cmocka_unit_test(the_input_survives_json),
        cmocka_unit_test(an_input_may_be_empty_but_not_wrong),
    };

    return cmocka_run_group_tests_name("plan_json", tests, NULL, NULL);
}
