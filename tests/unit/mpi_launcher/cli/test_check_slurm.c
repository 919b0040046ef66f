/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover check --slurm against commands that play Slurm: a file is what slurmctld
 * knows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/check_slurm.h"

#define T0 1800000000ll

static const char sinfo_text[] = "#!/bin/sh\n"
                                 "[ \"$SLURM_TIME_FORMAT\" = %s ] || exit 1\n"
                                 "[ ! -e \"$FAKE/hang\" ] || exec sleep 60\n"
                                 "[ ! -e \"$FAKE/away\" ] || {\n"
                                 "    echo 'Unable to contact slurm controller' >&2\n"
                                 "    exit 1\n"
                                 "}\n"
                                 "echo \"sinfo $*\" >>\"$FAKE/calls\"\n"
                                 "case $* in\n"
                                 "*Comment*) cat \"$FAKE/comments\" ;;\n"
                                 "*) cat \"$FAKE/view\" ;;\n"
                                 "esac\n";

/* update NodeName=N [State=S] [Reason=R], or NodeName=N Comment=C */
static const char scontrol_text[] =
    "#!/bin/sh\n"
    "for word; do printf '%s|' \"$word\"; done >>\"$FAKE/calls\"\n"
    "echo >>\"$FAKE/calls\"\n"
    "node=${2#NodeName=} state=idle reason=none\n"
    "case $3 in Comment=*)\n"
    "    [ ! -e \"$FAKE/mute\" ] || exit 1\n"
    "    printf '%-64s%-256s\\n' \"$node\" \"${3#Comment=}\" >\"$FAKE/comments\"\n"
    "    exit 0 ;;\n"
    "esac\n"
    "for word; do\n"
    "    case $word in\n"
    "    State=DRAIN) state=drained ;;\n"
    "    Reason=*) reason=${word#Reason=} state=drained ;;\n"
    "    esac\n"
    "done\n"
    "now=$(cat \"$FAKE/now\")\n"
    "grep -v \"^$node|\" \"$FAKE/view\" >\"$FAKE/next\"\n"
    "echo \"$node|main|$state|$now|$reason\" >>\"$FAKE/next\"\n"
    "mv \"$FAKE/next\" \"$FAKE/view\"\n";

static char dir[64];

static void put(const char *name, const char *text, mode_t mode)
{
    char path[128];
    FILE *f;

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fchmod(fileno(f), mode), 0);
    fclose(f);
}

