/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_user_line,dlr_journal_note */
/* What the journal and the user are told of checks, and of injected faults. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/planning/verdicts.h"

static char told[2048];

static void add(const char *text)
{
    strncat(told, text, sizeof(told) - strlen(told) - 1);
}

void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    add(text);
    add("\n");
}

void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...);
void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...)
{
    char braced[128];
    DLR_AUTO_JSON json_t *row = NULL;
    char *text;
    va_list ap;

    dlr_format(braced, sizeof(braced), "{%s}", fmt);
    va_start(ap, fmt);
    row = json_vpack_ex(NULL, 0, braced, ap);
    va_end(ap);
    assert_non_null(row);
    text = json_dumps(row, JSON_COMPACT);
    add(event);
    add(text);
    add("\n");
    free(text);
}

static void a_drain_is_proposed_as_a_command(void **state)
{
    struct dlr_plan_verdict v[] = {
        {"n1", {"fan", DLR_HEALTH_WARN, "slow"}},
        {"n2", {"fan", DLR_HEALTH_FAIL, "still"}},
        {"n3", {"fan", DLR_HEALTH_DRAIN, "0 \"rpm\""}},
        {"n4", {"fan", DLR_HEALTH_DRAIN, "injected; fine"}},
    };
    struct dlr_plan plan = {.verdicts = v, .nverdicts = 4};
    struct dlr_sup_planning planning = {0};

    told[0] = '\0';
    dlr_sup_tell_verdicts(&planning, &plan);
    assert_string_equal(
        told, "check{\"node\":\"n1\",\"check\":\"fan\",\"verdict\":\"warn\","
              "\"reason\":\"slow\"}\n"
              "check{\"node\":\"n2\",\"check\":\"fan\",\"verdict\":\"fail\","
              "\"reason\":\"still\"}\n"
              "check{\"node\":\"n3\",\"check\":\"fan\",\"verdict\":\"drain\","
              "\"reason\":\"0 \\\"rpm\\\"\",\"drain\":\"scontrol update NodeName=n3 "
              "State=DRAIN Reason=\\\"dlrover: check=fan, 0 'rpm'\\\"\"}\n"
              "check{\"node\":\"n4\",\"check\":\"fan\",\"verdict\":\"drain\","
              "\"reason\":\"injected; fine\"}\n");
}

static void what_is_injected_is_told_and_what_cannot_be_refused(void **state)
{
    struct dlr_sup_planning planning = {0};
    struct dlr_err err = {0};

    told[0] = '\0';
    unsetenv("DLROVER_INJECT");
    assert_int_equal(dlr_sup_inject_check(&err), 0);
    dlr_sup_inject_tell(&planning);
    assert_string_equal(told, "");
    setenv("DLROVER_INJECT", "n2:memory=fail", 1);
    assert_int_equal(dlr_sup_inject_check(&err), 0);
    dlr_sup_inject_tell(&planning);
    assert_string_equal(told, "inject{\"faults\":\"n2:memory=fail\"}\n"
                              "faults are injected (DLROVER_INJECT): n2:memory=fail\n");
    setenv("DLROVER_INJECT", "n2:memory", 1);
    assert_int_equal(dlr_sup_inject_check(&err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drain_is_proposed_as_a_command),
        cmocka_unit_test(what_is_injected_is_told_and_what_cannot_be_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
