/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_sup_replan_step,dlr_sup_send_peers,dlr_user_line,dlr_journal_note */
/* A run that goes on with fewer nodes, and with more again: who is told, and whose
 * parity is known of the places that it had.
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
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/planning/resize.h"

#define FULL 4

static struct dlr_job_config conf;
static struct dlr_sup_nodes *nodes;
static struct dlr_sup_planning *planning;
static unsigned places_of_sets; /* those that parity was chosen for last */
static int refused;             /* what the choice came to, below 0 */
static char said[512], told[512];

/* --- instead of what is around it ------------------------------------------------- */

/* One rank on each node. */
int __wrap_dlr_sup_replan_step(struct dlr_sup_planning *of, unsigned nplaces,
                               struct dlr_err *err);
int __wrap_dlr_sup_replan_step(struct dlr_sup_planning *of, unsigned nplaces,
                               struct dlr_err *err)
{
    struct dlr_step_plan *step = &of->step;

    free(step->tasks);
    step->tasks = calloc(nplaces, sizeof(*step->tasks));
    for (unsigned p = 0; p < nplaces; p++)
        step->tasks[p] = 1;
    step->nplaces = step->world = nplaces;
    return 0;
}

void __wrap_dlr_sup_send_peers(struct dlr_sup_nodes *of);
void __wrap_dlr_sup_send_peers(struct dlr_sup_nodes *of)
{
    dlr_format(told, sizeof(told), "peers ");
}

void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}

void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...);
void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...)
{
    size_t len = strlen(told);

    snprintf(told + len, sizeof(told) - len, "%s ", event);
}

static int on_replanned(void *arg, struct dlr_err *err)
{
    if (refused)
        return dlr_fail(err, refused, "%u places are too few", planning->step.nplaces);
    places_of_sets = planning->step.nplaces;
    return 0;
}

/* --- the rig ---------------------------------------------------------------------- */

/* Four were there, then three, who begin with what four made: each two are a set. */
static void begin(void)
{
    static const struct dlr_sup_planning_ops ops = {.replanned = on_replanned};
    const struct dlr_sup_nodes_env nodes_env = {.conf = &conf};
    struct dlr_sup_planning_env env = {.conf = &conf};

    conf = (struct dlr_job_config){.redundancy = {.members = 2, .copies = 1}};
    refused = 0;
    nodes = env.nodes = dlr_sup_nodes_new(&nodes_env, NULL, NULL);
    planning = dlr_sup_planning_new(&env, &ops, NULL);
    assert_true(nodes && planning);
    planning->full_places = planning->full_world = FULL;
    __wrap_dlr_sup_replan_step(planning, FULL, NULL);
    assert_int_equal(dlr_sup_resize(planning, 3), 0);
    planning->plan.world = planning->plan.nplaces = 3;
    planning->plan.restore = true;
    planning->plan.made_by = FULL;
    said[0] = told[0] = '\0';
}

static void end(void)
{
    planning->plan = (struct dlr_plan){0}; /* of numbers alone */
    dlr_sup_planning_free(planning);
    dlr_sup_nodes_free(nodes);
}

/* --- tests ------------------------------------------------------------------------ */

static void all_are_told_of_another_number_of_places(void **state)
{
    begin();
    planning->nformer = 3; /* they sat elsewhere */
    assert_int_equal(dlr_sup_resize(planning, 2), 0);
    assert_int_equal(places_of_sets, 2);
    assert_string_equal(told, "peers resized ");
    assert_string_equal(said, "going on with 2 of 4 nodes and 2 ranks");
    assert_int_equal(planning->nformer, 0);
    end();
}

static void places_that_copies_cannot_be_kept_on_are_refused(void **state)
{
    begin();
    refused = -EINVAL;
    assert_int_equal(dlr_sup_resize(planning, 1), -EINVAL);
    assert_string_equal(said, "1 places are too few");
    assert_string_equal(told, "");
    end();
}

static void the_least_number_of_nodes_has_room_for_all_copies(void **state)
{
    static const struct {
        unsigned least, copies;
        const char *text;
    } rows[] = {
        {0, 3, ""}, /* not asked for */
        {4, 3, ""}, /* none is ever missing */
        {2, 1, ""},
        {2, 2,
         "--dlrover-nodes=2: with --dlrover-redundancy each snapshot is on 3 nodes: "
         "say "
         "3 or more"},
    };
    struct dlr_err err;

    begin();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        conf.nodes.min = rows[i].least;
        conf.redundancy.copies = rows[i].copies;
        err.text[0] = '\0';
        assert_int_equal(dlr_sup_resize_check(planning, &err),
                         rows[i].text[0] ? -EINVAL : 0);
        assert_string_equal(err.text, rows[i].text);
    }
    end();
}