static char *get(const char *name)
{
    static char text[4096];
    char path[128];
    size_t n = 0;
    FILE *f;

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "r");
    if (f) {
        n = fread(text, 1, sizeof(text) - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    return text;
}

static int start(void **state)
{
    char path[256];

    dlr_format(dir, sizeof(dir), "/tmp/dlr_check_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    put("sinfo", sinfo_text, 0755);
    put("scontrol", scontrol_text, 0755);
    put("view",
        "n1|main|idle|Unknown|none\nn2|main|idle|Unknown|none\n"
        "n3|main|idle|Unknown|none\n",
        0644);
    put("comments", "", 0644);
    dlr_format(path, sizeof(path), "%s:/usr/bin:/bin", dir);
    setenv("PATH", path, 1);
    setenv("FAKE", dir, 1);
    unsetenv("DLROVER_INJECT");
    return 0;
}

static int stop(void **state)
{
    char command[128];

    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

/* One call on n1; fault NULL: a good node. */
static int check_at(int64_t at_s, const char *fault, bool may_resume)
{
    const char *const bases[] = {dir, NULL};
    struct dlr_health_env env;
    struct dlr_check_slurm c = {.env = &env,
                                .checks = "memory",
                                .node = "n1",
                                .bases = bases,
                                .may_resume = may_resume,
                                .now_s = T0 + at_s};
    char now[32];

    dlr_format(now, sizeof(now), "%lld", (long long)(T0 + at_s));
    put("now", now, 0644);
    dlr_health_env_init(&env);
    env.root = "tests/nodes/good";
    env.node = "n1";
    env.inject = fault;
    return dlr_check_slurm(&c);
}

static void a_bad_node_drains_itself_with_the_reason(void **state)
{
    char want[512];

    assert_int_equal(check_at(0, "n1:memory=drain", false), DLR_CLI_OK);
    assert_string_equal(get("calls"), ""); /* once is not enough to ask Slurm */
    assert_int_equal(check_at(300, "n1:memory=drain", false), DLR_CLI_FAIL);
    dlr_format(want, sizeof(want), "n1|main|drained|%lld|dlrover: check=memory, ",
               (long long)T0 + 300);
    assert_non_null(strstr(get("view"), want));
    assert_non_null(strstr(get("calls"),
                           "update|NodeName=n1|State=DRAIN|Reason=dlrover: "
                           "check=memory, injected; 58.59 of 64.00 GiB"));
    assert_non_null(strstr(get("calls"), "sinfo -h -a -N -o %N|%R|%T|%H|%E\n"));
    /* it is no failure that it is drained already */
    assert_int_equal(check_at(600, "n1:memory=drain", false), DLR_CLI_OK);
}

static void a_good_node_costs_slurm_nothing(void **state)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(check_at(i * 300, NULL, true), DLR_CLI_OK);
    assert_string_equal(get("calls"), "");
}

static void a_user_cannot_drain_a_node(void **state)
{
    setenv("DLROVER_INJECT", "*:memory=drain", 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(check_at(i * 300, NULL, false), DLR_CLI_OK);
    assert_string_equal(get("calls"), "");
}

static void a_node_is_resumed_where_that_is_asked_for(void **state)
{
    check_at(0, "n1:memory=drain", true);
    check_at(300, "n1:memory=drain", true);
    for (int i = 2; i < 6; i++)
        assert_int_equal(check_at(i * 300, NULL, true), DLR_CLI_OK);
    assert_non_null(strstr(get("view"), "n1|main|idle|"));
    assert_non_null(strstr(get("calls"), "update|NodeName=n1|State=RESUME|\n"));
}

static void n2_is_drained(void)
{
    char view[256];

    dlr_format(view, sizeof(view),
               "n1|main|idle|Unknown|none\n"
               "n2|main|drained|%lld|dlrover: check=memory, 7 errors\n",
               (long long)T0);
    put("view", view, 0644);
    check_at(0, "n1:memory=drain", false);
    assert_int_equal(check_at(300, "n1:memory=drain", false), DLR_CLI_OK);
    assert_non_null(strstr(get("view"), "n1|main|idle|"));
}

static void
the_second_node_with_the_same_fault_is_held_and_the_first_resumed(void **state)
{
    n2_is_drained();
    assert_non_null(strstr(get("calls"),
                           "update|NodeName=n2|Comment=dlrover: site fault? "
                           "check=memory, 7 errors|\n"
                           "update|NodeName=n2|State=RESUME|\n"));
    assert_non_null(strstr(get("view"), "n2|main|idle|"));
    /* it is told once, and ends with the fault */
    put("calls", "", 0644);
    assert_int_equal(check_at(1200, "n1:memory=drain", false), DLR_CLI_OK);
    assert_null(strstr(get("calls"), "update"));
}

static void nobody_is_resumed_for_a_word_that_is_not_out(void **state)
{
    put("mute", "", 0644);
    n2_is_drained();
    assert_non_null(strstr(get("view"), "n2|main|drained|"));
}

static void without_slurm_a_node_is_drained_later(void **state)
{
    put("away", "", 0644);
    check_at(0, "n1:memory=drain", false);
    assert_int_equal(check_at(300, "n1:memory=drain", false), DLR_CLI_OK);
    unlink(strcat(dir, "/away"));
    dir[strlen(dir) - strlen("/away")] = '\0';
    assert_int_equal(check_at(600, "n1:memory=drain", false), DLR_CLI_FAIL);
}

static void a_slurm_that_hangs_holds_up_no_prolog(void **state)
{
    int64_t from;

    put("hang", "", 0644);
    check_at(0, "n1:memory=drain", false);
    from = dlr_now_ms();
    assert_int_equal(check_at(300, "n1:memory=drain", false), DLR_CLI_OK);
    assert_true(dlr_now_ms() - from >= DLR_CHECK_SLURM_LIMIT_MS);
}

static void without_a_place_for_its_history_nothing_is_drained(void **state)
{
    put("dlrover-health", "", 0600);
    for (int i = 0; i < 3; i++)
        assert_int_equal(check_at(i * 300, "n1:memory=drain", false), DLR_CLI_OK);
    assert_string_equal(get("calls"), "");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(a_bad_node_drains_itself_with_the_reason),
        TEST(a_good_node_costs_slurm_nothing),
        TEST(a_user_cannot_drain_a_node),
        TEST(a_node_is_resumed_where_that_is_asked_for),
        TEST(the_second_node_with_the_same_fault_is_held_and_the_first_resumed),
        TEST(nobody_is_resumed_for_a_word_that_is_not_out),
        TEST(without_slurm_a_node_is_drained_later),
        TEST(a_slurm_that_hangs_holds_up_no_prolog),
        TEST(without_a_place_for_its_history_nothing_is_drained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
