/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* Versions that a program, or its audit, has found bad: which of them are restored, and
 * whether the next incarnation of the job still knows.
 */
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

#define ROUND 2

static struct dlr_sup_versions *versions;
static struct dlr_plan plan;
static struct dlr_plan_rejected *rejected;
static unsigned nrejected;
static struct dlr_members table;
static bool has_newest;
static struct dlr_version newest;
static char said[256], noted[64];
static unsigned aborted, saved;
static bool saved_first;    /* it was known for bad, and kept, before it was aborted */
static bool told_committed; /* by the last torn */

/* --- instead of the other files of the supervisor --------------------------------- */

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return ROUND;
}
bool dlr_commit_newest(const struct dlr_commit *c, struct dlr_version *ret)
{
    *ret = newest;
    return has_newest;
}
void dlr_commit_missed(struct dlr_commit *c, unsigned rank, struct dlr_version v,
                       const char *why, int64_t now_ms)
{
    aborted++;
    saved_first = saved > 0 && dlr_sup_is_bad(versions, v);
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    char object[512];
    json_t *fields;
    va_list ap;

    dlr_format(noted, sizeof(noted), "%s", event);
    dlr_format(object, sizeof(object), "{%s}", fmt);
    va_start(ap, fmt);
    fields = json_vpack_ex(NULL, 0, object, ap); /* it takes over what it is given */
    va_end(ap);
    told_committed = json_is_true(json_object_get(fields, "committed"));
    json_decref(fields);
}
int64_t dlr_sup_now(void)
{
    return 0;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}

const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return &table;
}
void dlr_sup_strike_version(struct dlr_sup_copies *copies, struct dlr_version v,
                            bool lasting, bool later)
{
    struct dlr_plan_rejected *more = realloc(rejected, (nrejected + 1) * sizeof(*more));

    assert_non_null(more);
    rejected = more;
    more[nrejected++] = (struct dlr_plan_rejected){
        .rank = -1, .version = v, .lasting = lasting, .later = later};
}
const struct dlr_plan_rejected *dlr_sup_struck(const struct dlr_sup_copies *copies,
                                               unsigned *ret_n)
{
    *ret_n = nrejected;
    return rejected;
}
void dlr_sup_unstrike(struct dlr_sup_copies *copies, unsigned i)
{
    fail();
}

static void changed(void *arg, bool lasting)
{
    saved += lasting;
}
static uint32_t running(void *arg)
{
    return ROUND;
}

/* ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    static const struct dlr_sup_versions_ops ops = {.changed = changed,
                                                    .round = running};
    static struct dlr_member node;

    dlr_format(node.node.name, sizeof(node.node.name), "n1");
    table.list = &node;
    table.n = 1;
    plan.world = 4;
    versions =
        dlr_sup_versions_new(&(struct dlr_sup_versions_env){.plan = &plan}, &ops, NULL);
    assert_non_null(versions);
    has_newest = false;
    said[0] = noted[0] = '\0';
    aborted = saved = 0;
    saved_first = false;
    return 0;
}

static int teardown(void **state)
{
    versions = dlr_sup_versions_free(versions);
    free(rejected);
    rejected = NULL;
    nrejected = 0;
    return 0;
}

static void torn(uint32_t round, uint64_t step, unsigned rank)
{
    DLR_AUTO_JSON json_t *msg = json_pack(
        "{s:I,s:I,s:I,s:s}", "round", (json_int_t)round, "rank", (json_int_t)rank,
        "step", (json_int_t)step, "why", "region 'w' (1 in all) changed");

    dlr_sup_on_torn(versions, 0, msg);
}

static void committed(uint64_t step)
{
    has_newest = true;
    newest = (struct dlr_version){ROUND, step};
}

static bool is_bad(uint32_t round, uint64_t step)
{
    return dlr_sup_is_bad(versions, (struct dlr_version){round, step});
}

static void
a_torn_version_that_is_not_committed_is_struck_off_before_it_is_given_up(void **state)
{
    committed(10);
    torn(ROUND, 11, 1);
    assert_int_equal(aborted, 1);
    assert_true(saved_first);
    assert_true(is_bad(ROUND, 11));
    assert_false(is_bad(ROUND, 12));
    assert_string_equal(said, "rank 1: region 'w' (1 in all) changed");
    assert_string_equal(noted, "torn");
}

static void one_that_is_committed_is_not_restored_and_later_ones_are(void **state)
{
    committed(12);
    torn(ROUND, 12, 1);
    assert_int_equal(aborted, 0);
    assert_int_equal(saved, 1);
    assert_true(told_committed);
    assert_true(is_bad(ROUND, 12));
    assert_false(is_bad(ROUND, 11));
    assert_false(is_bad(ROUND, 13));
    assert_false(is_bad(ROUND - 1, 12));
}

/* Its seal or copy came too late, and a newer one was whole by then. */
static void one_that_was_aborted_is_not_called_committed(void **state)
{
    for (unsigned i = 0; i <= DLR_SUP_ABORTED; i++)
        versions->aborted[versions->aborts++ % DLR_SUP_ABORTED] =
            (struct dlr_version){ROUND, 2 * i};
    committed(2 * DLR_SUP_ABORTED + 1);
    torn(ROUND, 2, 1);
    assert_string_equal(noted, "torn");
    assert_false(told_committed);
    torn(ROUND, 2 * DLR_SUP_ABORTED, 1);
    assert_false(told_committed);
    torn(ROUND, 3, 1);
    assert_true(told_committed);
}

