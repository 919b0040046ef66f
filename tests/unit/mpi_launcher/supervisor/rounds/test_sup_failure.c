/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* Which task's end is the reason of a round's. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "tests/support/rounds_alone.h"

#define STOP 93

static enum dlr_phase phase;
static const char *failure; /* of the program, that the round ends for */

/* --- instead of other files ------------------------------------------------------- */

enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return phase;
}
const char *dlr_policy_failure(const struct dlr_policy *p)
{
    return failure;
}
bool dlr_policy_stops(const struct dlr_policy *p, int wait_status)
{
    return wait_status == STOP << 8;
}
void dlr_policy_started(struct dlr_policy *p, uint32_t round)
{
}
void dlr_policy_worker_exit(struct dlr_policy *p, uint32_t round, int rank,
                            int wait_status, int64_t now_ms)
{
    if (phase == DLR_PHASE_RUN && wait_status == SIGTERM)
        return; /* whether that came to the job is not known yet */
    phase = DLR_PHASE_END;
    failure = "it failed";
}

/* --- tests ------------------------------------------------------------------------ */

static int starved;

static void ends(unsigned rank, int status, int at_ms)
{
    DLR_AUTO_JSON json_t *msg =
        json_pack("{s:i,s:i,s:i,s:i,s:i}", "round", (int)rounds->running_round, "rank",
                  (int)rank, "status", status, "at_ms", at_ms, "starved", starved);

    dlr_sup_on_exit(rounds, rank, msg);
}

struct end {
    int status, at_ms;
};

static void
the_first_by_its_nodes_clock_is_it_but_a_word_to_stop_before_all(void **state)
{
    static char n0[] = "n0", n1[] = "n1", n2[] = "n2";
    static const struct {
        const char *what;
        enum dlr_phase phase;
        const char *failure;
        struct end ends[3]; /* of ranks 0, 1, 2, as they are heard */
        int reason;         /* whose is it; -1: nobody's */
    } rows[] = {
        {"one of two", DLR_PHASE_RUN, NULL, {{1 << 8, 5}, {1 << 8, 7}}, 0},
        {"heard late", DLR_PHASE_RUN, NULL, {{1 << 8, 7}, {2 << 8, 5}}, 1},
        {"we kill the others", DLR_PHASE_RUN, NULL, {{1 << 8, 7}, {SIGKILL, 5}}, 0},
        {"well", DLR_PHASE_RUN, NULL, {{0, 1}, {1 << 8, 5}, {0, 2}}, 1},
        {"stop, then others",
         DLR_PHASE_RUN,
         NULL,
         {{STOP << 8, 9}, {1 << 8, 7}, {SIGABRT, 6}},
         0},
        {"Slurm's kill is heard first, and was",
         DLR_PHASE_RUN,
         NULL,
         {{SIGKILL, 4}, {STOP << 8, 5}, {1 << 8, 3}},
         1},
        {"Slurm's SIGTERM is heard first",
         DLR_PHASE_RUN,
         NULL,
         {{SIGTERM, 4}, {STOP << 8, 5}, {1 << 8, 3}},
         1},
        {"two say stop", DLR_PHASE_RUN, NULL, {{STOP << 8, 7}, {STOP << 8, 5}}, 1},
        {"srun ended first", DLR_PHASE_END, "srun ended", {{STOP << 8, 7}}, 0},
        {"a node is lost", DLR_PHASE_END, NULL, {{STOP << 8, 7}, {1 << 8, 6}}, -1},
        {"too late", DLR_PHASE_PERSIST, "it failed", {{STOP << 8, 7}}, -1},
    };
    char *const names[] = {n0, n1, n2};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].what);
        rounds_begin(names, 3);
        planning.step.world = planning.plan.world = 3;
        phase = rows[i].phase;
        failure = rows[i].failure;
        for (unsigned rank = 0; rank < 3; rank++)
            ends(rank, rows[i].ends[rank].status, rows[i].ends[rank].at_ms);
        assert_int_equal(rounds->failure.set ? (int)rounds->failure.rank : -1,
                         rows[i].reason);
        rounds_end();
    }
}