static void a_group_must_divide_the_nodes(void **state)
{
    static const struct {
        unsigned group;
        const char *text;
    } rows[] = {
        {1, ""},
        {2, ""},
        {4, ""},
        {0, "--dlrover-group=0 does not divide the 4 training nodes of this run: these "
            "do: 1, 2, 4"},
        {3, "--dlrover-group=3 does not divide the 4 training nodes of this run: these "
            "do: 1, 2, 4"},
        {8, "--dlrover-group=8 does not divide the 4 training nodes of this run: these "
            "do: 1, 2, 4"},
    };
    struct dlr_err err;

    begin();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        conf.group = rows[i].group;
        err.text[0] = '\0';
        assert_int_equal(dlr_sup_group_check(planning, &err),
                         rows[i].text[0] ? -EINVAL : 0);
        assert_string_equal(err.text, rows[i].text);
    }
    planning->full_places = 1; /* another srun of the job, on one node */
    conf.group = 4;
    assert_int_equal(dlr_sup_group_check(planning, &err), 0);
    end();
}

static void former_places_are_known_for_four_sizes(void **state)
{
    struct dlr_parity_sets sets;
    static const unsigned sizes[] = {4, 3, 2, 3, 4};

    begin();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        assert_int_equal(dlr_sup_resize(planning, sizes[i]), 0);
        assert_int_equal(places_of_sets, sizes[i]);
    }
    assert_int_equal(planning->nworlds, 3);
    for (unsigned n = 2; n <= FULL; n++) {
        assert_int_equal(dlr_sup_world_sets(planning, n, &sets), 0);
        assert_int_equal(sets.nplaces, n);
        dlr_parity_sets_done(&sets);
    }
    assert_int_equal(dlr_sup_world_sets(planning, 5, &sets), -ENOENT);
    end();
}

/* Nothing was saved since the plan for three, which begins with what four made. */
static void places_that_the_newest_version_needs_are_not_forgotten(void **state)
{
    struct dlr_parity_sets sets;
    static const unsigned sizes[] = {2, 5, 6, 7, 8};
    static const struct {
        unsigned size;
        int rc;
    } rows[] = {{4, 0}, {3, 0}, {2, -ENOENT}, {5, -ENOENT}, {6, 0}, {7, 0}};

    begin();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        assert_int_equal(dlr_sup_resize(planning, sizes[i]), 0);
    assert_int_equal(planning->nworlds, DLR_PLAN_WORLDS_MAX);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %u\n", rows[i].size);
        assert_int_equal(dlr_sup_world_sets(planning, rows[i].size, &sets), rows[i].rc);
        dlr_parity_sets_done(&sets);
    }
    end();
}

/* It has only what srun's arguments say, and the plan. */
static void a_supervisor_that_takes_over_knows_who_made_the_version(void **state)
{
    struct dlr_parity_sets sets;

    begin();
    dlr_sup_places_done(planning);
    assert_int_equal(__wrap_dlr_sup_replan_step(planning, FULL, NULL), 0);
    planning->plan.nplaces = planning->plan.world = 2;
    planning->plan.made_by = 3;
    conf.nodes.min = 2;
    assert_int_equal(dlr_sup_resize_adopted(planning, NULL), 0);
    assert_int_equal(planning->step.nplaces, 2);
    assert_int_equal(dlr_sup_world_sets(planning, 3, &sets), 0);
    dlr_parity_sets_done(&sets);
    assert_int_equal(dlr_sup_world_sets(planning, FULL, &sets), 0);
    dlr_parity_sets_done(&sets);
    end();
}

/* One of as many ranks as this run never has (--dlrover-restore-from): its places are
 * nobody's.
 */
static void what_another_run_made_is_not_taken_for_a_former_size(void **state)
{
    struct dlr_parity_sets sets;

    begin();
    dlr_sup_places_done(planning);
    assert_int_equal(__wrap_dlr_sup_replan_step(planning, FULL, NULL), 0);
    planning->plan.nplaces = planning->plan.world = FULL;
    planning->plan.made_by = 1;
    for (conf.nodes.min = 0; conf.nodes.min <= 2; conf.nodes.min += 2) {
        assert_int_equal(dlr_sup_resize_adopted(planning, NULL), 0);
        assert_int_equal(planning->step.nplaces, FULL);
        assert_int_equal(dlr_sup_world_sets(planning, 1, &sets), -ENOENT);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_told_of_another_number_of_places),
        cmocka_unit_test(places_that_copies_cannot_be_kept_on_are_refused),
        cmocka_unit_test(the_least_number_of_nodes_has_room_for_all_copies),
        cmocka_unit_test(a_group_must_divide_the_nodes),
        cmocka_unit_test(former_places_are_known_for_four_sizes),
        cmocka_unit_test(places_that_the_newest_version_needs_are_not_forgotten),
        cmocka_unit_test(a_supervisor_that_takes_over_knows_who_made_the_version),
        cmocka_unit_test(what_another_run_made_is_not_taken_for_a_former_size),
    };

    return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
