/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_agent_answer,dlr_agent_done */
/* Reports alone: a shell script is the program that makes them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/report.h"
#include "tests/support/agent_loop.h"

#define AT_MOST_MS 100 /* for a report that never comes */

static struct rig {
    struct dlr_agent_base *base;
    struct dlr_agent_reports *reports;
    struct dlr_agent_self self;
    char dir[32], program[64], input[64];
    unsigned awaited; /* ends of reports */
    char ends[512];   /* how they did, one after the other */
} rig;

static void note(const char *how)
{
    size_t at = strlen(rig.ends);

    snprintf(rig.ends + at, sizeof(rig.ends) - at, "%s;", how);
    if (--rig.awaited == 0)
        dlr_agent_end(rig.base);
}

static void note_report(const char *who, const json_t *report)
{
    DLR_AUTO_FREE char *text = report ? json_dumps(report, JSON_COMPACT) : NULL;
    char line[256];

    snprintf(line, sizeof(line), "%s %s", who, text ? text : "nothing");
    note(line);
}

static void on_own(void *arg, const json_t *report)
{
    assert_ptr_equal(arg, &rig);
    note_report("own", report);
}

void __wrap_dlr_agent_answer(struct dlr_agent_base *base,
                             const struct dlr_agent_origin *to, json_t *msg);
void __wrap_dlr_agent_answer(struct dlr_agent_base *base,
                             const struct dlr_agent_origin *to, json_t *msg)
{
    assert_int_equal(to->from, DLR_AGENT_SUPERVISOR);
    assert_string_equal(json_string_value(json_object_get(msg, "t")), "report");
    assert_int_equal(json_integer_value(json_object_get(msg, "id")), to->id);
    note_report("supervisor", json_object_get(msg, "report"));
    json_decref(msg);
}

void __wrap_dlr_agent_done(struct dlr_agent_base *base,
                           const struct dlr_agent_origin *to, int rc, const char *why);
void __wrap_dlr_agent_done(struct dlr_agent_base *base,
                           const struct dlr_agent_origin *to, int rc, const char *why)
{
    assert_int_equal(to->from, DLR_AGENT_SUPERVISOR);
    assert_int_equal(rc, -EIO);
    note(why);
}

/* ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    rig = (struct rig){.dir = "/tmp/dlr-test-report.XXXXXX"};
    dlr_job_config_init(&rig.self.job);
    if (!mkdtemp(rig.dir))
        return -1;
    dlr_format(rig.program, sizeof(rig.program), "%s/report", rig.dir);
    dlr_format(rig.input, sizeof(rig.input), "%s/input", rig.dir);
    dlr_format(rig.self.conf.report_program, sizeof(rig.self.conf.report_program), "%s",
               rig.program);
    dlr_format(rig.self.job.checks, sizeof(rig.self.job.checks), "auto,-cpu");
    rig.base = dlr_agent_base_new(NULL, NULL);
    rig.reports = dlr_agent_reports_new(rig.base, &rig.self, on_own, &rig);
    return rig.base && rig.reports ? 0 : -1;
}

static int teardown(void **state)
{
    rig.reports = dlr_agent_reports_free(rig.reports);
    rig.base = dlr_agent_base_free(rig.base);
    unlink(rig.program);
    unlink(rig.input);
    rmdir(rig.dir);
    return 0;
}

/* This is the program from now on; it leaves its input where a test may read it. */
static void make_program(const char *script)
{
    FILE *f = fopen(rig.program, "w");

    assert_non_null(f);
    fprintf(f, "#!/bin/sh\ncat \"${2#--input=}\" >%s\n%s\n", rig.input, script);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(rig.program, 0755), 0);
}

static void ask(enum dlr_agent_from from)
{
    const struct dlr_agent_origin origin = {.from = from, .id = 7};

    rig.awaited++;
    dlr_agent_report(rig.reports, &origin);
}

static void run(void)
{
    assert_true(agent_loop_ends(rig.base));
}

/* Which health checks the program was asked to make. */
static const char *checks(void)
{
    static char ret[32];
    DLR_AUTO_JSON json_t *input = json_load_file(rig.input, 0, NULL);
    const json_t *survey = json_object_get(input, "survey");

    dlr_format(ret, sizeof(ret), "%s",
               json_string_value(json_object_get(survey, "checks")));
    return ret;
}

static void the_supervisor_gets_one_with_its_checks(void **state)
{
    make_program("echo noise; echo 'DLROVER-REPORT {\"slots\":2}'; echo more");
    ask(DLR_AGENT_SUPERVISOR);
    run();
    assert_string_equal(rig.ends, "supervisor {\"slots\":2};");
    assert_string_equal(checks(), "quick,-cpu");
}

/* A successor wants versions, at once. */
static void the_agent_gets_its_own_without_checks(void **state)
{
    make_program("echo 'DLROVER-REPORT {}'");
    ask(DLR_AGENT_SELF);
    run();
    assert_string_equal(rig.ends, "own {};");
    assert_string_equal(checks(), "none");
}

static void a_program_that_says_nothing_of_use_is_told(void **state)
{
    make_program("echo 'DLROVER-REPORT [1]'");
    ask(DLR_AGENT_SUPERVISOR);
    ask(DLR_AGENT_SELF);
    run();
    assert_non_null(strstr(rig.ends, "no report was made;"));
    assert_non_null(strstr(rig.ends, "own nothing;"));
}

static void a_program_that_says_too_much_is_ended(void **state)
{
    make_program("exec yes");
    ask(DLR_AGENT_SUPERVISOR);
    run();
    assert_string_equal(rig.ends, "the report is too long;");
}

static void a_program_that_is_late_is_ended(void **state)
{
    rig.self.job.rendezvous_timeout_ms = AT_MOST_MS;
    make_program("exec sleep 1000");
    ask(DLR_AGENT_SUPERVISOR);
    run();
    assert_string_equal(rig.ends, "the report took too long;");
}

static void a_program_that_cannot_be_started_is_told_at_once(void **state)
{
    rig.awaited = 1; /* the end is not the loop's here */
    ask(DLR_AGENT_SUPERVISOR);
    assert_non_null(strstr(rig.ends, "report"));
}

static void nobody_hears_of_those_that_are_not_needed_any_more(void **state)
{
    make_program("exec sleep 1000");
    ask(DLR_AGENT_SUPERVISOR);
    rig.reports = dlr_agent_reports_free(rig.reports);
    assert_string_equal(rig.ends, "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_supervisor_gets_one_with_its_checks),
        T(the_agent_gets_its_own_without_checks),
        T(a_program_that_says_nothing_of_use_is_told),
        T(a_program_that_says_too_much_is_ended),
        T(a_program_that_is_late_is_ended),
        T(a_program_that_cannot_be_started_is_told_at_once),
        T(nobody_hears_of_those_that_are_not_needed_any_more),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
