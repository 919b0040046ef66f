/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_sup_disk_wants,dlr_sup_is_candidate,dlr_sup_rule_stops,dlr_sup_starves,dlr_sup_ending_for_memory,dlr_policy_starves,dlr_policy_failure,dlr_sup_unwritten,dlr_sup_names_fit,dlr_sup_repeated_failure_stops,dlr_sup_holders_make,dlr_policy_planned,dlr_policy_give_up,dlr_user_line,dlr_journal_note */
/* A new plan: who is asked whether it is taken, in which order, and what the policy is
 * told. Around mpi_launcher/supervisor/plan_gates.c all engines, of which those
 * that are asked are played.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/config/opt_value.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "tests/support/engines_rig.h"

#define NODES 3

static struct dlr_sup s;
static const char *stops; /* the gate that does; "": none */
static char told[512];

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *fmt, ...)
{
    size_t len = strlen(told);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(told + len, sizeof(told) - len, fmt, ap);
    va_end(ap);
}

/* --- instead of who is asked ------------------------------------------------------ */

static bool is_stopped(const char *gate)
{
    note("%s ", gate);
    return dlr_streq(stops, gate);
}

bool __wrap_dlr_sup_disk_wants(void *whose, const struct dlr_plan *plan);
bool __wrap_dlr_sup_disk_wants(void *whose, const struct dlr_plan *plan)
{
    return is_stopped("disk");
}

bool __wrap_dlr_sup_is_candidate(const struct dlr_sup_steps *steps, unsigned node);
bool __wrap_dlr_sup_is_candidate(const struct dlr_sup_steps *steps, unsigned node)
{
    return true;
}

static const char *failure; /* of the program, that the round ended for */
static bool unwritten;      /* memory has what the disk has not */

const char *__wrap_dlr_policy_failure(const struct dlr_policy *p);
const char *__wrap_dlr_policy_failure(const struct dlr_policy *p)
{
    return failure;
}

bool __wrap_dlr_sup_unwritten(void *whose);
bool __wrap_dlr_sup_unwritten(void *whose)
{
    return unwritten;
}

bool __wrap_dlr_sup_rule_stops(void *whose, char *why, size_t size);
bool __wrap_dlr_sup_rule_stops(void *whose, char *why, size_t size)
{
    dlr_format(why, size, "a rule");
    return is_stopped("rule");
}

bool __wrap_dlr_sup_names_fit(void *whose, const struct dlr_plan *plan, char *why,
                              size_t size);
bool __wrap_dlr_sup_names_fit(void *whose, const struct dlr_plan *plan, char *why,
                              size_t size)
{
    dlr_format(why, size, "a lost name");
    return !is_stopped("names");
}

bool __wrap_dlr_sup_repeated_failure_stops(void *whose, const struct dlr_plan *plan,
                                           char *why, size_t size);
bool __wrap_dlr_sup_repeated_failure_stops(void *whose, const struct dlr_plan *plan,
                                           char *why, size_t size)
{
    dlr_format(why, size, "again and again");
    return is_stopped("repeat");
}

int __wrap_dlr_sup_holders_make(void *whose);
int __wrap_dlr_sup_holders_make(void *whose)
{
    return is_stopped("holders") ? -ENOMEM : 0;
}

void __wrap_dlr_policy_planned(struct dlr_policy *p, int rc,
                               const unsigned char *member, const char *why,
                               int64_t now_ms);
void __wrap_dlr_policy_planned(struct dlr_policy *p, int rc,
                               const unsigned char *member, const char *why,
                               int64_t now_ms)
{
    if (rc < 0)
        note("policy%d:%s ", rc, why);
    else
        note("policy:%d%d%d ", member[0], member[1], member[2]);
}

void __wrap_dlr_policy_give_up(struct dlr_policy *p, const char *why);
void __wrap_dlr_policy_give_up(struct dlr_policy *p, const char *why)
{
    note("given-up:%s ", why);
}

bool __wrap_dlr_sup_starves(void *whose, char *why, size_t size);
bool __wrap_dlr_sup_starves(void *whose, char *why, size_t size)
{
    dlr_format(why, size, "no memory");
    return is_stopped("starves");
}

static bool no_requeue;

bool __wrap_dlr_sup_ending_for_memory(struct dlr_sup_ending *ending, bool anyway);
bool __wrap_dlr_sup_ending_for_memory(struct dlr_sup_ending *ending, bool anyway)
{
    return !no_requeue;
}

void __wrap_dlr_policy_starves(struct dlr_policy *p, const char *why);
void __wrap_dlr_policy_starves(struct dlr_policy *p, const char *why)
{
    note("requeue:%s ", why);
}

void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}

void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...);
void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...)
{
    note("%s ", event);
}

/* --- the rig ---------------------------------------------------------------------- */

