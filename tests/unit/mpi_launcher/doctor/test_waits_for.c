/* SPDX-License-Identifier: Apache-2.0 */
/* What a requeued job waits for, of what scontrol prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/doctor/waits_for.h"

#define TAIL " (ExcNodeList: lost nodes until the next requeue, and the user's own)"

static const struct {
    const char *text, *want;
} rows[] = {
    {"JobId=7 JobName=a JobState=COMPLETING Reason=NodeFail NodeList=n[2-3] "
     "ExcNodeList=n9",
     "its processes on n[2-3] to end; on a dead node they have when Slurm calls that "
     "down "
     "(SlurmdTimeout)"},
    {"JobId=7 JobState=PENDING,COMPLETING NodeList=(null)",
     "its processes on its nodes to end; on a dead node they have when Slurm calls "
     "that "
     "down (SlurmdTimeout)"},
    {"JobId=7 JobState=PENDING Reason=BeginTime Dependency=(null) "
     "StartTime=2026-11-28T17:05:09 EndTime=Unknown ExcNodeList=n2 NodeList=(null)\n",
     "its begin time, 17:05:09 of 2026-11-28; not on n2" TAIL},
    {"JobId=7 JobState=PENDING Reason=Resources StartTime=2026-11-29T01:00:00 "
     "ExcNodeList=(null)",
     "its turn (Resources), which Slurm expects at 01:00:00 of 2026-11-29"},
    {"JobId=7 JobState=PENDING Reason=Priority StartTime=Unknown",
     "its turn (Priority)"},
    {"JobId=7 JobState=PENDING Reason=None StartTime=N/A", "its turn (no reason yet)"},
    {"JobId=7 JobState=PENDING Reason=JobHeldAdmin StartTime=Unknown",
     "somebody to release it: it is held (JobHeldAdmin)"},
    {"JobId=7 JobState=CONFIGURING NodeList=n1", "its nodes to boot"},
    {"JobId=7 JobState=RUNNING Reason=None NodeList=n1", ""},
    {"JobId=70 JobState=PENDING Reason=Priority\nJobId=7 JobState=PENDING "
     "Reason=Licenses\n",
     "its turn (Licenses)"},
    {"JobId=70 JobState=PENDING Reason=Priority\n", ""},
    {"JobId=7 Comment=JobState=PENDING", ""},
    {"slurm_load_jobs error: Invalid job id specified", ""},
    {"JobId=", ""},
    {"", ""},
};

static void it_is_told_in_words(void **state)
{
    char got[DLR_DOCTOR_WAITS];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("  %s\n", rows[i].text);
        dlr_doctor_waits_for(rows[i].text, "7", got);
        assert_string_equal(got, rows[i].want);
    }
}

/* Cut anywhere, and with values as long as can be. */
static void damaged_text_does_no_harm(void **state)
{
    DLR_AUTO_FREE char *list = malloc(4096);
    char got[DLR_DOCTOR_WAITS];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (size_t n = 0; n <= strlen(rows[i].text); n++) {
            DLR_AUTO_FREE char *text = strndup(rows[i].text, n);

            dlr_doctor_waits_for(text, "7", got);
        }
    assert_non_null(list);
    memset(list, 'n', 4096);
    memcpy(list, "JobId=7 JobState=PENDING ExcNodeList=", 37);
    list[4095] = '\0';
    dlr_doctor_waits_for(list, "7", got);
    assert_non_null(strstr(got, "; not on nnn"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_told_in_words),
        cmocka_unit_test(damaged_text_does_no_harm),
    };

    return cmocka_run_group_tests_name("waits_for", tests, NULL, NULL);
}