static void the_user_is_told_once_and_each_version_is_counted_once(void **state)
{
    committed(12);
    torn(ROUND, 12, 1);
    said[0] = noted[0] = '\0';
    torn(ROUND, 12, 3);
    assert_string_equal(noted, "");
    assert_int_equal(versions->torn, 1);
    committed(13);
    torn(ROUND, 13, 0);
    assert_string_equal(noted, "torn");
    assert_string_equal(said, "");
    assert_int_equal(versions->torn, 2);
}

static void what_is_malformed_or_of_another_round_is_ignored(void **state)
{
    DLR_AUTO_JSON json_t *empty = json_object();

    committed(12);
    torn(ROUND - 1, 12, 1);
    torn(ROUND, 12, 4); /* no such rank */
    dlr_sup_on_torn(versions, 0, empty);
    assert_int_equal(versions->torn + nrejected + aborted, 0);
}

static void both_kinds_of_marks_are_known_after_a_requeue(void **state)
{
    DLR_AUTO_JSON json_t *run = json_object();

    committed(12);
    torn(ROUND, 12, 1);
    dlr_sup_mark_bad(versions, (struct dlr_version){ROUND, 20}, "rank 0 on n1 said so");
    dlr_sup_strike_version(NULL, (struct dlr_version){ROUND, 5}, false,
                           false); /* it did not load */
    json_object_set_new(run, "bad", dlr_bad_versions_save(versions));
    teardown(NULL);
    setup(NULL);
    dlr_bad_versions_load(versions, run);
    assert_int_equal(nrejected, 2);
    assert_true(is_bad(ROUND, 12) && is_bad(ROUND, 20) && is_bad(ROUND - 1, 21));
    assert_false(is_bad(ROUND, 13) || is_bad(ROUND, 5));
}

static void a_malformed_mark_strikes_nothing(void **state)
{
    static const char *const lists[] = {
        "{}",           "[[]]",       "[null]",    "[7]",
        "[[1]]",        "[[1, -1]]",  "[[-1, 1]]", "[[4294967296, 1]]",
        "[[\"1\", 2]]", "[{\"0\":1}]"};

    for (unsigned i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        DLR_AUTO_JSON json_t *run = json_object();

        print_message("%s\n", lists[i]);
        json_object_set_new(run, "bad", json_loads(lists[i], 0, NULL));
        dlr_bad_versions_load(versions, run);
        assert_int_equal(nrejected, 0);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_torn_version_that_is_not_committed_is_struck_off_before_it_is_given_up),
        T(one_that_is_committed_is_not_restored_and_later_ones_are),
        T(one_that_was_aborted_is_not_called_committed),
        T(the_user_is_told_once_and_each_version_is_counted_once),
        T(what_is_malformed_or_of_another_round_is_ignored),
        T(both_kinds_of_marks_are_known_after_a_requeue),
        T(a_malformed_mark_strikes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
