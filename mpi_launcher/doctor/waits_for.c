/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/doctor/waits_for.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/doctor/doctor.h"

#define WAITS_FOR_MS 3000
#define TEXT_MAX (64u << 10) /* of an array each task has a line */
#define VALUE 160

/* The value of " KEY=VALUE" in the line; false: it is not there, or it is none. */
static bool field(const char *line, const char *key, char ret[VALUE])
{
    size_t end = strcspn(line, "\n"), n = strlen(key), size;

    ret[0] = '\0';
    for (size_t i = 0; i + n < end; i++) {
        if ((i && line[i - 1] != ' ') || strncmp(line + i, key, n) != 0 ||
            line[i + n] != '=')
            continue;
        size = strcspn(line + i + n + 1, " \n");
        snprintf(ret, VALUE, "%.*s", (int)(size < VALUE ? size : VALUE - 1),
                 line + i + n + 1);
        break;
    }
    return ret[0] && !dlr_streq(ret, "(null)") && !dlr_streq(ret, "Unknown") &&
           !dlr_streq(ret, "None") && !dlr_streq(ret, "N/A");
}

static const char *line_of(const char *text, const char *job)
{
    char id[VALUE];

    while (*text) {
        if (field(text, "JobId", id) && dlr_streq(id, job))
            return text;
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return NULL;
}

/* "2026-11-28T17:05:00" -> " 17:05:00 of 2026-11-28" */
static void add_time(const char *start, char ret[DLR_DOCTOR_WAITS])
{
    size_t used = strlen(ret), day = strcspn(start, "T");

    if (start[day])
        snprintf(ret + used, DLR_DOCTOR_WAITS - used, " %s of %.*s", start + day + 1,
                 (int)day, start);
    else
        snprintf(ret + used, DLR_DOCTOR_WAITS - used, " %s", start);
}

static void pending(const char *line, char ret[DLR_DOCTOR_WAITS])
{
    char reason[VALUE], start[VALUE];
    bool known = field(line, "Reason", reason), at = field(line, "StartTime", start);

    if (known && dlr_after(reason, "JobHeld")) {
        snprintf(ret, DLR_DOCTOR_WAITS, "somebody to release it: it is held (%s)",
                 reason);
        return;
    }
    if (dlr_streq(reason, "BeginTime"))
        snprintf(ret, DLR_DOCTOR_WAITS, "its begin time%s", at ? "," : "");
    else
        snprintf(ret, DLR_DOCTOR_WAITS, "its turn (%s)%s",
                 known ? reason : "no reason yet",
                 at ? ", which Slurm expects at" : "");
    if (at)
        add_time(start, ret);
}

void dlr_doctor_waits_for(const char *text, const char *job, char ret[DLR_DOCTOR_WAITS])
{
    const char *line = line_of(text, job);
    char state[VALUE], nodes[VALUE], excluded[VALUE];
    size_t used;

    ret[0] = '\0';
    if (!line || !field(line, "JobState", state))
        return;
    if (strstr(state, "COMPLETING")) {
        snprintf(
            ret, DLR_DOCTOR_WAITS,
            "its processes on %s to end; on a dead node they have when Slurm calls "
            "that down (SlurmdTimeout)",
            field(line, "NodeList", nodes) ? nodes : "its nodes");
        return;
    }
    if (dlr_streq(state, "CONFIGURING"))
        snprintf(ret, DLR_DOCTOR_WAITS, "its nodes to boot");
    if (!dlr_after(state, "PENDING"))
        return;
    pending(line, ret);
    used = strlen(ret);
    if (field(line, "ExcNodeList", excluded))
        snprintf(ret + used, DLR_DOCTOR_WAITS - used,
                 "; not on %s (ExcNodeList: lost nodes until the next requeue, and the "
                 "user's own)",
                 excluded);
}

static void ask(const struct dlr_doctor *d, void *ret)
{
    const char *const argv[] = {"scontrol", "-o", "show", "job", d->job, NULL};

    if (dlr_doctor_capture(argv, ret, TEXT_MAX) != 0)
        *(char *)ret = '\0';
}

void dlr_doctor_ask_waits_for(const char *job, char ret[DLR_DOCTOR_WAITS])
{
    DLR_AUTO_FREE char *text = calloc(1, TEXT_MAX);
    const struct dlr_doctor of = {.job = job};

    ret[0] = '\0';
    if (text &&
        dlr_doctor_bounded(ask, &of, text, TEXT_MAX, WAITS_FOR_MS, "scontrol") == 0)
        dlr_doctor_waits_for(text, job, ret);
}
