/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover doctor: Slurm's settings, what the nodes of a job say, and limits. */
#include <errno.h>
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
#include "mpi_launcher/doctor/doctor.h"

#define LARGE (16u << 20)

static void assert_says(const struct dlr_doctor_result *r,
                        enum dlr_doctor_verdict verdict, const char *part)
{
    if (r->verdict != verdict || !strstr(r->text, part))
        print_error("%s: %s\ninstead of %s: ...%s...\n",
                    dlr_doctor_verdict_name(r->verdict), r->text,
                    dlr_doctor_verdict_name(verdict), part);
    assert_true(r->verdict == verdict && strstr(r->text, part));
}

static char config[] = "Configuration data as of 2026-11-21T13:32:49\n"
                       "AuthInfo                = cred_expire=5\n"
                       "JobContainerType        = job_container/tmpfs\n"
                       "PrologFlags             = Alloc,Contain\n"
                       "ProctrackType           = proctrack/pgid\n"
                       "PluginDir               = /a:/b\n"
                       "JobRequeue              = 1\n"
                       "Prolog                  = (null)\n"
                       "SlurmdTimeout           = 300 sec\n"
                       "TopologyPlugin          = topology/none\n"
                       "TreeWidth               = 50\n";

static void slurms_settings_are_judged(void **state)
{
    static const struct {
        void (*run)(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
        const char *release;
        enum dlr_doctor_verdict verdict;
        const char *part;
    } rows[] = {
        {dlr_doctor_proctrack, "22.05.8", DLR_DOCTOR_PROBLEM, "set proctrack/cgroup"},
        {dlr_doctor_prolog, "23.02.5", DLR_DOCTOR_NOTE, "before Slurm 23.02.6"},
        {dlr_doctor_prolog, "23.02.6", DLR_DOCTOR_OK, "PrologFlags=Alloc,Contain"},
        {dlr_doctor_prolog, "24.05.0", DLR_DOCTOR_OK, "PrologFlags=Alloc,Contain"},
        {dlr_doctor_requeue, "22.05.8", DLR_DOCTOR_OK, "starts 6 s later"},
        {dlr_doctor_topology, "22.05.8", DLR_DOCTOR_NOTE, "no switch is known"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_doctor d = {.config = config};
        struct dlr_doctor_result r = {0};

        dlr_format(d.release, sizeof(d.release), "%s", rows[i].release);
        rows[i].run(&d, &r);
        assert_says(&r, rows[i].verdict, rows[i].part);
        d.config = NULL;
        rows[i].run(&d, &r);
        assert_says(&r, DLR_DOCTOR_SKIP, "the configuration is not known");
    }
}

static void a_container_sees_the_tmpfs_from_linux_5_2_on(void **state)
{
    static const struct {
        const char *root;
        enum dlr_doctor_verdict verdict;
        const char *part;
    } rows[] = {
        {"tests/doctor/linux_4_18", DLR_DOCTOR_NOTE, "before Linux 5.2"},
        {"tests/doctor/linux_5_2", DLR_DOCTOR_OK, "in its container, too"},
        {"tests/doctor/nothing", DLR_DOCTOR_NOTE, "before Linux 5.2"},
    };

    static char newer[] = "Configuration data as of 2026-11-21T13:32:49\n"
                          "NamespaceType           = namespace/tmpfs\n";

    if (access("tests/doctor", F_OK) < 0)
        skip(); /* not started in the root of the sources */
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_doctor d = {.root = rows[i].root, .config = config};
        struct dlr_doctor_result r = {0};

        dlr_doctor_container(&d, &r);
        assert_says(&r, rows[i].verdict, rows[i].part);
        d.config = newer;
        dlr_doctor_container(&d, &r);
        assert_says(&r, rows[i].verdict, "NamespaceType=namespace/tmpfs: ");
    }
}

static void a_setting_is_found_by_its_whole_name(void **state)
{
    struct dlr_doctor d = {.config = config};
    char value[64];

    assert_true(dlr_doctor_config(&d, "SlurmdTimeout", value, sizeof(value)));
    assert_string_equal(value, "300 sec");
    assert_false(dlr_doctor_config(&d, "Prolog", value, sizeof(value))); /* (null) */
    assert_false(dlr_doctor_config(&d, "Slurmd", value, sizeof(value)));
}

/* --- what the nodes of a job say -------------------------------------------------- */

#define PROBE(node, version, ns, reach, problems)                                      \
    "dlrover-probe {\"node\":\"" node "\",\"version\":\"" version "\",\"ns\":" ns      \
    ",\"reach\":" reach ",\"state\":true,\"problems\":[" problems "]}\n"
#define GOOD "5000000000"

static void the_nodes_answers_are_judged(void **state)
{
    static const struct {
        void (*run)(const struct dlr_doctor *d, struct dlr_doctor_result *ret);
        char *nodes;
        enum dlr_doctor_verdict verdict;
        const char *part;
    } rows[] = {
        {dlr_doctor_nodes,
         "a prolog's words\n" PROBE("n1", DLR_VERSION, GOOD, "true", "")
             PROBE("n2", DLR_VERSION, GOOD, "true", ""),
         DLR_DOCTOR_OK, "2 nodes have version"},
        {dlr_doctor_nodes, "srun: error\n" PROBE("n1", DLR_VERSION, GOOD, "true", ""),
         DLR_DOCTOR_PROBLEM, "1 of 2 nodes answered"},
        {dlr_doctor_nodes,
         PROBE("n1", DLR_VERSION, GOOD, "true", "")
             PROBE("n2", "0.0.1", GOOD, "true", ""),
         DLR_DOCTOR_PROBLEM, "n2 has version 0.0.1, this host " DLR_VERSION},
        {dlr_doctor_nodes,
         PROBE("n1", DLR_VERSION, GOOD, "true",
               "{\"check\":\"ipc\",\"text\":\"RemoveIPC\"}")
             PROBE("n2", DLR_VERSION, GOOD, "true",
                   "{\"check\":\"shm\",\"text\":\"full\"}"),
         DLR_DOCTOR_PROBLEM, "n1: ipc: RemoveIPC (and 1 more)"},
        {dlr_doctor_clock,
         PROBE("n1", "1", GOOD, "true", "") PROBE("n2", "1", "65000000000", "true", ""),
         DLR_DOCTOR_PROBLEM, "n2 is 59.0 s ahead of this host"},
        {dlr_doctor_clock, PROBE("n1", "1", "3500000000", "true", ""), DLR_DOCTOR_OK,
         "all within"},
        {dlr_doctor_clock, PROBE("n1", "1", "1", "true", ""), DLR_DOCTOR_PROBLEM,
         "n1 is 4.0 s behind this host"},
        {dlr_doctor_network,
         PROBE("n1", "1", GOOD, "true", "") PROBE("n2", "1", GOOD, "false", ""),
         DLR_DOCTOR_PROBLEM, "n2 cannot connect"},
        {dlr_doctor_nodes, NULL, DLR_DOCTOR_PROBLEM, "does not come back"},
        {dlr_doctor_clock, NULL, DLR_DOCTOR_SKIP, "the nodes were not asked"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_doctor d = {.self = "/opt/bin/dlrover",
                               .nodes = rows[i].nodes,
                               .nodes_rc = rows[i].nodes ? 0 : -ETIMEDOUT,
                               .nodes_wanted = 2,
                               .nodes_from_ns = 4000000000,
                               .nodes_to_ns = 6000000000};
        struct dlr_doctor_result r = {0};

        rows[i].run(&d, &r);
        assert_says(&r, rows[i].verdict, rows[i].part);
    }
}

/* --- limits ----------------------------------------------------------------------- */

static void hangs(const struct dlr_doctor *d, void *ret)
{
    for (;;)
        pause();
}

static void crashes(const struct dlr_doctor *d, void *ret)
{
    raise(SIGKILL);
}

static void works(const struct dlr_doctor *d, void *ret)
{
    memset(ret, 'x', LARGE); /* more than a pipe holds */
}

static void a_check_that_hangs_or_dies_is_a_result(void **state)
{
    char *buf = calloc(1, LARGE);
    struct dlr_doctor d = {.limit_ms = 50};
    struct dlr_doctor_check check = {"name", "what it is for", DLR_DOCTOR_HOST, NULL};
    struct dlr_doctor_result r;

    assert_int_equal(dlr_doctor_bounded(hangs, &d, buf, 1, 50, "x"), -ETIMEDOUT);
    assert_int_equal(dlr_doctor_bounded(crashes, &d, buf, 1, 60000, "x"), -EIO);
    assert_int_equal(dlr_doctor_bounded(works, &d, buf, LARGE, 60000, "x"), 0);
    assert_int_equal(buf[LARGE - 1], 'x');
    free(buf);
    check.run = (void (*)(const struct dlr_doctor *, struct dlr_doctor_result *))hangs;
    dlr_doctor_run(&d, &check, &r);
    assert_says(&r, DLR_DOCTOR_PROBLEM, "no answer within 0.1 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slurms_settings_are_judged),
        cmocka_unit_test(a_container_sees_the_tmpfs_from_linux_5_2_on),
        cmocka_unit_test(a_setting_is_found_by_its_whole_name),
        cmocka_unit_test(the_nodes_answers_are_judged),
        cmocka_unit_test(a_check_that_hangs_or_dies_is_a_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