/* What ranks say, and the one that is named for the round's end. */
static void one_that_names_another_is_not_the_cause(void **state)
{
    static char n0[] = "n0", n1[] = "n1", n2[] = "n2";
    static const char peer[] = "RuntimeError: Connection closed by peer";
    static const char own[] = "ValueError: bad batch";
    static const char ecc[] = "CUDA error: uncorrectable ECC error encountered";
    static const struct {
        const char *what;
        struct {
            int status, at_ms;
            const char *says;
        } ends[3];
        int cause;
        const char *rule; /* NULL: none */
    } rows[] = {
        {"a peer is heard first",
         {{1 << 8, 5, peer}, {1 << 8, 7, own}},
         1,
         "python-exception"},
        {"its own error", {{1 << 8, 5, own}, {1 << 8, 7, ecc}}, 0, "python-exception"},
        {"two others",
         {{1 << 8, 5, peer}, {1 << 8, 6, own}, {1 << 8, 900, ecc}},
         2,
         "gpu-memory-uncorrectable"},
        {"too late", {{1 << 8, 5, peer}, {1 << 8, 2006, own}}, 0, "peer-gone"},
        {"too late after the first",
         {{1 << 8, 5, peer}, {1 << 8, 1500, own}, {1 << 8, 2500, ecc}},
         1,
         "python-exception"},
        {"only peers", {{1 << 8, 7, peer}, {1 << 8, 5, peer}}, 1, "peer-gone"},
        {"we killed it", {{1 << 8, 5, peer}, {SIGTERM, 7, own}}, 0, "peer-gone"},
        {"a signal of its own",
         {{1 << 8, 5, peer}, {SIGSEGV, 7, NULL}},
         1,
         "signal-segmentation"},
        {"killed from outside",
         {{SIGKILL, 5, NULL}, {1 << 8, 7, own}},
         0,
         "signal-kill"},
        {"without words", {{7 << 8, 5, NULL}, {1 << 8, 7, own}}, 0, NULL},
    };
    char *const names[] = {n0, n1, n2};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_class_said said = {0};

        print_message("%s\n", rows[i].what);
        rounds_begin(names, 3);
        planning.step.world = planning.plan.world = 3;
        assert_int_equal(dlr_sup_failure_reset(rounds, 3), 0);
        phase = DLR_PHASE_RUN;
        failure = NULL;
        for (unsigned rank = 0; rank < 3; rank++) {
            ends(rank, rows[i].ends[rank].status, rows[i].ends[rank].at_ms);
            if (rows[i].ends[rank].says)
                rounds->last_stderr[rank] = strdup(rows[i].ends[rank].says);
        }
        assert_int_equal(dlr_sup_first_cause(rounds, &said), rows[i].rule != NULL);
        assert_int_equal(rounds->failure.rank, rows[i].cause);
        assert_int_equal(rounds->failure.node, rows[i].cause);
        if (rows[i].rule)
            assert_string_equal(said.rule, rows[i].rule);
        rounds_end();
    }
}

static void write_rules(const char *text)
{
    FILE *file = fopen(conf.rules, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* A rule of the user's goes before ours, and of it stop and elsewhere are carried out. */
static void a_rule_of_the_users_is_asked_first(void **state)
{
    static char n0[] = "n0";
    static const struct {
        const char *says, *rule;
        bool stops, sits_out;
    } rows[] = {
        {"our: no license", "our-license", true, false},
        {"our: bad cable", "our-cable", false, true},
        {"ValueError: bad batch", "python-exception", false, false},
        {"CUDA error: uncorrectable ECC error encountered", "gpu-memory-uncorrectable",
         false, true},
    };
    char *const names[] = {n0};
    char why[600];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_class_said said = {0};
        struct dlr_err err;

        print_message("%s\n", rows[i].says);
        rounds_begin(names, 1);
        dlr_format(conf.rules, DLR_OPT_TEXT, "/tmp/dlr-rules-%d", (int)getpid());
        write_rules(
            "rule our-license\nclass setup\naction stop\npattern no license\nexample "
            "no license\n"
            "advice Ask.\nrule our-cable\nclass network\naction elsewhere\n"
            "pattern bad cable\nexample bad cable\nadvice Look.\n");
        if (dlr_sup_users_rules(rounds, &err) < 0)
            fail_msg("%s", err.text);
        planning.step.world = planning.plan.world = 1;
        assert_int_equal(dlr_sup_failure_reset(rounds, 1), 0);
        phase = DLR_PHASE_RUN;
        failure = NULL;
        ends(0, 1 << 8, 5);
        rounds->last_stderr[0] = strdup(rows[i].says);
        assert_true(dlr_sup_first_cause(rounds, &said));
        assert_string_equal(said.rule, rows[i].rule);
        assert_int_equal(dlr_sup_class_sits_out(rounds, &said), rows[i].sits_out);
        dlr_sup_note_class(rounds, &rounds->failure, &said);
        assert_int_equal(dlr_sup_rule_stops(rounds, why, sizeof(why)), rows[i].stops);
        if (rows[i].stops)
            assert_string_equal(why, "rule 'our-license' says stop: Ask.");
        unlink(conf.rules);
        rounds_end();
    }
}

/* By the kernel's count alone: words may be a mistake in a number. It goes before the
 * peers that lost their connection to it, though it was killed.
 */
static void what_died_for_want_of_memory_is_told_from_what_was_killed(void **state)
{
    static char n0[] = "n0", n1[] = "n1";
    static const struct {
        int status, starved;
        const char *says, *rule, *why;
    } rows[] = {
        {SIGKILL, 1, NULL, "oom-killed-counter",
         "rank 1 on n1 wanted more memory than it was given"},
        {1 << 8, 1, NULL, "oom-killed-counter",
         "rank 1 on n1 wanted more memory than it was given"},
        {SIGKILL, 0, NULL, "signal-kill", ""},
        {1 << 8, 0, "MemoryError: Unable to allocate 8.00 PiB for an array",
         "out-of-memory", ""},
    };
    char *const names[] = {n0, n1};
    char why[400];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_class_said said = {0};

        print_message("%s\n", rows[i].rule);
        rounds_begin(names, 2);
        planning.step.world = planning.plan.world = 2;
        assert_int_equal(dlr_sup_failure_reset(rounds, 2), 0);
        phase = DLR_PHASE_RUN;
        failure = NULL;
        starved = rows[i].starved;
        ends(1, rows[i].status, 5);
        starved = 0;
        if (rows[i].says)
            rounds->last_stderr[1] = strdup(rows[i].says);
        assert_true(dlr_sup_first_cause(rounds, &said));
        assert_string_equal(said.rule, rows[i].rule);
        dlr_sup_note_class(rounds, &rounds->failure, &said);
        assert_int_equal(dlr_sup_starves(rounds, why, sizeof(why)), !!rows[i].why[0]);
        assert_string_equal(why, rows[i].why);
        rounds_end();
    }
}