static int begin(void **state)
{
    static char n0[] = "n0", n1[] = "n1", n2[] = "n2";
    char *names[NODES] = {n0, n1, n2};

    memset(&s, 0, sizeof(s));
    s.state_fd = -1;
    dlr_job_config_init(&s.conf);
    engines_rig(&s, names, NODES);
    s.planning->step.nplaces = s.planning->step.world = 2;
    s.planning->step.tasks = calloc(2, sizeof(*s.planning->step.tasks));
    s.planning->step.tasks[0] = s.planning->step.tasks[1] = 1;
    stops = "";
    failure = "it failed";
    unwritten = no_requeue = false;
    s.conf.on = (struct dlr_failure_rules){0};
    told[0] = '\0';
    return 0;
}

static int end(void **state)
{
    engines_rig_free(&s);
    return 0;
}

/* Places on n0 and that one. */
static void planned(const char *second)
{
    struct dlr_plan plan = {.nplaces = 2, .world = 2};

    plan.places = calloc(2, sizeof(*plan.places));
    dlr_format(plan.places[0].node.name, DLR_TOPO_NAME, "n0");
    dlr_format(plan.places[1].node.name, DLR_TOPO_NAME, "%s", second);
    dlr_sup_planning_ops.planned(&s, 0, &plan, "");
    assert_null(plan.places); /* taken over in each case */
}

/* --- tests ------------------------------------------------------------------------ */

static void a_plan_that_nobody_stops_is_taken(void **state)
{
    planned("n2");
    assert_string_equal(told, "disk rule starves names repeat holders policy:101 ");
    assert_string_equal(s.plan->places[1].node.name, "n2");
}

static void a_plan_that_is_stopped_leaves_the_former_one_in_force(void **state)
{
    static const struct {
        const char *gate, *told;
    } rows[] = {
        {"disk", "disk "}, /* it has told the policy itself */
        {"rule", "disk rule given-up:a rule "},
        {"starves", "disk rule starves requeue:no memory "},
        {"names", "disk rule starves names rendezvous_failed policy-28:a lost name "},
        {"repeat", "disk rule starves names repeat given-up:again and again "},
    };

    planned("n1");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].gate);
        stops = rows[i].gate;
        told[0] = '\0';
        planned("n2");
        assert_string_equal(told, rows[i].told);
        assert_string_equal(s.plan->places[1].node.name, "n1");
    }
}

/* Nothing that memory alone has is lost by a rule, nor a round that a node ended. */
static void a_rule_stops_only_where_nothing_is_lost(void **state)
{
    stops = "rule";
    unwritten = true;
    planned("n2");
    assert_string_equal(told, "disk rule starves names repeat holders policy:101 ");
    unwritten = false;
    failure = NULL; /* nobody asks whether it starves, either */
    told[0] = '\0';
    planned("n2");
    assert_string_equal(told, "disk rule names repeat holders policy:101 ");
}

static void want_of_memory_leads_to_what_the_user_wants(void **state)
{
    static const struct {
        const char *on;
        bool unwritten, no_requeue, of_step;
        const char *told;
    } rows[] = {
        {"", true, false, false, "disk rule starves requeue:no memory "},
        {"", true, true, false, "disk rule starves names repeat holders policy:101 "},
        {"", true, false, true, "disk rule starves names repeat holders policy:101 "},
        {"memory:restart", false, false, false,
         "disk rule names repeat holders policy:101 "},
        {"memory:stop", false, false, false, "disk rule starves given-up:no memory "},
        {"memory:stop", true, false, false,
         "disk rule starves names repeat holders policy:101 "},
    };

    stops = "starves";
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        union dlr_opt_value v;

        print_message("  '%s'\n", rows[i].on);
        assert_int_equal(dlr_failure_rules_parse(rows[i].on, &v), 0);
        s.conf.on = v.failures;
        unwritten = rows[i].unwritten;
        no_requeue = rows[i].no_requeue;
        s.planning->step.mem_said = rows[i].of_step;
        told[0] = '\0';
        planned("n2");
        assert_string_equal(told, rows[i].told);
    }
}

static void a_plan_of_another_run_is_none(void **state)
{
    planned("nX");
    assert_string_equal(told, "disk policy-74:the plan is not of this run ");
    assert_false(dlr_sup_has_plan(s.plan));
}

static void a_rendezvous_without_a_plan_is_told_as_it_is(void **state)
{
    struct dlr_plan none = {0};

    dlr_sup_planning_ops.planned(&s, -EPROTO, &none, "no plan");
    assert_string_equal(told, "rendezvous_failed policy-71:no plan ");
}

static void without_memory_for_holders_there_is_no_round(void **state)
{
    stops = "holders";
    planned("n1");
    assert_string_equal(
        told, "disk rule starves names repeat holders policy-12:out of memory ");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_plan_that_nobody_stops_is_taken),
        T(a_plan_that_is_stopped_leaves_the_former_one_in_force),
        T(a_rule_stops_only_where_nothing_is_lost),
        T(want_of_memory_leads_to_what_the_user_wants),
        T(a_plan_of_another_run_is_none),
        T(a_rendezvous_without_a_plan_is_told_as_it_is),
        T(without_memory_for_holders_there_is_no_round),
    };

    return cmocka_run_group_tests_name("plans", tests, NULL, NULL);
}
