/* SPDX-License-Identifier: Apache-2.0 */
/* Saying what a check has found. */
#include <stdarg.h>
#include <stdio.h>

#include "common/base/str.h"
#include "mpi_launcher/doctor/doctor.h"

const char *dlr_doctor_verdict_name(enum dlr_doctor_verdict v)
{
    static const char *const names[] = {"ok", "note", "skip", "problem"};

    return names[v];
}

void dlr_doctor_say(struct dlr_doctor_result *ret, enum dlr_doctor_verdict verdict,
                    const char *fmt, ...)
{
    va_list ap;

    ret->verdict = verdict;
    va_start(ap, fmt);
    vsnprintf(ret->text, sizeof(ret->text), fmt, ap);
    va_end(ap);
    dlr_plain(ret->text);
}