static void an_echo_of_what_died_for_want_of_memory_is_not_the_cause(void **state)
{
    static char n0[] = "n0", n1[] = "n1";
    char *const names[] = {n0, n1};
    struct dlr_class_said said = {0};

    rounds_begin(names, 2);
    planning.step.world = planning.plan.world = 2;
    assert_int_equal(dlr_sup_failure_reset(rounds, 2), 0);
    phase = DLR_PHASE_RUN;
    failure = NULL;
    ends(0, 1 << 8, 5);
    rounds->last_stderr[0] =
        strdup("RuntimeError: Connection closed by peer [10.0.0.2]:1");
    starved = 1;
    ends(1, SIGKILL, 9); /* heard later, by a clock that is behind */
    starved = 0;
    assert_true(dlr_sup_first_cause(rounds, &said));
    assert_string_equal(said.rule, "oom-killed-counter");
    assert_int_equal(rounds->failure.rank, 1);
    rounds_end();
    rounds_begin(names, 2); /* one that says nothing, and was quicker to be heard */
    planning.step.world = planning.plan.world = 2;
    assert_int_equal(dlr_sup_failure_reset(rounds, 2), 0);
    phase = DLR_PHASE_RUN;
    failure = NULL;
    ends(0, 1 << 8, 9);
    starved = 1;
    ends(1, SIGKILL, 5);
    starved = 0;
    assert_int_equal(rounds->failure.rank, 1);
    rounds_end();
}

static void rules_that_are_wrong_are_told_with_their_line(void **state)
{
    static char n0[] = "n0";
    char *const names[] = {n0};
    struct dlr_err err;

    rounds_begin(names, 1);
    dlr_format(conf.rules, DLR_OPT_TEXT, "/tmp/dlr-rules-%d", (int)getpid());
    assert_int_equal(dlr_sup_users_rules(rounds, &err), -ENOENT);
    write_rules("rule a\nclass nothing\n");
    assert_int_equal(dlr_sup_users_rules(rounds, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--dlrover-set=rules=/tmp/dlr-rules-"));
    assert_non_null(strstr(err.text, "line 2"));
    unlink(conf.rules);
    rounds_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            the_first_by_its_nodes_clock_is_it_but_a_word_to_stop_before_all),
        cmocka_unit_test(one_that_names_another_is_not_the_cause),
        cmocka_unit_test(a_rule_of_the_users_is_asked_first),
        cmocka_unit_test(rules_that_are_wrong_are_told_with_their_line),
        cmocka_unit_test(what_died_for_want_of_memory_is_told_from_what_was_killed),
        cmocka_unit_test(an_echo_of_what_died_for_want_of_memory_is_not_the_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
